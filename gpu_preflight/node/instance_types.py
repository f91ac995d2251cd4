"""An instance type as a node: its labels, and its resources before the pods of DaemonSets.

Sources: aws/karpenter-provider-aws v1.14.1 pkg/providers/instancetype/types.go, whose memory reserve for the hypervisor
is the pessimistic figure here; https://karpenter.sh/v1.14/reference/instance-types/,
https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html (2026-08)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.hardware.node_capacity import (
    EVICTED_DISK,
    EVICTED_MEMORY,
    RESERVED_DISK,
    eni_pods,
    least_memory,
    reserved_cpu,
    reserved_memory,
)
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
from gpu_facts.quantities import GIB, MIB, quantity, resources
from gpu_facts.resources import DISK
from gpu_preflight.cluster.pools import is_visible
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.label_values import LabelValues, exactly
from gpu_preflight.reading.unknown import Unknown, dig, known_number, mapping

_SHARE = regex(r"(\d{1,3}(?:\.\d{1,9})?)%")
_DEFAULT_ROOT_GIB = 20
# Source: https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html (2026-08)
_AUTO_MODE_GIB = 80
_ROOT_DEVICE = {"bottlerocket": "/dev/xvdb"}
# A file system uses a part of its volume for itself.
_FILE_SYSTEM = 0.05
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


def max_pods(pool: Pool, row: InstanceType) -> int | None:
    """Return how many pods kubelet allows."""
    return kubelet_max_pods(pool) or eni_pods(row)


def kubelet_max_pods(pool: Pool) -> int | None:
    """Return kubelet's configured max number of pods; ``None`` if it isn't set or isn't known."""
    return known_number(_kubelet(pool).get("maxPods"))


def allocatable(pool: Pool, row: InstanceType) -> tuple[dict[str, int], dict[str, int]]:
    """Return the min and max amounts of CPU, memory, pods and disk for pods. Unknown amounts are in neither."""
    least: dict[str, int] = {}
    most: dict[str, int] = {}
    pods = max_pods(pool, row)
    if pods is not None:
        least["pods"] = most["pods"] = pods
    if row.vcpus is not None:
        least["cpu"] = most["cpu"] = row.vcpus * 1000 - _reserved(pool, "cpu", reserved_cpu(row.vcpus))
    if row.memory_mib is not None and (counted := eni_pods(row) or pods) is not None:
        kept = _reserved(pool, "memory", reserved_memory(counted)) + _evicted_memory(pool, row.memory_mib * MIB)
        most["memory"] = row.memory_mib * MIB - kept
        least["memory"] = (least_memory(row) or 0) - kept
    disk = disk_bytes(pool, row)
    if disk is not None:
        kept = _reserved(pool, DISK, RESERVED_DISK)
        smaller = math.floor(disk * (1 - _FILE_SYSTEM))
        most[DISK] = disk - kept - _evicted_disk(pool, disk)
        least[DISK] = smaller - kept - _evicted_disk(pool, smaller)
    return least, most


def _reserved(pool: Pool, name: str, default: int) -> int:
    kubelet = _kubelet(pool)
    kube = quantity(name, dig(kubelet, "kubeReserved", name))
    system = resources(kubelet.get("systemReserved")).get(name, 0)
    return (default if kube is None else kube) + system


def _evicted_memory(pool: Pool, memory: int) -> int:
    return _signal(pool, "memory.available", memory, EVICTED_MEMORY)


def _evicted_disk(pool: Pool, disk: int) -> int:
    return _signal(pool, "nodefs.available", disk, math.ceil(disk * EVICTED_DISK))


def _signal(pool: Pool, name: str, capacity: int, default: int) -> int:
    """Return kubelet's eviction threshold, which is written as a quantity or as a share."""
    written = dig(_kubelet(pool), "evictionHard", name)
    if share := _SHARE.fullmatch(str(written)):
        return math.ceil(capacity * float(share[1]) / 100)
    return quantity("memory", written) or default


def _kubelet(pool: Pool) -> dict[str, Any]:
    """Return kubelet's configuration, with the names of its configuration file."""
    if pool.kind == "karpenter":
        return dict(pool.launch.kubelet)
    if pool.operating_system == "bottlerocket":
        return _bottlerocket(mapping(dig(pool.user_data.settings, "kubernetes")))
    return dict(pool.user_data.kubelet_config)


def _bottlerocket(settings: Mapping[str, Any]) -> dict[str, Any]:
    names = {
        "max-pods": "maxPods",
        "kube-reserved": "kubeReserved",
        "system-reserved": "systemReserved",
        "eviction-hard": "evictionHard",
    }
    return {camel: settings[name] for name, camel in names.items() if name in settings}


def disk_bytes(pool: Pool, row: InstanceType) -> int | None:
    """Return the size of the disk for images and pods, in bytes; ``None`` if it isn't known."""
    if uses_local_disks(pool) and row.nvme_gb:
        return row.nvme_gb * 10**9
    if pool.kind == "auto-mode":
        size = pool.launch.ephemeral_size
        return _AUTO_MODE_GIB * GIB if size is None else quantity(DISK, size)
    size = root_gib(pool)
    return None if size is None else size * GIB


def uses_local_disks(pool: Pool) -> bool:
    """Whether local NVMe disks hold images and pods."""
    if pool.kind == "auto-mode":
        return True
    if pool.kind == "karpenter":
        return bool(pool.launch.store_policy == "RAID0") or _stripes_by_node_config(pool)
    if pool.operating_system == "bottlerocket":
        commands = mapping(dig(pool.user_data.settings, "bootstrap-commands"))
        return any("ephemeral-storage" in str(each) for each in commands.values())
    return _stripes_by_node_config(pool)


def _stripes_by_node_config(pool: Pool) -> bool:
    return str(dig(pool.user_data.node_config, "instance", "localStorage", "strategy")).startswith("RAID")


def root_device(pool: Pool) -> str:
    """Return the device that holds images and pods if local disks don't."""
    return _ROOT_DEVICE.get(pool.operating_system, "/dev/xvda")


def root_gib(pool: Pool) -> int | None:
    """Return the size of that volume in GiB; ``None`` if it isn't known."""
    mapped = pool.launch.disk_sizes
    if not is_visible(pool):
        return None
    if chosen := next((each for each in pool.launch.disks if each.root), None):
        return chosen.gib
    if not mapped:
        size = pool.properties.get("DiskSize") if pool.kind == "managed" else None
        return known_number(size) if size is not None else _DEFAULT_ROOT_GIB
    if pool.operating_system in ("custom", "unknown"):
        sizes = list(mapped.values())
        return sizes[-1]
    return mapped.get(root_device(pool), _DEFAULT_ROOT_GIB)


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


def local_disks_fix(pool: Pool) -> str:
    """Return how nodes use their local disks."""
    if pool.kind == "karpenter":
        return "Set spec.instanceStorePolicy: RAID0 in the EC2NodeClass."
    if pool.operating_system == "bottlerocket":
        return (
            "Add a bootstrap command with 'apiclient ephemeral-storage init' and 'bind' to the Bottlerocket settings."
        )
    return "Set spec.instance.localStorage.strategy: RAID0 in the NodeConfig of the user data."
