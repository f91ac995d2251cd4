"""The capacity of a node and the part that pods can use, compared with values of real nodes."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_rehearsal.cluster.bootstrap import Bootstrap
from gpu_rehearsal.cluster.instances import allocatable, capacity, network_pods, number

G6_XLARGE = {
    "VCpuInfo": {"DefaultVCpus": 4},
    "MemoryInfo": {"SizeInMiB": 16384},
    "NetworkInfo": {"MaximumNetworkInterfaces": 4, "Ipv4AddressesPerInterface": 15},
    "InstanceStorageInfo": {"TotalSizeInGB": 250},
}


def bootstrap(**changes: Any) -> Bootstrap:
    settings: dict[str, Any] = {"cluster": "training", "endpoint": "https://api", "certificate_authority": "Y2E="}
    return Bootstrap(**settings | changes)


def sizes(**changes: Any) -> tuple[dict[str, str], dict[str, str]]:
    has = capacity(G6_XLARGE, bootstrap(**changes), volume_gib=100)
    return has, allocatable(has, G6_XLARGE, bootstrap(**changes))


def test_a_node_has_what_its_network_volume_and_type_give() -> None:
    has, free = sizes()

    assert (has["cpu"], has["pods"]) == ("4", "58")
    assert has["ephemeral-storage"] == f"{100 * 1024**2 - 12308}Ki"
    # The kubelet reserves 60 + 10 + 5 + 5 millicores, and 255 MiB plus 11 MiB for each pod.
    assert free["cpu"] == "3920m"
    assert number(has["memory"]) - number(free["memory"]) == (11 * 58 + 255 + 100) * 1024**2


def test_the_kernel_keeps_some_memory() -> None:
    has, _ = sizes()

    assert 0.93 < number(has["memory"]) / (16384 * 1024**2) < 1


def test_disk_is_kept_for_kubelet_and_eviction() -> None:
    has, free = sizes()

    disk = number(has["ephemeral-storage"])
    assert number(free["ephemeral-storage"]) == int(disk - 1024**3 - disk / 10)


def test_pods_use_the_disks_of_the_instance_if_configured() -> None:
    has, _ = sizes(local_disks="RAID0")

    assert has["ephemeral-storage"] == f"{250 * 10**9 // 1024 - 12308}Ki"


def test_settings_of_the_kubelet_apply() -> None:
    has, free = sizes(
        kubelet={"maxPods": 10, "kubeReserved": {"cpu": "500m"}, "evictionHard": {"memory.available": "5%"}}
    )

    assert (has["pods"], free["cpu"]) == ("10", "3500m")
    memory = number(has["memory"])
    assert number(free["memory"]) == int((memory - (11 * 58 + 255) * 1024**2 - memory / 20) / 1024) * 1024


def test_pods_of_a_type_are_what_its_addresses_allow() -> None:
    assert network_pods(G6_XLARGE) == 58


@pytest.mark.parametrize(
    ("written", "amount"),
    [("2", 2), ("500m", 0.5), ("1Ki", 1024), ("1.5Gi", 1.5 * 1024**3), ("2k", 2000), ("1e3", 1000)],
)
def test_quantities(written: str, amount: float) -> None:
    assert float(number(written)) == amount


@pytest.mark.parametrize("written", ["", "1 Gi", "1K", "Gi", "1Gb"])
def test_refuses_text_that_is_not_a_quantity(written: str) -> None:
    with pytest.raises(ValueError, match="must be a number with a unit"):
        number(written)
