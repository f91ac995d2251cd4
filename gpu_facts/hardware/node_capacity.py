"""Resources of a node for pods: reservations of the kubelet and the hypervisor, and sizes of types without GPUs.

EC2 uses the same sizes for all such families: ``large`` has 2 vCPUs and ``4xlarge`` has 16. Each vCPU has 2, 4 or 8 GiB
of memory in a family of letter c, m or r. A test compares every type with EC2's own list.

Sources: awslabs/amazon-eks-ami v20260724 nodeadm/internal/kubelet/config.go (kubelet);
aws/karpenter-provider-aws v1.14.1 pkg/providers/instancetype/types.go (Karpenter's estimate before launch);
https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html (2026-11)
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.light import read_package_data, regex
from gpu_facts.quantities import GIB, MIB
from gpu_facts.refusals import did_you_mean, near

# Reservation in thousandths of each core: for the first, the second, the next two, and each further one.
_CPU = (60, 10, 5, 5)
_CPU_FURTHER = 2.5
# Below these amounts the kubelet evicts pods. For the disk it is a fraction.
EVICTED_MEMORY: Final = 100 * MIB
EVICTED_DISK: Final = 0.1
RESERVED_DISK: Final = GIB
# Fraction of the memory that the hypervisor and the kernel may use.
_VM_OVERHEAD: Final = 0.075
# Memory that the kernel reserves on arm64.
_ARM_KERNEL_MIB: Final = 64
_NAME = regex(r"([a-z][a-z0-9-]*)\.([a-z0-9-]+)")
# m8i, c7i-flex, u7in-16tb: series, generation, suffix.
_FAMILY = regex(r"([a-z]+)(\d+)[a-z]*(-[a-z0-9]+)?")
_SIZE = regex(r"nano|micro|small|medium|large|([2-9]|[1-9]\d+)?xlarge|metal(-\d+xl)?")
# General families, whose larger sizes are multiples of xlarge.
_SIZED = regex(r"(?:[cmr][4-9]|t[2-9])[a-z]*(?:-flex)?\.(medium|large|([1-9]\d?)?xlarge)")
# EC2 numbers the generations of a series, and adds families to the last two. Assumption: between two of these files it
# adds at most this many.
_GENERATIONS_BACK, _GENERATIONS_AHEAD = 1, 3
# Similarity above which two family names mean the same.
_CLOSENESS = 0.85
# Max pods that EKS configures on a type, by number of vCPUs.
# Source: https://github.com/awslabs/amazon-eks-ami nodeadm/internal/kubelet/eni-max-pods.txt (2026-08)
_MOST_PODS = ((2, 35), (8, 58), (48, 234))
_MOST_PODS_OF_ALL = 737
_CPU_TYPE = regex(r"([cmr])[5-9][a-z]*(?:-flex)?\.(medium|large|\d*xlarge)")
_GIB_PER_VCPU = {"c": 2, "m": 4, "r": 8}
# For c5n, each vCPU has 2.625 GiB.
_ODD = ("c5n.",)
_BURSTABLE = regex(r"(?:t3|t3a|t4g)\.(nano|micro|small|medium|large|xlarge|2xlarge)")
_BURSTABLE_SIZES = {
    "nano": (2, 512),
    "micro": (2, 1024),
    "small": (2, 2048),
    "medium": (2, 4096),
    "large": (2, 8192),
    "xlarge": (4, 16384),
    "2xlarge": (8, 32768),
}


def eni_pods(row: InstanceType) -> int | None:
    """Return the number of pods for which a type has addresses, or ``None`` if no source states it."""
    card = row.network_cards[0] if row.network_cards else None
    if card is None or card.interfaces is None or row.ipv4_per_interface is None:
        return None
    return card.interfaces * (row.ipv4_per_interface - 1) + 2


def reserved_cpu(vcpus: int) -> int:
    """Return the kubelet's CPU reservation, in thousandths."""
    return math.ceil(sum(_CPU[:vcpus]) + max(vcpus - len(_CPU), 0) * _CPU_FURTHER)


def reserved_memory(pods: int) -> int:
    """Return the kubelet's memory reservation, in bytes, for the number of pods for which the type has addresses."""
    return (11 * pods + 255) * MIB


def disk_left_gib(size_gib: float) -> int:
    """Return the part of a disk that images and pods can use, in GiB, rounded down."""
    return int((size_gib - RESERVED_DISK / GIB) * (1 - EVICTED_DISK))


def least_memory(row: InstanceType) -> int | None:
    """Return the memory that Karpenter expects, in bytes: the stated memory minus the hypervisor's overhead."""
    if row.memory_mib is None:
        return None
    mib = row.memory_mib - (_ARM_KERNEL_MIB if row.architecture == "arm64" else 0)
    return (mib - math.ceil(mib * _VM_OVERHEAD)) * MIB


@cache
def _document() -> dict[str, Any]:
    return dict(json.loads(read_package_data("gpu_facts.hardware", "plain_types.json").decode()))


def plain_families() -> Mapping[str, Mapping[str, int | None]]:
    """Return the max pods of each size of each family, or ``None`` if it is unknown."""
    return dict(_document()["families"])


def plain_types_date() -> str:
    """Return the date of the list, ISO 8601."""
    return str(_document()["as_of"])


