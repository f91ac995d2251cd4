"""The smallest instance type for a pod, where no pool of the input takes it."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.hardware.regions import is_unseen
from gpu_facts.labels import ARCH, OLD_ARCH
from gpu_facts.quantities import Resources
from gpu_facts.resources import DEVICE_CLASS, DISK, EFA, GPU
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.node.instance_labels import Labels, autoscaler_labels, kubelet_labels
from gpu_preflight.node.node_size import allocatable
from gpu_preflight.reading.objects import Origin
from gpu_preflight.reading.unknown import Unknown
from gpu_preflight.scheduling.demand import Demand

# Resources whose amount follows from the type, and the disk that EKS gives it.
_OF_TYPES = {"cpu", "memory", "pods", DISK, GPU, EFA, DEVICE_CLASS}
_PLAIN = Pool("plain", "managed", Origin("", ""), operating_system="al2023")


def smallest_first() -> Iterable[InstanceType]:
    """Return the types with whole GPUs, the cheapest first; those without a price last, by their GPUs."""
    whole = (row for row in catalogue().values() if row.ec2_gpus == row.gpus)
    return sorted(whole, key=lambda row: (row.usd_per_hour is None, row.usd_per_hour or 0.0, row.gpus))


def asked_gpus(wanted: Demand) -> int | None:
    """Return how many whole GPUs a pod requests; ``None`` for shares, slices, and amounts that types don't decide."""
    gpus = wanted.requests.get(GPU) or (wanted.claimed.count if wanted.claimed else None)
    return gpus if gpus and wanted.requests.keys() <= _OF_TYPES and not wanted.pod.is_open else None


def smallest_type(
    wanted: Demand, region: str | None, *, any_disk: bool = False, at_most: bool = False
) -> InstanceType | None:
    """Return the smallest type whose node has what a pod requests, ``None`` without any.

    Its node is one of Amazon Linux 2023 as EKS sets it up, before the pods of DaemonSets.

    Args:
        wanted: What one pod requests.
        region: The AWS Region; ``None`` where it isn't known.
        any_disk: Whether the pool may have a disk of any size.
        at_most: Whether a type counts that only may have as much memory.
    """
    gpus = asked_gpus(wanted)
    fitting = (
        row
        for row in (smallest_first() if gpus else ())
        if row.is_driven and row.gpus >= (gpus or 0) and _is_selected(row, wanted)
        if _has(row, wanted.requests, any_disk=any_disk, at_most=at_most)
    )
    return next((row for row in fitting if not is_unseen(row.name, region)), None)


def _has(row: InstanceType, wanted: Resources, *, any_disk: bool, at_most: bool) -> bool:
    have = allocatable(_PLAIN, row)[at_most]
    names = ("cpu", "memory") if any_disk else ("cpu", "memory", DISK)
    large = all(wanted.get(name, 0) <= have.get(name, 0) for name in names)
    return large and wanted.get(EFA, 0) <= (row.max_efa or 0)


def _is_selected(row: InstanceType, wanted: Demand) -> bool:
    """Whether a pod runs on nodes of a type, whose pool may have any label; on Arm only one that says so."""
    if row.architecture != "x86_64" and not {ARCH, OLD_ARCH} & set(wanted.keys):
        return False
    of_pool: Labels = {key: Unknown(f"${{{key}}}") for key in wanted.keys}
    makers = [autoscaler_labels(row.name, kind) for kind in ("karpenter", "auto-mode")]
    labels = of_pool | makers[0] | makers[1] | kubelet_labels(row.name)
    return wanted.pod.selection.takes(labels) is not Answer.NO
