"""The allocatable resources of a node with some figures, without the share of kubelet, system and hypervisor."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_facts.hardware.catalogue import InstanceType, NetworkCard, catalogue
from gpu_facts.hardware.node_capacity import eni_pods
from gpu_facts.quantities import GIB, MIB
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.launch import Disk, Launch
from gpu_preflight.node.instance_types import allocatable, disk_bytes, max_pods, root_device, root_gib, uses_local_disks
from gpu_preflight.reading.unknown import Unknown
from gpu_preflight.reading.user_data import UserData
from tests.preflight.readers import pool

EXAMPLES = settings(max_examples=100)
LATER = Unknown("${Later}")


def row(**changes: Any) -> InstanceType:
    """A g6.xlarge with 4 vCPUs, 16 GiB and 250 GB of NVMe, of which the figures may be others."""
    return replace(catalogue()["g6.xlarge"], **changes)


def told(config: Any, **changes: Any) -> Pool:
    """A pool of AL2023 nodes whose NodeConfig configures kubelet."""
    return pool(user_data=UserData("nodeadm", node_config={"kubelet": {"config": config}}), **changes)


def launched(**changes: Any) -> Pool:
    """A pool of Karpenter whose node class says something."""
    return pool(kind="karpenter", launch=Launch(written={"role": "nodes"}, **changes))


@pytest.mark.parametrize(
    ("vcpus", "milli"),
    [(1, 940), (2, 1930), (3, 2925), (4, 3920), (5, 4917), (6, 5915), (8, 7910), (192, 191_450)],
)
def test_kubelet_keeps_less_of_each_further_core(vcpus: int, milli: int) -> None:
    least, most = allocatable(pool(), row(vcpus=vcpus))

    assert least["cpu"] == most["cpu"] == milli


@pytest.mark.parametrize(
    ("cards", "addresses", "pods"),
    [
        ((NetworkCard(index=0, interfaces=4, types=()),), 15, 58),
        ((NetworkCard(index=0, interfaces=2, types=()), NetworkCard(index=1, interfaces=9, types=())), 10, 20),
        ((NetworkCard(index=0, interfaces=None, types=()),), 15, None),
        ((), 15, None),
        ((NetworkCard(index=0, interfaces=4, types=()),), None, None),
    ],
)
def test_pods_have_an_address_each_of_the_first_card(cards: Any, addresses: int | None, pods: int | None) -> None:
    there = row(network_cards=cards, ipv4_per_interface=addresses)

    assert eni_pods(there) == max_pods(pool(), there) == pods
    least, most = allocatable(pool(), there)
    assert least.get("pods") == most.get("pods") == pods


def test_kubelet_with_fewer_pods_takes_fewer_and_reserves_memory_for_all() -> None:
    fewer, there = told({"maxPods": 30}), row()

    assert max_pods(fewer, there) == 30
    assert allocatable(fewer, there)[1]["pods"] == allocatable(fewer, there)[0]["pods"] == 30
    assert allocatable(fewer, there)[1]["memory"] == allocatable(pool(), there)[1]["memory"]


def test_memory_is_kept_for_the_pods_that_are_told_where_no_source_states_the_addresses() -> None:
    bare = row(ipv4_per_interface=None)

    assert allocatable(told({"maxPods": 30}), bare)[1]["memory"] == (16_384 - 11 * 30 - 255 - 100) * MIB


@pytest.mark.parametrize(
    ("changes", "unknown"),
    [
        ({"vcpus": None}, {"cpu"}),
        ({"memory_mib": None}, {"memory"}),
        ({"ipv4_per_interface": None}, {"pods", "memory"}),
        ({}, set()),
    ],
)
def test_what_no_source_states_is_in_neither(changes: Any, unknown: set[str]) -> None:
    every = {"cpu", "memory", "pods", "ephemeral-storage"}

    for found in allocatable(pool(), row(**changes)):
        assert every - found.keys() == unknown


def test_a_disk_that_is_not_known_is_in_neither() -> None:
    for found in allocatable(pool(properties={"DiskSize": LATER}), row()):
        assert "ephemeral-storage" not in found


@pytest.mark.parametrize(
    ("architecture", "mib"),
    [("x86_64", 16_384 - 1_229), ("arm64", 16_320 - 1_224)],
)
def test_the_hypervisor_may_take_a_part_and_the_kernel_of_arm_some_more(architecture: Any, mib: int) -> None:
    least, most = allocatable(pool(), row(architecture=architecture))

    assert most["memory"] == (16_384 - 11 * 58 - 255 - 100) * MIB
    assert least["memory"] == (mib - 11 * 58 - 255 - 100) * MIB


@pytest.mark.parametrize(
    ("config", "cpu", "memory"),
    [
        ({}, 3920, 15_391),
        ({"kubeReserved": {"cpu": "200m"}}, 3800, 15_391),
        ({"kubeReserved": {"cpu": "0"}}, 4000, 15_391),
        ({"kubeReserved": {"memory": "1Gi"}}, 3920, 16_384 - 1024 - 100),
        ({"systemReserved": {"cpu": "100m", "memory": "1Gi"}}, 3820, 15_391 - 1024),
        ({"evictionHard": {"memory.available": "500Mi"}}, 3920, 15_391 - 400),
        ({"evictionHard": {"nodefs.available": "5%"}}, 3920, 15_391),
    ],
)
def test_kubelet_reserves_the_configured_amounts(config: Any, cpu: int, memory: int) -> None:
    class_of_nodes = launched(kubelet=config)
    written = {"max-pods": 58, **{_dashed(name): value for name, value in config.items()}}
    settings_of_nodes = {"kubernetes": written, "motd": {"kube-reserved": {"cpu": "4"}}}
    rocket = pool(operating_system="bottlerocket", user_data=UserData("toml", settings=settings_of_nodes))

    for told_so in (told(config), class_of_nodes, rocket):
        _, most = allocatable(told_so, row())
        assert (most["cpu"], most["memory"]) == (cpu, memory * MIB)


def test_kubelet_evicts_below_a_share_of_the_memory() -> None:
    _, most = allocatable(told({"evictionHard": {"memory.available": "5%"}}), row())

    assert most["memory"] == (16_384 - 11 * 58 - 255) * MIB - math.ceil(16_384 * MIB * 0.05)


@pytest.mark.parametrize(("signal", "kept"), [("5%", 1), ("3Gi", 3), ("nonsense", 2)])
def test_kubelet_evicts_below_a_share_of_the_disk(signal: str, kept: int) -> None:
    _, most = allocatable(told({"evictionHard": {"nodefs.available": signal}}), row())

    assert most["ephemeral-storage"] == (20 - 1 - kept) * GIB


def _dashed(name: str) -> str:
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)


def test_who_makes_the_node_says_where_kubelet_is_told() -> None:
    """A node class for Karpenter, settings for Bottlerocket, NodeConfig for the rest."""
    three = {"maxPods": 3}
    everywhere = {
        "launch": Launch(written={"role": "nodes"}, kubelet={"maxPods": 1}),
        "user_data": UserData(
            "toml", node_config={"kubelet": {"config": three}}, settings={"kubernetes": {"max-pods": 2}}
        ),
    }

    told_by = {
        kind: max_pods(pool(kind=kind, operating_system=system, **everywhere), row())
        for kind, system in (("karpenter", "bottlerocket"), ("managed", "bottlerocket"), ("self-managed", "al2023"))
    }

    assert told_by == {"karpenter": 1, "managed": 2, "self-managed": 3}


@pytest.mark.parametrize(
    ("config", "kept"),
    [({}, GIB), ({"kubeReserved": {"ephemeral-storage": "5Gi"}}, 5 * GIB)],
)
def test_pods_have_the_disk_that_kubelet_leaves_before_it_evicts(config: Any, kept: int) -> None:
    least, most = allocatable(told(config), row())

    assert most["ephemeral-storage"] == 18 * GIB - kept
    assert least["ephemeral-storage"] == pytest.approx(0.95 * 0.9 * 20 * GIB - kept, abs=1)
    assert isinstance(least["ephemeral-storage"], int)


@EXAMPLES
@given(st.integers(1, 192), st.integers(1024, 10**6), st.integers(2, 50), st.sampled_from(("x86_64", "arm64")))
def test_the_least_is_never_more_than_the_most(vcpus: int, mib: int, addresses: int, architecture: Any) -> None:
    there = row(vcpus=vcpus, memory_mib=mib, ipv4_per_interface=addresses, architecture=architecture)

    least, most = allocatable(pool(), there)

    assert least.keys() == most.keys() == {"cpu", "memory", "pods", "ephemeral-storage"}
    assert all(least[name] <= most[name] for name in least)
    assert most["cpu"] < vcpus * 1000
    assert most["memory"] < mib * MIB


def nodeadm(strategy: Any) -> Pool:
    return pool(user_data=UserData("nodeadm", node_config={"instance": {"localStorage": {"strategy": strategy}}}))


def rocket(settings_of_node: Any) -> Pool:
    return pool(operating_system="bottlerocket", user_data=UserData("toml", settings=settings_of_node))


@pytest.mark.parametrize(
    ("there", "used"),
    [
        (pool(), False),
        (nodeadm("RAID0"), True),
        (nodeadm("RAID10"), True),
        (nodeadm("Mount"), False),
        (nodeadm(None), False),
        (launched(), False),
        (launched(store_policy="RAID0"), True),
        (launched(store_policy="Mount"), False),
        (pool(kind="auto-mode"), True),
        (rocket({}), False),
        (rocket({"bootstrap-commands": {"a": {"commands": [["apiclient", "ephemeral-storage", "init"]]}}}), True),
        (rocket({"bootstrap-commands": {"a": {"commands": [["apiclient", "reboot"]]}}}), False),
        (rocket({"bootstrap-containers": {"a": "ephemeral-storage"}}), False),
        # A NodeConfig tells Bottlerocket nothing, and settings tell AL2023 nothing.
        (replace(nodeadm("RAID0"), operating_system="bottlerocket"), False),
        (replace(rocket({"bootstrap-commands": {"a": "ephemeral-storage"}}), operating_system="al2023"), False),
    ],
)
def test_where_images_lie_on_local_disks(there: Pool, used: bool) -> None:
    assert uses_local_disks(there) is used
    assert disk_bytes(there, row()) == (250 * 10**9 if used else disk_bytes(there, row(nvme_disks=0)))
    if used:
        assert allocatable(there, row())[1]["ephemeral-storage"] == 225 * 10**9 - GIB


@pytest.mark.parametrize(
    ("size", "found"), [(None, 80 * GIB), ("100Gi", 100 * GIB), ("50G", 50 * 10**9), (LATER, None)]
)
def test_the_disk_of_auto_mode(size: Any, found: int | None) -> None:
    there = pool(kind="auto-mode", launch=Launch(written={"role": "nodes"}, ephemeral_size=size))

    assert disk_bytes(there, row(nvme_disks=0)) == found


def test_images_lie_on_the_volume_that_the_operating_system_has_for_them() -> None:
    assert root_device(pool(operating_system="bottlerocket")) == "/dev/xvdb"
    assert root_device(pool()) == root_device(pool(operating_system="custom")) == "/dev/xvda"


DISKS = (Disk("/dev/xvda", 30), Disk("/dev/xvdb", 40), Disk("/dev/sdf", 50))
HIDDEN = SimpleNamespace(properties={"LaunchTemplateData": LATER})


@pytest.mark.parametrize(
    ("there", "gib"),
    [
        (pool(), 20),
        (pool(properties={"DiskSize": 50}), 50),
        (pool(properties={"DiskSize": "50"}), 50),
        (pool(properties={"DiskSize": LATER}), None),
        (pool(properties={"LaunchTemplate": {"Id": "lt-1"}, "DiskSize": 50}), None),
        (pool(launch_resource=HIDDEN, launch=Launch(disks=DISKS)), None),
        (pool(kind="self-managed", properties={"DiskSize": 50}), None),
        (pool(kind="self-managed", launch=Launch(written={"a": 1}), properties={"DiskSize": 50}), 20),
        (launched(), 20),
        (pool(kind="karpenter"), None),
        (launched(disks=DISKS), 30),
        (launched(disks=(DISKS[0], Disk("/dev/sdh", 60, root=True))), 60),
        (launched(disks=(DISKS[0], Disk("/dev/sdh", None, root=True))), None),
        (pool(launch=Launch(disks=DISKS)), 30),
        (pool(launch=Launch(disks=DISKS), operating_system="bottlerocket"), 40),
        (pool(launch=Launch(disks=DISKS[2:])), 20),
        (pool(launch=Launch(disks=(Disk("/dev/xvda", None),))), None),
        # The volume that a custom image uses is unknown; the checker assumes the last one.
        (pool(launch=Launch(disks=DISKS), operating_system="custom"), 50),
        (pool(launch=Launch(disks=DISKS), operating_system="unknown"), 50),
    ],
)
def test_the_volume_of_a_node(there: Pool, gib: int | None) -> None:
    assert root_gib(there) == gib
    assert disk_bytes(there, row(nvme_disks=0)) == (None if gib is None else gib * GIB)
