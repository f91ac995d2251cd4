"""Long texts that slow patterns take long to match, in every place that a rule reads.

A pattern that goes back over what it has seen takes so long here that it is noticed; one that does so again and again
does not end.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.long import count
from tests.preflight.hostile.files import GROUP, everything, file_of

# Quadratic time is surely noticed at the full size, which `make long` runs.
SIZE = count(100_000, 400_000)


@pytest.mark.parametrize(
    "text",
    ["${" * SIZE, "${a." * SIZE, "$" * (SIZE * 5 // 2), "${!" * (SIZE * 3 // 4), "{{resolve:" * 80_000],
)
def test_texts_made_for_slow_patterns_end(tmp_path: Path, text: str) -> None:
    value = {"Fn::Sub": text}
    manifest = {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": value}}
    group = {**GROUP, "Properties": {"Labels": {"a": text, "b": value}, "InstanceTypes": [text], "ClusterName": value}}

    assert everything(file_of(tmp_path, {"Resources": {"Nodes": group, "Manifest": manifest}})) is not None


# Four times as long is more than a file may hold.
LONG = 50_000


@pytest.mark.parametrize(
    "text",
    [
        "a" * LONG,
        "1" * LONG,
        " " * LONG,
        "\n" * LONG,
        "-" * LONG,
        "." * LONG,
        "--" + "a-" * LONG,
        "a=" * LONG,
        ":" * LONG,
        "nvidia-smi " * (LONG // 10),
        "nvidia-smi mig " * (LONG // 10),
        "avg (" * (LONG // 5),
        "DCGM_FI_" * (LONG // 8),
        "g6" + "a-" * LONG,
        "apt-get install " * (LONG // 16),
        "asg:tag=" * (LONG // 8),
        "runtimes." * (LONG // 9),
        "default_runtime_name " * (LONG // 20),
        "vector( " * (LONG // 8),
        "sum by (" * (LONG // 8),
        "*a" * 1_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_no_pattern_of_any_rule_is_slow(tmp_path: Path, text: str) -> None:
    """One long text at every place of a cluster where a rule looks."""
    assert everything(file_of(tmp_path, _cluster_full_of(text))) is not None


def _cluster_full_of(text: str) -> Any:
    pod = {
        "containers": [
            {
                "name": text,
                "image": text,
                "command": [text],
                "args": [text],
                "env": [{"name": text, "value": text}],
                "resources": {"limits": {"nvidia.com/gpu": text, text: "1"}},
            }
        ],
        "nodeSelector": {text: text},
        "tolerations": [{"key": text, "value": text}],
        "priorityClassName": text,
        "schedulerName": text,
    }
    kinds = ("Deployment", "DaemonSet", "Job")
    objects = [
        {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": text, "labels": {text: text}, "annotations": {text: text}},
            "spec": {"template": {"spec": pod}},
        }
        for kind in kinds
    ]
    scaled = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "s"},
        "spec": {
            "triggers": [{"type": "prometheus", "metadata": {"query": text, "threshold": text}}],
            "scaleTargetRef": {"name": text},
        },
    }
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {"metrics": [{"type": "Pods", "pods": {"metric": {"name": text}, "target": {"averageValue": text}}}]},
    }
    node_pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": text},
        "spec": {
            "limits": {"cpu": text},
            "disruption": {"consolidateAfter": text, "budgets": [{"nodes": text, "duration": text, "schedule": text}]},
            "template": {
                "metadata": {"labels": {text: text}},
                "spec": {
                    "expireAfter": text,
                    "requirements": [
                        {"key": text, "operator": "In", "values": [text]},
                        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [text]},
                    ],
                },
            },
        },
    }
    node_class = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": text},
        "spec": {"amiSelectorTerms": [{"alias": text}], "userData": text},
    }
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": text}, "data": {text: text}}
    objects = [*objects, scaled, autoscaler, node_pool, node_class, config]
    group = {
        "ClusterName": "demo",
        "AmiType": text,
        "Version": text,
        "ReleaseVersion": text,
        "InstanceTypes": [text, "g6.xlarge"],
        "Labels": {text: text},
        "Taints": [{"Key": text, "Value": text, "Effect": text}],
        "Tags": {text: text},
        "LaunchTemplate": {"Id": {"Ref": "Template"}},
    }
    launch = {
        "LaunchTemplateData": {"ImageId": text, "InstanceType": text, "UserData": {"Fn::Base64": "#!/bin/sh\n" + text}}
    }
    addon = {"ClusterName": "demo", "AddonName": text, "AddonVersion": text, "ConfigurationValues": text}
    chart = {"ClusterName": "demo", "Chart": text, "Version": text, "Values": json.dumps({text: text})}
    resources = {
        "Cluster": {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "demo", "Version": "1.36"}},
        "Nodes": {"Type": "AWS::EKS::Nodegroup", "Properties": group},
        "Template": {"Type": "AWS::EC2::LaunchTemplate", "Properties": launch},
        "Addon": {"Type": "AWS::EKS::Addon", "Properties": addon},
        "Chart": {"Type": "Custom::AWSCDK-EKS-HelmChart", "Properties": chart},
        "Manifest": {
            "Type": "Custom::AWSCDK-EKS-KubernetesResource",
            "Properties": {"ClusterName": "demo", "Manifest": json.dumps(objects)},
        },
    }
    return {"Resources": resources}
