"""What kubelet leaves to pods of the smallest of some nodes, DaemonSets' pods among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpu_constructs.facts.hardware.catalogue import InstanceType
from gpu_constructs.facts.hardware.kubelet_reserve import (
    EVICTED_DISK,
    EVICTED_MEMORY,
    RESERVED_DISK,
    eni_pods,
    reserved_cpu,
    reserved_memory,
)
from gpu_constructs.facts.quantities import GIB, MIB, resources
from gpu_constructs.pools.kubelet import Kubelet


def vcpus_left(rows: Iterable[InstanceType], kubelet: Kubelet) -> float:
    """Return the virtual CPUs; 0 where the catalogue does not state them."""
    return min(_vcpus(each, kubelet) for each in rows)


def memory_gib_left(rows: Iterable[InstanceType], kubelet: Kubelet) -> int:
    """Return the memory in GiB, rounded down; 0 where the catalogue does not state it.

    The hypervisor and the kernel keep some more, which differs by type.
    """
    return min(_memory_gib(each, kubelet) for each in rows)


def disk_gib_left(size_gib: float) -> int:
    """Return what pods can use of a disk for images and pods, in GiB, rounded down."""
    return int((size_gib - RESERVED_DISK / GIB) * (1 - EVICTED_DISK))


def _vcpus(row: InstanceType, kubelet: Kubelet) -> float:
    if row.vcpus is None:
        return 0
    return max(row.vcpus - _kept("cpu", kubelet, reserved_cpu(row.vcpus)) / 1000, 0)


def _memory_gib(row: InstanceType, kubelet: Kubelet) -> int:
    if row.memory_mib is None:
        return 0
    kept = _kept("memory", kubelet, reserved_memory(eni_pods(row) or 0)) + EVICTED_MEMORY
    return max(row.memory_mib * MIB - kept, 0) // GIB


def _kept(name: str, kubelet: Kubelet, default: int) -> int:
    kube: Mapping[str, int] = resources(kubelet.kube_reserved)
    return kube.get(name, default) + resources(kubelet.system_reserved).get(name, 0)
