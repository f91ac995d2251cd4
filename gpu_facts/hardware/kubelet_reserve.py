"""Memory that kubelet and the hypervisor reserve on a node.

Source: awslabs/amazon-eks-ami v20260724 nodeadm/internal/kubelet/config.go

How much memory Karpenter expects of an instance that it has not launched yet.

Source: aws/karpenter-provider-aws v1.14.1 pkg/providers/instancetype/types.go
"""

from __future__ import annotations

import math
from typing import Final

from gpu_facts.hardware.catalogue import InstanceType
from gpu_facts.quantities import GIB, MIB

# Thousandths of each core: of the first, the second, the next two, and each further one.
_CPU = (60, 10, 5, 5)
_CPU_FURTHER = 2.5
# Below these amounts kubelet evicts pods; the disk's is a share.
EVICTED_MEMORY: Final = 100 * MIB
EVICTED_DISK: Final = 0.1
RESERVED_DISK: Final = GIB
# Share of the memory that the hypervisor and the kernel may keep.
VM_OVERHEAD: Final = 0.075
# What the kernel sets aside on arm64.
ARM_KERNEL_MIB: Final = 64


def eni_pods(row: InstanceType) -> int | None:
    """Return how many pods the addresses of a type allow, ``None`` where no source states them."""
    card = row.network_cards[0] if row.network_cards else None
    if card is None or card.interfaces is None or row.ipv4_per_interface is None:
        return None
    return card.interfaces * (row.ipv4_per_interface - 1) + 2


def reserved_cpu(vcpus: int) -> int:
    """Return what kubelet keeps of the CPUs, in thousandths."""
    return math.ceil(sum(_CPU[:vcpus]) + max(vcpus - len(_CPU), 0) * _CPU_FURTHER)


def reserved_memory(pods: int) -> int:
    """Return what kubelet keeps of the memory, in bytes, by how many pods the addresses of the type allow."""
    return (11 * pods + 255) * MIB


def disk_left_gib(size_gib: float) -> int:
    """Return what pods can use of a disk for images and pods, in GiB, rounded down."""
    return int((size_gib - RESERVED_DISK / GIB) * (1 - EVICTED_DISK))


def least_memory(row: InstanceType) -> int | None:
    """Return the memory that Karpenter counts on, in bytes: what is stated without what the hypervisor may keep."""
    if row.memory_mib is None:
        return None
    mib = row.memory_mib - (ARM_KERNEL_MIB if row.architecture == "arm64" else 0)
    return (mib - math.ceil(mib * VM_OVERHEAD)) * MIB
