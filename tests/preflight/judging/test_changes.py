"""What a deployment does to each resource and object that differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_constructs.preflight.judging.changes import resource_changes
from gpu_constructs.preflight.judging.review import review
from tests.preflight.inputs import given

MANIFEST, CHART = "Custom::AWSCDK-EKS-KubernetesResource", "Custom::AWSCDK-EKS-HelmChart"
QUEUED = {"kueue.x-k8s.io/queue-name": "nlp"}


def applied(kind: str, spec: Any, *, api: str = "v1", name: str = "it", **metadata: Any) -> dict[str, Any]:
    manifest = {"apiVersion": api, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}
    return {
        "Type": MANIFEST,
        "Properties": {"ServiceToken": "arn:1", "ClusterName": "demo", "Manifest": json.dumps([manifest])},
        "DeletionPolicy": "Delete",
    }


def aws(type: str, **properties: Any) -> dict[str, Any]:
    return {"Type": type, "Properties": properties}


def changes(folder: Path, old: Any, new: Any) -> list[tuple[str, str]]:
    before, after = ({"Resources": each} for each in (old, new))
    found = resource_changes(given(folder / "old", before), given(folder / "new", after))
    return [(each.change, each.kind) for each in found]


def group(**pod: Any) -> Any:
    spec = {"leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": {"containers": [pod]}}}}
    return applied("LeaderWorkerSet", spec, api="leaderworkerset.x-k8s.io/v1", labels=QUEUED)


FILES = {"FileSystemType": "LUSTRE", "SubnetIds": ["subnet-1"]}
NODE_GROUP = {"ClusterName": "demo", "NodegroupName": "l4", "AmiType": "AL2023_x86_64_NVIDIA"}
ENTRY = {"ClusterName": "demo", "PrincipalArn": "arn:aws:iam::111122223333:role/Ann"}
RELEASE = aws(CHART, ClusterName="demo", Namespace="keda", Release="keda", Chart="keda")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"A": aws("AWS::SQS::Queue", DelaySeconds=1)}, {"A": aws("AWS::SQS::Queue", DelaySeconds=1)}, []),
        (
            {"A": aws("AWS::SQS::Queue", DelaySeconds=1)},
            {"A": aws("AWS::SQS::Queue", DelaySeconds=2)},
            [("in place", "Queue")],
        ),
        ({}, {"A": aws("AWS::SQS::Queue")}, [("added", "Queue")]),
        ({"A": aws("AWS::SQS::Queue")}, {}, [("removed", "Queue")]),
        ({"A": aws("AWS::SQS::Queue")}, {"A": aws("AWS::SNS::Topic")}, [("fails", "Topic")]),
        ({"A": aws("AWS::Some::Thing", A=1)}, {"A": aws("AWS::Some::Thing", A=2)}, [("unknown", "Thing")]),
        (
            {"A": aws("Custom::Own", ServiceToken="arn:1")},
            {"A": aws("Custom::Own", ServiceToken="arn:2")},
            [("fails", "Own")],
        ),
        (
            {"A": aws("AWS::EKS::Nodegroup", **NODE_GROUP)},
            {"A": aws("AWS::EKS::Nodegroup", **{**NODE_GROUP, "AmiType": "CUSTOM"})},
            [("fails", "Nodegroup")],
        ),
        (
            {"A": aws("AWS::EKS::Nodegroup", **{**NODE_GROUP, "NodegroupName": None})},
            {"A": aws("AWS::EKS::Nodegroup", **{**NODE_GROUP, "NodegroupName": None, "AmiType": "CUSTOM"})},
            [("replaced", "Nodegroup")],
        ),
        (
            {"A": aws("AWS::EKS::AccessEntry", **ENTRY)},
            {"B": aws("AWS::EKS::AccessEntry", **ENTRY)},
            [("fails", "AccessEntry")],
        ),
        ({"A": RELEASE}, {"B": RELEASE}, [("destructive", "HelmChart")]),
        (
            {"A": RELEASE},
            {"A": {**RELEASE, "Properties": {**RELEASE["Properties"], "Release": "other"}}},
            [("left behind", "HelmChart")],
        ),
        (
            {"A": aws("AWS::FSx::FileSystem", **FILES)},
            {"A": aws("AWS::FSx::FileSystem", **{**FILES, "SubnetIds": ["subnet-2"]})},
            [("destructive", "FileSystem")],
        ),
        (
            {"A": {**aws("AWS::FSx::FileSystem", **FILES), "UpdateReplacePolicy": "Retain"}},
            {"A": aws("AWS::FSx::FileSystem", **{**FILES, "SubnetIds": ["subnet-2"]})},
            [("replaced", "FileSystem")],
        ),
        ({"A": aws("AWS::FSx::FileSystem", **FILES)}, {}, [("destructive", "FileSystem")]),
        ({"A": {**aws("AWS::FSx::FileSystem", **FILES), "DeletionPolicy": "Retain"}}, {}, [("removed", "FileSystem")]),
        (
            # What refers to another VPC is another one, too.
            {
                "V": aws("AWS::EC2::VPC", CidrBlock="10.0.0.0/16"),
                "S": aws("AWS::EC2::Subnet", VpcId={"Ref": "V"}, CidrBlock="10.0.0.0/24"),
            },
            {
                "V": aws("AWS::EC2::VPC", CidrBlock="10.1.0.0/16"),
                "S": aws("AWS::EC2::Subnet", VpcId={"Ref": "V"}, CidrBlock="10.0.0.0/24"),
            },
            [("replaced", "Subnet"), ("replaced", "VPC")],
        ),
        (
            {"A": applied("Deployment", {"replicas": 1}, api="apps/v1")},
            {"A": applied("Deployment", {"replicas": 2}, api="apps/v1")},
            [("in place", "Deployment")],
        ),
        (
            {"A": applied("Deployment", {"selector": {"a": "b"}}, api="apps/v1")},
            {"A": applied("Deployment", {"selector": {"a": "c"}}, api="apps/v1")},
            [("fails", "Deployment")],
        ),
        (
            {"A": applied("Deployment", {}, api="apps/v1")},
            {"A": applied("Deployment", {}, api="apps/v1", name="other")},
            [("left behind", "Deployment"), ("added", "Deployment")],
        ),
        (
            {"A": applied("Deployment", {}, api="apps/v1")},
            {"B": applied("Deployment", {}, api="apps/v1", name="other")},
            [("replaced", "Deployment")],
        ),
        (
            {"A": applied("Deployment", {}, api="apps/v1")},
            {"B": applied("Deployment", {}, api="apps/v1")},
            [("destructive", "Deployment")],
        ),
        (
            {"A": applied("Job", {}, api="batch/v1")},
            {"B": applied("Job", {}, api="batch/v1", name="other")},
            [("destructive", "Job")],
        ),
        ({"A": applied("Namespace", {})}, {}, [("destructive", "Namespace")]),
        ({"A": {**applied("Namespace", {}), "DeletionPolicy": "Retain"}}, {}, [("removed", "Namespace")]),
        ({"A": applied("PersistentVolumeClaim", {})}, {}, [("destructive", "PersistentVolumeClaim")]),
        (
            {"A": applied("PersistentVolumeClaim", {"volumeName": "it"})},
            {},
            [("removed", "PersistentVolumeClaim")],
        ),
        ({"A": group(image="a")}, {"A": group(image="b")}, [("in place", "LeaderWorkerSet")]),
        ({"A": group(ports=[1])}, {"A": group(ports=[2])}, [("fails", "LeaderWorkerSet")]),
        (
            {"A": applied("NodePool", {"limits": {"cpu": 1}}, api="karpenter.sh/v1")},
            {"A": applied("NodePool", {"replicas": 2}, api="karpenter.sh/v1")},
            [("fails", "NodePool")],
        ),
        (
            {"A": applied("NodePool", {"replicas": 1}, api="karpenter.sh/v1")},
            {"A": applied("NodePool", {"replicas": 2}, api="karpenter.sh/v1")},
            [("in place", "NodePool")],
        ),
    ],
)
def test_a_change(tmp_path: Path, old: Any, new: Any, expected: list[tuple[str, str]]) -> None:
    # No input is empty.
    kept = {"Kept": aws("AWS::SNS::Topic")}

    assert changes(tmp_path, {**kept, **old}, {**kept, **new}) == expected


def test_a_rejected_update_fails_the_review(tmp_path: Path) -> None:
    old, new = (
        {"Resources": {"A": applied("ResourceClaim", {"devices": each}, api="resource.k8s.io/v1")}}
        for each in ("a", "b")
    )

    found = review(given(tmp_path / "old", old), given(tmp_path / "new", new))

    assert [each.change for each in found.changes] == ["fails"]
    assert "take another name" in found.changes[0].detail
    assert found.fails
