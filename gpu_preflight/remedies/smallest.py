"""The smallest instance type for a pod that fits no pool, and what it costs."""

from __future__ import annotations

from gpu_facts.hardware.prices import price_list, usd_per_hour
from gpu_facts.light_dataclasses import dataclass
from gpu_preflight.case import Case
from gpu_preflight.cluster.subnets import region_of_cluster
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.reason import Reason
from gpu_preflight.scheduling.smallest_type import smallest_type as smallest_type_for
from gpu_preflight.scheduling.verdict import Verdict


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
    if any(each.kind == "refused" and each.answer is Answer.NO for each in verdict.reasons):
        return None
    if not all(any(map(_is_too_small, each.reasons)) for each in verdict.pools):
        return None
    if any(each.kind in ("rule", "program") and each.answer is Answer.NO for each in verdict.reasons):
        return None
    row = smallest_type_for(verdict.demand, region)
    return None if row is None else SmallestType(row.name, usd_per_hour(row, region), price_list(region))


def _is_too_small(reason: Reason) -> bool:
    return reason.kind == "resource" and reason.answer is Answer.NO
