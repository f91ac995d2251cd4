"""The size of instance types without GPUs, of which the catalogue has no rows.

EC2 names sizes alike in these families: ``large`` has 2 vCPUs and ``4xlarge`` has 16. Each vCPU has 2, 4 or 8 GiB of
memory in a family of letter c, m or r. A test compares every type with EC2's own list.

Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html (2026-11)
"""

from __future__ import annotations

import math

from gpu_facts.hardware.kubelet_reserve import EVICTED_MEMORY, reserved_cpu, reserved_memory
from gpu_facts.hardware.vm_memory import ARM_KERNEL_MIB, VM_OVERHEAD
from gpu_facts.light_patterns import regex
from gpu_facts.quantities import MIB

# The most pods that EKS configures on a type of so many vCPUs.
# Source: https://github.com/awslabs/amazon-eks-ami nodeadm/internal/kubelet/eni-max-pods.txt (2026-08)
_MOST_PODS = ((2, 35), (8, 58), (48, 234))
_MOST_PODS_OF_ALL = 737
_NAME = regex(r"([cmr])[5-9][a-z]*(?:-flex)?\.(medium|large|\d*xlarge)")
_GIB_PER_VCPU = {"c": 2, "m": 4, "r": 8}
# Of c5n, each vCPU has 2.625 GiB.
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


def cpu_type_size(name: str) -> tuple[int, int] | None:
    """Return vCPUs and MiB of memory of a type without GPUs; ``None`` for a family that isn't known here."""
    if found := _BURSTABLE.fullmatch(name):
        return _BURSTABLE_SIZES[found[1]]
    found = _NAME.fullmatch(name)
    if found is None or name.startswith(_ODD):
        return None
    size = found[2]
    vcpus = {"medium": 1, "large": 2}.get(size) or 4 * int(size.removesuffix("xlarge") or 1)
    return vcpus, vcpus * _GIB_PER_VCPU[found[1]] * 1024


def allocatable_without_gpus(name: str | None) -> tuple[dict[str, int], dict[str, int]]:
    """Return the least and the most CPU and memory that pods can have on a type without GPUs, where it is known.

    How many pods kubelet reserves memory for isn't known exactly: from none to the most on types of that size.
    """
    size = cpu_type_size(name) if name else None
    if size is None:
        return {}, {}
    vcpus, memory_mib = size
    cpu, memory = vcpus * 1000 - reserved_cpu(vcpus), memory_mib * MIB
    smallest = memory - math.ceil(memory * VM_OVERHEAD) - ARM_KERNEL_MIB * MIB
    pods = next((most for size_, most in _MOST_PODS if vcpus <= size_), _MOST_PODS_OF_ALL)
    kept = reserved_memory(pods) + EVICTED_MEMORY
    largest = memory - reserved_memory(0) - EVICTED_MEMORY
    return {"cpu": cpu, "memory": max(smallest - kept, 0)}, {"cpu": cpu, "memory": largest}