def least_vcpus(name: str) -> int:
    """Return the min vCPUs of a type in families c, m, r and t, by its size, or 0 for other families.

    Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/gp.html (2026-11)
    """
    found = _SIZED.fullmatch(name)
    if found is None:
        return 0
    return {"medium": 1, "large": 2}.get(found[1]) or 4 * int(found[2] or 1)


def refuse_unless_plain_type(who: object, argument: str, name: str, *, least_pods: int, why: str) -> None:
    """Reject a type that EC2 doesn't sell, that has a GPU or doesn't run Linux, or that supports too few pods.

    A family that is newer than the list is accepted.

    Args:
        who: Name of the construct in messages.
        argument: Name of the argument.
        name: The instance type.
        least_pods: Min number of pods that it must support.
        why: Reason for that number.

    Raises:
        ValueError: The type is rejected.
    """
    rule = f"{who}: {argument} must be EC2 types"
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{rule} such as 'm6i.large', got {name!r}{_hint_of_no_name(name)}")
    family, size = found[1], found[2]
    if name in catalogue() or _series(family) in _document()["gpu_series"]:
        raise ValueError(f"{rule} without GPU, got {name!r}; use 'm6i.large', because pods there need no GPU")
    if family.startswith("mac"):
        raise ValueError(f"{rule} that run Linux, got {name!r}; use 'm6i.large', because a Mac runs macOS")
    if family in plain_families():
        _refuse_size(rule, family, size, least_pods, why)
    elif not _SIZE.fullmatch(size):
        nearest = did_you_mean(name, [f"{family}.{each}" for each in _sizes()], closeness=_CLOSENESS)
        raise ValueError(f"{rule}, got {name!r}{nearest or f'; no family has a size {size!r}'}")
    elif not _may_be_newer(family):
        nearest = did_you_mean(name, [f"{each}.{size}" for each in plain_families() if near(family, [each])])
        raise ValueError(f"{rule}, got {name!r}{nearest or f'; EC2 has no family {family!r}'}")


def _refuse_size(rule: str, family: str, size: str, least_pods: int, why: str) -> None:
    name, sizes = f"{family}.{size}", plain_families()[family]
    if size not in sizes:
        nearest = did_you_mean(name, [f"{family}.{each}" for each in sizes], closeness=_CLOSENESS)
        raise ValueError(f"{rule}, got {name!r}{nearest or _list(family)}")
    pods = sizes[size]
    if pods is not None and pods < least_pods:
        fix = next((f"{family}.{each}" for each, most in sizes.items() if (most or 0) >= least_pods), "m6i.large")
        raise ValueError(
            f"{rule} that support {least_pods} pods, got {name!r}, which supports {pods}; use {fix!r}, because {why}"
        )


def _hint_of_no_name(name: str) -> str:
    return _list(name) if name in plain_families() else did_you_mean(name, _names())


def _list(family: str) -> str:
    return f"; {family} has {', '.join(plain_families()[family])} (EC2 on {plain_types_date()})"


def _may_be_newer(family: str) -> bool:
    """Whether EC2 may have begun to sell a family after the date of the list."""
    found = _FAMILY.fullmatch(family)
    if found is None:
        return False
    known = [each for each in map(_FAMILY.fullmatch, plain_families()) if each and each[1] == found[1]]
    newest = max((int(each[2]) for each in known), default=int(found[2]))
    return newest - _GENERATIONS_BACK <= int(found[2]) <= newest + _GENERATIONS_AHEAD


def _names() -> list[str]:
    return [f"{family}.{size}" for family, sizes in plain_families().items() for size in sizes]


def _sizes() -> list[str]:
    return list(dict.fromkeys(size for sizes in plain_families().values() for size in sizes))


def _series(family: str) -> str:
    return re.split(r"\d", family)[0]


def cpu_type_size(name: str) -> tuple[int, int] | None:
    """Return vCPUs and MiB of memory of a type without GPUs, or ``None`` for an unknown family."""
    if found := _BURSTABLE.fullmatch(name):
        return _BURSTABLE_SIZES[found[1]]
    found = _CPU_TYPE.fullmatch(name)
    if found is None or name.startswith(_ODD):
        return None
    size = found[2]
    vcpus = {"medium": 1, "large": 2}.get(size) or 4 * int(size.removesuffix("xlarge") or 1)
    return vcpus, vcpus * _GIB_PER_VCPU[found[1]] * 1024


def allocatable_without_gpus(name: str | None) -> tuple[dict[str, int], dict[str, int]]:
    """Return the min and max CPU and memory for pods on a type without GPUs, if it is known.

    The number of pods for which the kubelet reserves memory isn't known exactly: from none to the max on types of that
    size.
    """
    size = cpu_type_size(name) if name else None
    if size is None:
        return {}, {}
    vcpus, memory_mib = size
    cpu, memory = vcpus * 1000 - reserved_cpu(vcpus), memory_mib * MIB
    smallest = memory - math.ceil(memory * _VM_OVERHEAD) - _ARM_KERNEL_MIB * MIB
    pods = next((most for size_, most in _MOST_PODS if vcpus <= size_), _MOST_PODS_OF_ALL)
    kept = reserved_memory(pods) + EVICTED_MEMORY
    largest = memory - reserved_memory(0) - EVICTED_MEMORY
    return {"cpu": cpu, "memory": max(smallest - kept, 0)}, {"cpu": cpu, "memory": largest}
