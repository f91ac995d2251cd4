"""Managed node groups of eksctl, as pools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.reading.unknown import Unknown
from tests.preflight.reading.eksctl.config import managed


def test_a_managed_group(tmp_path: Path) -> None:
    found = managed(
        tmp_path,
        instanceTypes=["g6.xlarge"],
        minSize=0,
        maxSize=4,
        labels={"pool": "gpu"},
        taints=[{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}],
        spot=True,
    )

    assert (found.instance_types, found.min_nodes, found.max_nodes) == (("g6.xlarge",), 0, 4)
    assert (found.operating_system, found.capacity_types) == ("al2023", ("spot",))
    assert [str(each) for each in found.taints] == ["nvidia.com/gpu=true:NoSchedule"]
    assert "pool" in found.labels


@pytest.mark.parametrize(
    ("said", "image"),
    [
        ({"instanceType": "g6.xlarge"}, "AL2023_x86_64_NVIDIA"),
        ({"instanceType": "g5g.xlarge"}, "AL2023_ARM_64_NVIDIA"),
        ({"instanceType": "m6i.large"}, "AL2023_x86_64_STANDARD"),
        ({"instanceType": "m7g.large"}, "AL2023_ARM_64_STANDARD"),
        ({}, "AL2023_x86_64_STANDARD"),
        ({"instanceType": "g6.xlarge", "amiFamily": "Bottlerocket"}, "BOTTLEROCKET_x86_64_NVIDIA"),
        ({"instanceType": "g6.xlarge", "amiFamily": "AmazonLinux2"}, "AL2_x86_64_GPU"),
        ({"instanceType": "g6.xlarge", "amiFamily": "Ubuntu2404"}, None),
        ({"instanceType": "g6.xlarge", "ami": "ami-1"}, "CUSTOM"),
        ({"instanceSelector": {"gpus": 1}}, None),
        ({"instanceSelector": {"gpus": 1}, "instanceTypes": ["g6.xlarge"]}, "AL2023_x86_64_NVIDIA"),
    ],
)
def test_the_image_that_eksctl_chooses(tmp_path: Path, said: dict[str, Any], image: str | None) -> None:
    found = managed(tmp_path, **said).properties["AmiType"]

    assert (found if isinstance(found, str) else None) == image


@pytest.mark.parametrize(
    ("said", "least", "most"),
    [
        ({}, 2, 2),
        ({"minSize": 1, "maxSize": 3}, 1, 3),
        ({"desiredCapacity": 3}, 3, 3),
        ({"maxSize": 3}, 2, 3),
        ({"minSize": 0}, 0, 1),
        ({"desiredCapacity": 1, "maxSize": 4}, 1, 4),
    ],
)
def test_sizes_that_are_left_out(tmp_path: Path, said: dict[str, int], least: int, most: int) -> None:
    found = managed(tmp_path, **said)

    assert (found.min_nodes, found.max_nodes) == (least, most)


def test_labels_and_zones(tmp_path: Path) -> None:
    found = managed(tmp_path, instanceType="g6.xlarge", availabilityZones=["us-east-1a"])

    assert found.zones == ("us-east-1a",)
    assert {"alpha.eksctl.io/cluster-name", "alpha.eksctl.io/nodegroup-name"} <= found.labels.keys()


def test_disk_and_pods_of_a_node(tmp_path: Path) -> None:
    plain = managed(tmp_path, instanceType="g6.xlarge")
    chosen = managed(tmp_path, instanceType="g6.xlarge", volumeSize=300, volumeType="gp2", maxPodsPerNode=20)

    assert (plain.launch.disk_sizes, plain.user_data.format) == ({"/dev/xvda": 80}, "none")
    assert chosen.launch.disk_sizes == {"/dev/xvda": 300}
    assert chosen.user_data.kubelet_config == {"maxPods": 20}


def test_interfaces_of_efa(tmp_path: Path) -> None:
    assert managed(tmp_path, instanceType="p5.48xlarge", efaEnabled=True).launch.efa_interfaces == 32
    assert managed(tmp_path, instanceType="p5.48xlarge").launch.efa_interfaces == 0


def test_a_capacity_block(tmp_path: Path) -> None:
    target = {"capacityReservationID": "cr-0123456789abcdef0"}
    found = managed(
        tmp_path,
        instanceType="p5.48xlarge",
        instanceMarketOptions={"marketType": "capacity-block"},
        capacityReservation={"capacityReservationTarget": target},
    )

    assert (found.instance_types, found.capacity_types) == (("p5.48xlarge",), ("capacity-block",))
    assert found.launch.reservation == "cr-0123456789abcdef0"


def test_a_launch_template_of_ones_own_is_not_read(tmp_path: Path) -> None:
    found = managed(tmp_path, instanceTypes=["g6.xlarge"], launchTemplate={"id": "lt-0123456789abcdef0", "version": 3})

    assert found.properties["LaunchTemplate"] == {"Id": "lt-0123456789abcdef0", "Version": "3"}
    assert found.launch_resource is None


def test_an_image_of_ones_own_joins_by_itself(tmp_path: Path) -> None:
    found = managed(tmp_path, instanceType="g6.xlarge", ami="ami-0123456789abcdef0", amiFamily="AmazonLinux2023")

    assert (found.launch.image, found.user_data.node_config["cluster"]["name"]) == ("ami-0123456789abcdef0", "demo")


@pytest.mark.parametrize("family", ["BottlerocketFips", "bottlerocketfips"])
def test_eksctl_reads_families_in_any_case(tmp_path: Path, family: str) -> None:
    pool = managed(tmp_path, amiFamily=family, instanceType="g6.xlarge")

    assert pool.properties["AmiType"] == "BOTTLEROCKET_x86_64_NVIDIA_FIPS"


@pytest.mark.parametrize("taints", ["${TAINTS}", ["${TAINT}", {"key": "team", "effect": "NoSchedule"}]])
def test_taints_that_only_deployment_knows(tmp_path: Path, taints: Any) -> None:
    assert isinstance(managed(tmp_path, taints=taints).properties["Taints"], Unknown)
