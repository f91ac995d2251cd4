"""Node labels that depend on the instance type.

Sources: https://karpenter.sh/v1.14/reference/instance-types/,
https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html (2026-08)
"""

from __future__ import annotations

from functools import cache

from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.kubernetes import ARCHITECTURES
from gpu_facts.labels import (
    ARCH,
    EKS_DOMAIN,
    INSTANCE_TYPE,
    KARPENTER_AWS_DOMAIN,
    OLD_ARCH,
    OLD_INSTANCE_TYPE,
    OLD_OS,
    OS,
)
from gpu_facts.light import regex
from gpu_preflight.model.label_values import LabelValues, exactly
from gpu_preflight.reading.unknown import Unknown

_FAMILY = regex(r"([a-z]+)(\d+)")
_PREFIXES = {"karpenter": f"{KARPENTER_AWS_DOMAIN}/", "auto-mode": f"{EKS_DOMAIN}/"}
_OF_TYPES = "instance-"
# Karpenter sets these labels for every type. The catalogue has no values for them.
_UNSTATED = (
    "instance-ebs-bandwidth",
    "instance-network-bandwidth",
    "instance-hypervisor",
    "instance-encryption-in-transit-supported",
    "instance-cpu-manufacturer",
    "instance-cpu-sustained-clock-speed-mhz",
    "instance-capability-flex",
    "instance-tenancy",
)

Labels = dict[str, "LabelValues | Unknown"]


@cache
def kubelet_labels(name: str) -> Labels:
    """Return the labels that every node of a type has."""
    row = catalogue().get(name)
    labels: Labels = {
        INSTANCE_TYPE: exactly(name),
        OLD_INSTANCE_TYPE: exactly(name),
        OS: exactly("linux"),
        OLD_OS: exactly("linux"),
    }
    arch = exactly(ARCHITECTURES[row.architecture]) if row else Unknown(f"${{architecture of {name}}}")
    return labels | {ARCH: arch, OLD_ARCH: arch}


@cache
def autoscaler_labels(name: str, kind: str) -> Labels:
    """Return the labels that Karpenter or Auto Mode adds to a node of a type."""
    prefix, row = _PREFIXES.get(kind), catalogue().get(name)
    if prefix is None:
        return {}
    if row is None:
        return {}
    return {f"{prefix}{key}": value for key, value in (_stated(row) | _unstated()).items()}


def is_of_the_type(key: str, kind: str) -> bool:
    """Whether Karpenter or Auto Mode chooses instance types by a label."""
    return kind in _PREFIXES and key.startswith(f"{_PREFIXES[kind]}{_OF_TYPES}")


def own_name(key: str, kind: str) -> str | None:
    """Return Karpenter's name of an Auto Mode label for instance types, and the reverse; ``None`` for other labels."""
    for other, prefix in _PREFIXES.items():
        if other != kind and kind in _PREFIXES and key.startswith(f"{prefix}{_OF_TYPES}"):
            return f"{_PREFIXES[kind]}{key.removeprefix(prefix)}"
    return None


def _unstated() -> Labels:
    return {key: Unknown(f"${{{key}}}") for key in _UNSTATED}


def _stated(row: InstanceType) -> Labels:
    found = _FAMILY.match(row.family)
    numbers = {
        "instance-cpu": row.vcpus,
        "instance-memory": row.memory_mib,
        "instance-gpu-memory": row.gpu_memory_mib,
    }
    labels: Labels = {
        key: exactly(str(value)) if value is not None else Unknown(f"${{{key} of {row.name}}}")
        for key, value in numbers.items()
    }
    texts = {
        "instance-category": found.group(1) if found else None,
        "instance-generation": found.group(2) if found else None,
        "instance-family": row.family,
        "instance-size": row.name.partition(".")[2],
        "instance-gpu-name": row.gpu_model.lower().replace(" ", "-"),
        "instance-gpu-manufacturer": "nvidia",
        "instance-gpu-count": str(row.ec2_gpus),
        "instance-local-nvme": str(row.nvme_gb) if row.nvme_gb else None,
    }
    return labels | {key: exactly(value) for key, value in texts.items() if value is not None}
