"""Golden user data: the input of nodeadm, Bottlerocket, and of the code of EKS and Karpenter that merges it."""

from __future__ import annotations

from typing import Any

import pytest
import tomli
import yaml
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import Disk, NodeShape
from gpu_constructs.nodes.bootstrap import Membership
from gpu_constructs.nodes.user_data import joining_user_data, node_class_user_data, user_data
from gpu_constructs.pools import Kubelet
from tests.user_data import parts_of

MEMBERSHIP = Membership(
    name="demo",
    endpoint="https://0123456789ABCDEF.gr7.us-east-1.eks.amazonaws.com",
    certificate_authority="Y2VydGlmaWNhdGU=",
    service_cidr="172.20.0.0/16",
    kubernetes_version="1.36",
    ami_release="v20260714",
    image_parameter="/image",
)


def everything(system: Any) -> NodeShape:
    """Nodes with every setting that user data carries."""
    return NodeShape(
        instance_types=("p5.48xlarge",),
        operating_system=system,
        efa=True,
        soci=True,
        disk=Disk(size_gib=200, iops=16_000, throughput_mib_s=1_000),
        kubelet=Kubelet(
            max_pods=100,
            kube_reserved={"cpu": "500m", "memory": "4Gi"},
            system_reserved={"memory": "1Gi"},
            parallel_image_pulls=8,
        ),
        labels={"team": "research"},
    )


@pytest.mark.parametrize("system", ["al2023", "bottlerocket"])
def test_a_managed_node(system: str, snapshot_text: SnapshotAssertion) -> None:
    assert user_data(everything(system)) == snapshot_text


@pytest.mark.parametrize("system", ["al2023", "bottlerocket"])
def test_a_node_that_joins_by_itself(system: str, snapshot_text: SnapshotAssertion) -> None:
    assert joining_user_data(everything(system), "research", MEMBERSHIP) == snapshot_text


@pytest.mark.parametrize("system", ["al2023", "bottlerocket"])
def test_a_node_of_karpenter(system: str, snapshot_text: SnapshotAssertion) -> None:
    assert node_class_user_data(everything(system)) == snapshot_text


def test_karpenter_gets_only_settings_that_its_node_class_lacks() -> None:
    [(_, text)] = parts_of(node_class_user_data(everything("al2023")))

    assert yaml.safe_load(text)["spec"] == {
        "featureGates": {"FastImagePull": True},
        "kubelet": {"config": {"maxParallelImagePulls": 8}},
    }


@pytest.mark.parametrize("render", [user_data, node_class_user_data])
def test_eks_and_karpenters_mergers_read_the_toml(render: Any) -> None:
    text = render(everything("bottlerocket"))

    assert "settings" in tomli.loads(text)
    # EKS' merger refuses a table header with quotes in it.
    assert [line for line in text.splitlines() if line.startswith("[") and '"' in line] == []


def test_user_data_fits_into_what_ec2_takes() -> None:
    for system in ("al2023", "bottlerocket"):
        assert len(joining_user_data(everything(system), "research", MEMBERSHIP)) < 16_384
