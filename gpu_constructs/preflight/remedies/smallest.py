"""The smallest instance type for a pod that fits no pool, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_constructs.facts.hardware.catalogue import InstanceType
from gpu_constructs.facts.hardware.prices import price_list, usd_per_hour
from gpu_constructs.facts.hardware.regions import is_unseen
from gpu_constructs.facts.labels import ARCH, OLD_ARCH
from gpu_constructs.facts.quantities import Resources
from gpu_constructs.facts.resources import DEVICE_CLASS, EFA, GPU
from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.cluster.subnets import region_of_cluster
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Pool
from gpu_constructs.preflight.node.instance_labels import Labels, autoscaler_labels, kubelet_labels
from gpu_constructs.preflight.node.node_size import allocatable
from gpu_constructs.preflight.reading.objects import Origin
from gpu_constructs.preflight.reading.unknown import Unknown
from gpu_constructs.preflight.remedies.of_pools import smallest_first
from gpu_constructs.preflight.scheduling.claims import claimed_gpus
from gpu_constructs.preflight.scheduling.demand import Demand
from gpu_constructs.preflight.scheduling.verdict import Verdict

# What a type decides of what pods ask for, and the disk that EKS gives it.
_OF_TYPES = {"cpu", "memory", "pods", "ephemeral-storage", GPU, EFA, DEVICE_CLASS}
_PLAIN = Pool("plain", "managed", Origin("", ""), operating_system="al2023")


@dataclass(frozen=True, slots=True)
class SmallestType:
    """The smallest instance type whose node has what a pod asks for.

    Attributes:
        name: Its name.
        usd_per_hour: On-demand list price in the region of the cluster, US dollars an hour; ``None`` where there is
            none.
        price_list: The region whose list has the price.
    """

    name: str
    usd_per_hour: float | None
    price_list: str


def smallest_type(case: Case, verdict: Verdict) -> SmallestType | None:
    """Return the smallest type for a pod that fits no node of any pool, ``None`` where one fits or none is known.

    Its node is one of Amazon Linux 2023 as EKS sets it up, before the pods of DaemonSets. Of shares and slices, whose
    size the settings of a pool decide, none is known.
    """
    region = region_of_cluster(case.cluster)
    claimed, requests = claimed_gpus(verdict.workload, case.cluster), verdict.demand.requests
    gpus = requests.get(GPU) or (claimed.count if claimed else None)
    if (
        not gpus
        or any(each.kind == "refused" and each.answer is Answer.NO for each in verdict.reasons)
        or not requests.keys() <= _OF_TYPES
        or not all(any(one.kind == "resource" for one in each.reasons) for each in verdict.pools)
    ):
        return None
    return next(
        (
            SmallestType(row.name, usd_per_hour(row, region), price_list(region))
            for row in smallest_first()
            if row.is_driven and row.gpus >= gpus and _has(row, requests) and _is_selected(row, verdict.demand)
            if not is_unseen(row.name, region)
        ),
        None,
    )


def _has(row: InstanceType, wanted: Resources) -> bool:
    least, _ = allocatable(_PLAIN, row)
    large = all(wanted.get(name, 0) <= least.get(name, 0) for name in ("cpu", "memory", "ephemeral-storage"))
    return large and wanted.get(EFA, 0) <= (row.max_efa or 0)


def _is_selected(row: InstanceType, wanted: Demand) -> bool:
    """Whether a pod runs on nodes of a type, of whose pool any label may be; on Arm only one that says so."""
    if row.architecture != "x86_64" and not {ARCH, OLD_ARCH} & set(wanted.keys):
        return False
    of_pool: Labels = {key: Unknown(f"${{{key}}}") for key in wanted.keys}
    makers = [autoscaler_labels(row.name, kind) for kind in ("karpenter", "auto-mode")]
    labels = of_pool | makers[0] | makers[1] | kubelet_labels(row.name)
    return wanted.pod.selection.takes(labels) is not Answer.NO
