"""The verdict on each workload, and on all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpu_facts.light_dataclasses import dataclass
from gpu_preflight.case import Case
from gpu_preflight.cluster.built_in_pools import has_unknown_built_in_pools
from gpu_preflight.judging.set_later import SetLater
from gpu_preflight.judging.stops import Stops
from gpu_preflight.model.answer import Answer, all_of
from gpu_preflight.model.reason import Reason
from gpu_preflight.model.workload import Workload
from gpu_preflight.rules.rule import Finding
from gpu_preflight.scheduling.assumptions import Assumptions, conditions
from gpu_preflight.scheduling.together.crowd import beside_each_other
from gpu_preflight.scheduling.together.packing import Packing, pack
from gpu_preflight.scheduling.verdict import Verdict

# Reasons that no other pool changes: the API server refuses the pod, or no instance type fits it.
_OF_THE_POD = ("refused", "pool")
_SHOWN = 3
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
    stops, later = Stops(case, findings), SetLater(case)
    wanted = case.judged_workloads if workloads is None else tuple(workloads)
    chosen = {id(each) for each in wanted}
    others = [each for each in case.judged_workloads if id(each) not in chosen]
    alone = [_with_partners(later.on(stops.on(case.verdict(each))), case) for each in (*wanted, *others)]
    beside = beside_each_other(alone, case.services_without_gpus)
    assumptions = Assumptions(case.cluster)
    settled = tuple(_with_assumptions(_beside_the_scheduler(each), case, assumptions) for each in beside)
    running = [each for each, before in zip(settled, alone, strict=True) if before.answer is Answer.YES]
    packing = pack(*([each for each in running if each.workload.ends is ends] for ends in (False, True)))
    told = {id(each.workload) for each in settled[: len(wanted)] if _may_be_left(each)}
    left = tuple(each for each in packing.left if id(each[0]) in told)
    return Explanation(case, settled[: len(wanted)], replace(packing, left=left))


def _with_assumptions(verdict: Verdict, case: Case, assumptions: Assumptions) -> Verdict:
    """Return a verdict with what it relies on in a cluster of which the input may hold a part."""
    if verdict.workload.is_placed:
        return verdict
    verdict = _beside_unread(verdict, case.cluster.may_hide("objects"))
    if verdict.answer is Answer.NO:
        # A rule's finding about the pod is true on any pool.
        refused = any(
            each.kind in (*_OF_THE_POD, "rule", "program") and each.answer is Answer.NO for each in verdict.reasons
        )
        other = () if case.cluster.whole or refused else (_OTHER_POOLS,)
        return replace(verdict, rests_on=(*verdict.rests_on, *other))
    runs_if = conditions(verdict.reasons, verdict.pools) if verdict.answer is Answer.UNKNOWN else ()
    if verdict.answer is Answer.UNKNOWN and not runs_if:
        return verdict
    relied = assumptions.of(verdict.workload, verdict.pools)
    assumed = (f"assumed: {each}" for each in sorted(case.cluster.assumed))
    return replace(verdict, rests_on=(*verdict.rests_on, *assumed, *relied), runs_if=runs_if)


def _beside_unread(verdict: Verdict, hidden: Sequence[str]) -> Verdict:
    """Return a verdict next to unread parts of the input, which may hold an object that limits the pods."""
    if verdict.answer is Answer.NO or not hidden:
        return verdict
    shown = ", ".join(hidden[:_SHOWN]) + (f" and {len(hidden) - _SHOWN} more" if len(hidden) > _SHOWN else "")
    reason = Reason(
        Answer.UNKNOWN,
        "unread",
        f"{shown} can't be read, and may hold an object that limits these pods, such as a quota",
        condition=f"nothing that can't be read limits these pods ({shown})",
    )
    return replace(verdict, answer=Answer.UNKNOWN, reasons=(*verdict.reasons, reason))


def _with_partners(verdict: Verdict, case: Case) -> Verdict:
    """Return a verdict with the roles of the same object that its pods wait for and that find no node."""
    partners = case.partners(verdict.workload) if not verdict.workload.is_placed else ()
    verdicts = [_partner_verdict(each, case) for each in partners if each.replicas != 0]
    waiting = [each for each in verdicts if each.answer is not Answer.YES]
    if not waiting:
        return verdict
    sized = [each for each in waiting if _lacks_only_sizes(each)]
    assumed = (f"a node without GPUs has room for {each.workload.name}" for each in sized)
    reasons = [_of_partner(each, case) for each in waiting if each not in sized]
    answer = all_of((verdict.answer, *(each.answer for each in reasons)))
    rests_on = (*verdict.rests_on, *assumed)
    return replace(verdict, answer=answer, reasons=(*verdict.reasons, *reasons), rests_on=rests_on)


def _partner_verdict(partner: Workload, case: Case) -> Verdict:
    """Return the verdict on a role without GPUs, which may also run on the built-in pools of Auto Mode."""
    verdict = case.verdict(partner)
    if verdict.answer is not Answer.NO or case.with_built_in_pools is None:
        return verdict
    built_in = case.with_built_in_pools.verdict(partner)
    if built_in.answer is Answer.NO:
        return verdict
    if not has_unknown_built_in_pools(case.cluster):
        return built_in
    text = "only deployment knows which built-in pools of Auto Mode the cluster has"
    return replace(built_in, answer=Answer.UNKNOWN, reasons=(*built_in.reasons, Reason(Answer.UNKNOWN, "pool", text)))


def _lacks_only_sizes(partner: Verdict) -> bool:
    """Whether only the size of nodes without GPUs is unknown, of which the catalogue has no figures."""
    open_pools = [each for each in partner.pools if each.answer is Answer.UNKNOWN]
    unknown = [one for each in open_pools[:1] for one in each.reasons if one.answer is Answer.UNKNOWN]
    sized = bool(open_pools) and all(node.row is None for node in open_pools[0].nodes_taking)
    of_sizes = all(each.rule == "GPU121" for each in partner.reasons)
    return sized and of_sizes and all(one.kind == "resource" for one in unknown)


def _of_partner(partner: Verdict, case: Case) -> Reason:
    name = partner.workload.name
    told = [each.text for each in partner.reasons if each.answer is partner.answer]
    told += [f"pool {one.pool.name}: {each.text}" for one in partner.pools[:1] for each in one.reasons]
    why = f": {told[0]}" if told else ""
    refused = any(each.kind == "refused" for each in partner.reasons)
    if partner.answer is Answer.NO and (case.cluster.whole or refused):
        return Reason(Answer.NO, "partner", f"waits for {name}, which would stay Pending{why}")
    conditional = conditions(partner.reasons, partner.pools) if partner.answer is Answer.UNKNOWN else ()
    elsewhere = not case.cluster.whole and not refused
    condition = f"{name} runs on a node that isn't in the input" if elsewhere else " and ".join(conditional)
    text = f"waits for {name}, and whether {name} gets a node isn't known{why}"
    return Reason(Answer.UNKNOWN, "partner", text, condition=condition)


def _beside_the_scheduler(verdict: Verdict) -> Verdict:
    """Return a verdict next to the message of the running cluster's scheduler, which contradicts a yes."""
    message = verdict.workload.unscheduled
    if not message:
        return verdict
    text = f"the scheduler reports: {message}"
    if verdict.answer is Answer.YES:
        text = f"preflight finds room for every pod, but {text}"
    reasons = (Reason(Answer.UNKNOWN, "observed", text), *verdict.reasons)
    return replace(verdict, answer=all_of((verdict.answer, Answer.UNKNOWN)), reasons=reasons)


def _may_be_left(verdict: Verdict) -> bool:
    """Whether pods of a workload may wait while all come at once: a service that runs beside the others does not."""
    return verdict.answer is not Answer.YES or verdict.workload.ends
