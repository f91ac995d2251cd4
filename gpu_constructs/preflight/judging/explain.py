"""The verdict on each workload, and on all of them together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.judging.stops import Stops
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.workload import Workload
from gpu_constructs.preflight.rules.rule import Finding
from gpu_constructs.preflight.scheduling.together.crowd import beside_each_other
from gpu_constructs.preflight.scheduling.together.packing import Packing, pack
from gpu_constructs.preflight.scheduling.verdict import Verdict

_OTHER_POOLS = "Pending unless the cluster has a pool that is not in the input"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What becomes of some workloads in one cluster.

    Attributes:
        case: The cluster.
        verdicts: The verdict on each, beside all that ask for GPUs.
        packing: What each pool has to run when all that run alone come at once, and what of those judged is left.
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
    alone = [stops.on(case.verdict(each)) for each in (*wanted, *others)]
    beside = beside_each_other(alone, case.services_without_gpus)
    settled = tuple(_of_pools_read(each, case) for each in beside)
    running = [each for each, before in zip(settled, alone, strict=True) if before.answer is Answer.YES]
    packing = pack(*([each for each in running if each.workload.ends is ends] for ends in (False, True)))
    told = {id(each.workload) for each in settled[: len(wanted)] if _may_be_left(each)}
    left = tuple(each for each in packing.left if id(each[0]) in told)
    return Explanation(case, settled[: len(wanted)], replace(packing, left=left))


def _of_pools_read(verdict: Verdict, case: Case) -> Verdict:
    """Return a no that pools give with what it rests on, where a cluster may have others than were read."""
    refused = any(each.kind == "refused" and each.answer is Answer.NO for each in verdict.reasons)
    if case.cluster.whole or verdict.answer is not Answer.NO or refused:
        return verdict
    return replace(verdict, rests_on=(*verdict.rests_on, _OTHER_POOLS))


def _may_be_left(verdict: Verdict) -> bool:
    """Whether pods of a workload may wait while all come at once: a service that runs beside the others does not."""
    return verdict.answer is not Answer.YES or verdict.workload.ends
