"""The verdict on each workload, and on all of them together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.judging.stops import Stops
from gpu_constructs.preflight.model.cluster import Workload
from gpu_constructs.preflight.rules.rule import Finding
from gpu_constructs.preflight.scheduling.crowd import beside_each_other
from gpu_constructs.preflight.scheduling.packing import Packing, pack
from gpu_constructs.preflight.scheduling.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Explanation:
    """What becomes of some workloads in one cluster.

    Attributes:
        case: The cluster.
        verdicts: The verdict on each, beside all that ask for GPUs.
        packing: What each pool has to run when all come at once.
    """

    case: Case
    verdicts: tuple[Verdict, ...]
    packing: Packing


def explain(case: Case, findings: Iterable[Finding] = (), workloads: Iterable[Workload] | None = None) -> Explanation:
    """Judge workloads against the pools of a cluster.

    Args:
        case: The cluster.
        findings: What rules find in it; an error that nobody accepts keeps pods from running.
        workloads: Some of its workloads. Default: those that ask for a GPU.
    """
    stops = Stops(case, findings)
    wanted = case.gpu_workloads if workloads is None else tuple(workloads)
    chosen = {id(each) for each in wanted}
    others = [each for each in case.gpu_workloads if id(each) not in chosen]
    settled = beside_each_other(stops.on(case.verdict(each)) for each in (*wanted, *others))
    return Explanation(case, settled[: len(wanted)], pack(settled))
