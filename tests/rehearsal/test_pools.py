"""What a pod asks for so that it runs on one pool and on no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_constructs.rehearsal.assemblies import Assembly
from gpu_constructs.rehearsal.pools import Asked, asked_of

NODEGROUP: dict[str, Any] = {
    "ClusterName": "jobs",
    "NodegroupName": "l4",
    "NodeRole": "arn:aws:iam::111122223333:role/nodes",
    "Subnets": ["subnet-0123456789abcdef0"],
    "AmiType": "AL2023_x86_64_NVIDIA",
    "InstanceTypes": ["g6.xlarge"],
    "ScalingConfig": {"MinSize": 0, "MaxSize": 2},
    "Taints": [{"Key": "nvidia.com/gpu", "Value": "present", "Effect": "NO_SCHEDULE"}],
}


def asked(folder: Path, **properties: Any) -> Asked:
    """Return what is asked of a stack whose one group is that."""
    group = {"Type": "AWS::EKS::Nodegroup", "Properties": NODEGROUP | properties}
    file = folder / "Jobs.template.json"
    file.write_text(json.dumps({"Resources": {"Group": group}}))
    assembly = Assembly(stack="Jobs", folder=folder, file=file, template={}, region="us-east-1")
    (found,) = asked_of([assembly])
    return found


@pytest.mark.parametrize(
    ("labels", "selector"),
    [({"gpu-constructs.io/pool": "l4"}, {"gpu-constructs.io/pool": "l4"}), ({"team": "vision"}, {}), ({}, {})],
)
def test_only_the_label_of_a_pool_holds_a_pod_to_a_group(
    tmp_path: Path, labels: dict[str, str], selector: dict[str, str]
) -> None:
    assert asked(tmp_path, Labels=labels).selector == selector


def test_nothing_is_asked_for_that_no_plugin_offers(tmp_path: Path) -> None:
    assert asked(tmp_path).resource == ""


def test_a_pod_tolerates_what_keeps_others_off_a_group(tmp_path: Path) -> None:
    found = asked(tmp_path)

    assert found.kind == "managed"
    assert found.tolerations == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def test_pools_that_come_as_files_are_asked_too(tmp_path: Path) -> None:
    requirements = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.xlarge"]}]
    node_class = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "l4"}
    template = {"spec": {"requirements": requirements, "nodeClassRef": node_class}}
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "l4"},
        "spec": {"template": template},
    }
    cluster = {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "jobs"}}
    (tmp_path / "cdk.out").mkdir()
    file, files = tmp_path / "cdk.out" / "Jobs.template.json", tmp_path / "files"
    files.mkdir()
    file.write_text(json.dumps({"Resources": {"Cluster": cluster}}))
    (files / "l4.yaml").write_text(json.dumps(pool))
    assembly = Assembly(stack="Jobs", folder=tmp_path, file=file, template={}, region="us-east-1", files=files)

    (found,) = asked_of([assembly])

    assert found.selector == {"karpenter.sh/nodepool": "l4"}
