"""Capacity and allocatable resources of a node, and quantities of Kubernetes as numbers.

Source: https://github.com/awslabs/amazon-eks-ami/tree/main/nodeadm/internal/kubelet (2026-11), whose reserves
Bottlerocket shares: https://bottlerocket.dev/en/os/latest/#/api/settings/kubernetes/
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from gpu_rehearsal.players.cluster.bootstrap import Bootstrap

_UNITS = {
    "": Decimal(1),
    "n": Decimal(10) ** -9,
    "u": Decimal(10) ** -6,
    "m": Decimal(10) ** -3,
    **{unit: Decimal(10) ** (3 * power) for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{f"{unit}i": Decimal(2) ** (10 * power) for power, unit in enumerate(("K", "M", "G", "T", "P", "E"), 1)},
}
_WRITTEN = re.compile(r"([+-]?[0-9.]+)(?:[eE]([+-]?\d+)|([numkKMGTPE]?i?))")


def number(written: object) -> Decimal:
    """Return what a quantity amounts to.

    Raises:
        ValueError: It is none.
    """
    found = _WRITTEN.fullmatch(str(written))
    if found is None or (found[3] or "") not in _UNITS:
        raise ValueError(f"quantity must be a number with a unit of Kubernetes, got {written!r}")
    return Decimal(found[1]) * (Decimal(10) ** int(found[2]) if found[2] else _UNITS[found[3] or ""])


KIB, MIB, GIB, GB = 1024, 1024**2, 1024**3, 10**9
# The kernel keeps 64 bytes for each page of 4 KiB (https://docs.kernel.org/mm/memory-model.html), and itself and what
# firmware holds: an estimate, a little above what is seen on instances of 4 to 64 GiB.
_PAGE_SHARE, _KERNEL_MIB = Decimal(64) / 4096, 160
# Partition table, boot partition and log of the file system: 20 GiB are shown as 20,959,212 KiB.
_FILE_SYSTEM_KIB = 12_308
# Upper ends of ranges of millicores, and what share of each is kept.
_CPU = ((1000, Decimal("0.06")), (2000, Decimal("0.01")), (4000, Decimal("0.005")), (10**9, Decimal("0.0025")))
_EVICTION = {"memory.available": "100Mi", "nodefs.available": "10%"}


def capacity(kind: Mapping[str, Any], told: Bootstrap, *, volume_gib: int) -> dict[str, str]:
    """Return what the kubelet says that its node has.

    Args:
        kind: The instance type, as DescribeInstanceTypes tells.
        told: What the instance was told.
        volume_gib: Size of the volume on which pods lie.
    """
    memory = kind["MemoryInfo"]["SizeInMiB"] * (1 - _PAGE_SHARE) - _KERNEL_MIB
    return {
        "cpu": str(kind["VCpuInfo"]["DefaultVCpus"]),
        "memory": f"{int(memory * MIB / KIB)}Ki",
        "ephemeral-storage": f"{_disk_kib(kind, told, volume_gib)}Ki",
        "pods": str(told.kubelet.get("maxPods") or network_pods(kind)),
    }


def allocatable(has: Mapping[str, str], kind: Mapping[str, Any], told: Bootstrap) -> dict[str, str]:
    """Return what pods may have of it."""
    kept = _reserved(has, kind) | (told.kubelet.get("kubeReserved") or {})
    system, evicted = told.kubelet.get("systemReserved") or {}, _EVICTION | (told.kubelet.get("evictionHard") or {})
    memory, disk = number(has["memory"]), number(has["ephemeral-storage"])

    def reserved(resource: str) -> Decimal:
        return number(kept.get(resource, 0)) + number(system.get(resource, 0))

    left_memory = memory - reserved("memory") - _signal(evicted["memory.available"], memory)
    left_disk = disk - reserved("ephemeral-storage") - _signal(evicted["nodefs.available"], disk)
    return dict(has) | {
        "cpu": f"{int((number(has['cpu']) - reserved('cpu')) * 1000)}m",
        "memory": f"{int(left_memory / KIB)}Ki",
        "ephemeral-storage": str(int(left_disk)),
    }


def network_pods(kind: Mapping[str, Any]) -> int:
    """Return how many pods get an address without prefixes: nodeadm's own formula, maxpods.go there."""
    network = kind["NetworkInfo"]
    return int(network["MaximumNetworkInterfaces"] * (network["Ipv4AddressesPerInterface"] - 1) + 2)


def _reserved(has: Mapping[str, str], kind: Mapping[str, Any]) -> dict[str, str]:
    """What nodeadm keeps for itself; of pods it counts those that the network could have, whatever it was told."""
    millicores, kept, start = int(number(has["cpu"]) * 1000), Decimal(0), 0
    for end, share in _CPU:
        kept += max(0, min(millicores, end) - start) * share
        start = end
    return {"cpu": f"{int(kept)}m", "memory": f"{11 * network_pods(kind) + 255}Mi", "ephemeral-storage": "1Gi"}


def _signal(written: str, whole: Decimal) -> Decimal:
    return whole * Decimal(written.removesuffix("%")) / 100 if written.endswith("%") else number(written)


def _disk_kib(kind: Mapping[str, Any], told: Bootstrap, volume_gib: int) -> int:
    own = kind.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)
    # With one disk of its own or many: nodeadm makes one file system of them, and puts pods and images there.
    if told.local_disks and own:
        mirrored = 2 if told.local_disks == "RAID10" else 1
        return int(own * GB / KIB / mirrored) - _FILE_SYSTEM_KIB
    return volume_gib * GIB // KIB - _FILE_SYSTEM_KIB
