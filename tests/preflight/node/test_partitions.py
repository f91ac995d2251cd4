"""Slices of the GPUs of a node that the GPU Operator cuts as a label of the node says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.judging.check import check
from gpu_preflight.model.answer import Answer
from tests.preflight.inputs import given

CLUSTER = {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "demo", "Version": "1.35"}}
MIXED: dict[str, Any] = {"driver": {"enabled": False}, "toolkit": {"enabled": False}, "mig": {"strategy": "mixed"}}


def answer(
    folder: Path, *, resource: str, label: str = "all-1g.5gb", values: Any = MIXED, pods: int = 1, each: int = 1
) -> Answer:
    group = {
        "ClusterName": {"Ref": "Cluster"},
        "NodeRole": "arn:aws:iam::111122223333:role/nodes",
        "Subnets": ["subnet-0123456789abcdef0"],
        "AmiType": "AL2023_x86_64_NVIDIA",
        "InstanceTypes": ["p4d.24xlarge"],
        "ScalingConfig": {"MinSize": 1, "DesiredSize": 1, "MaxSize": 1},
        "Labels": {"nvidia.com/mig.config": label},
    }
    chart = {"Chart": "gpu-operator", "Version": "v26.7.0", "Release": "gpu-operator", "Namespace": "gpu-operator"}
    operator = {"ClusterName": {"Ref": "Cluster"}, **chart, "Values": json.dumps(values)}
    resources = {
        "Cluster": CLUSTER,
        "Nodes": {"Type": "AWS::EKS::Nodegroup", "Properties": group},
        "Operator": {"Type": "Custom::AWSCDK-EKS-HelmChart", "Properties": operator},
    }
    container = {"name": "c", "image": "a/b:1", "resources": {"limits": {resource: each}}}
    spec = {"replicas": pods, "selector": {"matchLabels": {"a": "b"}}}
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "serve"}}
    folder.mkdir(exist_ok=True)
    (folder / "serve.json").write_text(json.dumps({**deployment, "spec": {**spec, "template": pod}}))
    report = check(given(folder, {"Resources": resources}))
    (verdict,) = report.explanation(report.cases[0]).verdicts
    return verdict.answer


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"resource": "nvidia.com/mig-1g.5gb"}, Answer.YES),
        ({"resource": "nvidia.com/mig-1g.5gb", "pods": 56}, Answer.YES),
        ({"resource": "nvidia.com/mig-1g.5gb", "pods": 57}, Answer.NO),
        ({"resource": "nvidia.com/mig-3g.20gb", "label": "all-3g.20gb", "pods": 16}, Answer.YES),
        ({"resource": "nvidia.com/mig-3g.20gb"}, Answer.NO),
        ({"resource": "nvidia.com/gpu"}, Answer.NO),
        ({"resource": "nvidia.com/gpu", "label": "all-disabled"}, Answer.YES),
    ],
)
def test_a_label_says_the_slices(tmp_path: Path, asked: dict[str, Any], expected: Answer) -> None:
    assert answer(tmp_path, **asked) is expected


@pytest.mark.parametrize("resource", ["nvidia.com/mig-1g.5gb", "nvidia.com/gpu"])
@pytest.mark.parametrize(
    "told",
    [
        {"label": "all-balanced"},
        {"label": "team-a"},
        {"values": {**MIXED, "migManager": {"config": {"name": "geometries"}}}},
    ],
    ids=["several profiles", "custom name", "custom geometries"],
)
def test_a_geometry_that_is_not_known(tmp_path: Path, resource: str, told: dict[str, Any]) -> None:
    assert answer(tmp_path, resource=resource, **told) is Answer.UNKNOWN


def test_without_its_manager_a_label_cuts_nothing(tmp_path: Path) -> None:
    values = {**MIXED, "migManager": {"enabled": False}}

    assert answer(tmp_path, resource="nvidia.com/gpu", values=values) is Answer.YES
    assert answer(tmp_path, resource="nvidia.com/mig-1g.5gb", values=values) is Answer.NO
