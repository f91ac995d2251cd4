"""Parts that the input doesn't show: an assumption of `explain`, or a possible error, and never a plain answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "a:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}]},
}
NODE_POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "l4"},
    "spec": {
        "limits": {"nvidia.com/gpu": 8},
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
                "requirements": [
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.xlarge"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                ],
            }
        },
    },
}
DRIVER = "the image of pool l4 has NVIDIA's driver"


def node_class(term: dict[str, str]) -> dict[str, Any]:
    """An EC2NodeClass that selects its image by one term."""
    tags = [{"tags": {"karpenter.sh/discovery": "demo"}}]
    spec = {"amiFamily": "AL2023", "amiSelectorTerms": [term], "role": "nodes", "subnetSelectorTerms": tags}
    spec["securityGroupSelectorTerms"] = tags
    return {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "gpu"}, "spec": spec}


@pytest.mark.parametrize(
    ("term", "expected"), [({"id": "ami-0123456789abcdef0"}, True), ({"alias": "al2023@v20261012"}, False)]
)
def test_the_driver_of_a_custom_image_is_an_assumption(tmp_path: Path, term: dict[str, str], expected: bool) -> None:
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([NODE_POOL, node_class(term), POD]))
    report = check(read_input([str(tmp_path / "all.yaml")], assumed=frozenset({"device-plugin"})))

    [verdict] = report.explanation(report.cases[0]).verdicts

    assert (DRIVER in verdict.rests_on) is expected


@pytest.mark.parametrize(("enabled", "expected"), [(True, False), (False, True), ("${DRIVER}", True)])
def test_an_operator_without_its_driver_leaves_the_assumption(tmp_path: Path, enabled: Any, expected: bool) -> None:
    chart: dict[str, Any] = {
        "repoURL": "https://helm.ngc.nvidia.com/nvidia",
        "chart": "gpu-operator",
        "targetRevision": "v26.7.0",
    }
    chart["helm"] = {"valuesObject": {"driver": {"enabled": enabled}}}
    application = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "gpu-operator", "namespace": "argocd"},
        "spec": {"project": "default", "source": chart, "destination": {"namespace": "gpu-operator"}},
    }
    listed = [NODE_POOL, node_class({"id": "ami-0123456789abcdef0"}), POD, application]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(listed))
    report = check(read_input([str(tmp_path / "all.yaml")], assumed=frozenset({"device-plugin"})))

    [verdict] = report.explanation(report.cases[0]).verdicts

    assert (DRIVER in verdict.rests_on) is expected


def deployment(cluster: Any) -> dict[str, Any]:
    """A resource that applies a Deployment to a cluster."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "ml"}}
    properties = {
        "ServiceToken": "arn:aws:lambda:us-east-1:111122223333:function:kubectl",
        "ClusterName": cluster,
        "Manifest": json.dumps([manifest | {"spec": spec}]),
    }
    return {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": properties}


@pytest.mark.parametrize("later", [False, True])
def test_a_namespace_that_a_later_stack_needs_is_a_possible_error(tmp_path: Path, later: bool) -> None:
    made = {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "demo", "Version": "1.36"}}
    first: dict[str, Any] = {"Cluster": made}
    second: dict[str, Any] = {}
    (second if later else first)["Chat"] = deployment("demo")
    for name, resources in (("first", first), ("second", second)):
        if resources:
            (tmp_path / f"{name}.json").write_text(json.dumps({"Resources": resources}))

    report = check(read_input([str(tmp_path)]))

    [found] = [each for each in report.findings if each.rule.id == "GPU453"]
    assert found.problem.unknown is later
    assert ("before this stack is deployed" in found.problem.message) is later
