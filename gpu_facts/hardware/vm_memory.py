"""How much memory Karpenter expects of an instance that it has not launched yet.

Source: aws/karpenter-provider-aws v1.14.1 pkg/providers/instancetype/types.go
"""

from __future__ import annotations

import math
from typing import Final

from gpu_facts.hardware.catalogue import InstanceType
from gpu_facts.quantities import MIB

# Share of the memory that the hypervisor and the kernel may keep.
VM_OVERHEAD: Final = 0.075
# What the kernel sets aside on arm64.
ARM_KERNEL_MIB: Final = 64


def least_memory(row: InstanceType) -> int | None:
    """Return the memory that Karpenter counts on, in bytes: what is stated without what the hypervisor may keep."""
    if row.memory_mib is None:
        return None
    mib = row.memory_mib - (ARM_KERNEL_MIB if row.architecture == "arm64" else 0)
    return (mib - math.ceil(mib * VM_OVERHEAD)) * MIB
