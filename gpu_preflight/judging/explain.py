"""The result for each workload, why it stays Pending, and the effect of values that are set later.

Values that only deployment sets change results: a "runs" becomes conditional, or lists the value as an assumption.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from gpu_facts.light import dataclass
from gpu_preflight.case import Case
from gpu_preflight.cluster.open_values import OpenValue, shortened
from gpu_preflight.cluster.pools import has_unknown_built_in_pools, is_of_eksctl
from gpu_preflight.cluster.storage import claimed
from gpu_preflight.judging.reach import Reach
from gpu_preflight.model.answer import Answer, Reason, all_yes
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.pod import Workload
from gpu_preflight.reading.objects import Origin
from gpu_preflight.rule import Finding, Subject
from gpu_preflight.scheduling.crowd import check_contention
from gpu_preflight.scheduling.packing import Packing, pack
from gpu_preflight.scheduling.replica_capacity import OF_ALL_POOLS
from gpu_preflight.scheduling.unclear import Assumptions, conditions
from gpu_preflight.scheduling.verdict import PoolVerdict, Verdict

# Rules for sizes, labels and a version of Amazon Linux 2, which eksctl validates before it creates anything.
# Source: eksctl-io/eksctl 99984ad pkg/apis/eksctl.io/v1alpha5/validation.go
_REJECTED_BY_EKSCTL = ("GPU003", "GPU057", "GPU058")
# Weight of a reason from a rule: how far the pool is from accepting a pod.
_WEIGHT = 3
# Reasons that don't depend on the pool: the API server rejects the pod, or no instance type fits it.
_OF_THE_POD = ("refused", "pool")
_SHOWN = 3
_OTHER_POOLS = "Pending unless the cluster has a pool that isn't in the input"


class Stops:
    """The pools and workloads that errors of a cluster stop, acknowledged or not, unless the user marks them as untrue.

    If an error is uncertain, the result of its workload is unknown.

    Args:
        case: The cluster.
        findings: The findings of rules in it, or in other clusters.
    """

    def __init__(self, case: Case, findings: Iterable[Finding]) -> None:
        self._case, self._reach = case, Reach(case)
        self._of_pools: dict[int, list[Reason]] = {}
        self._presumed: dict[int, list[str]] = {}
        self._of_workloads: dict[int, list[Reason]] = {}
        self._found: dict[tuple[object, ...], Verdict] = {}
        self._judged: dict[int, tuple[PoolVerdict, ...]] = {}
        for each in findings:
            if each.rule.stops and each.cluster == case.cluster.title:
                if each.holds:
                    self._add(each, Answer.NO)
                elif _may_stop(each):
                    self._add(each, Answer.UNKNOWN)

    def _add(self, finding: Finding, answer: Answer) -> None:
        subject = finding.problem.subject
        whole = self._whole(finding)
        if whole is not subject:
            text = f"eksctl rejects the whole config: {finding.problem.message}"
        else:
            is_named = isinstance(subject, (Pool, Workload)) and finding.problem.name == subject.title
            text = finding.problem.text if is_named else finding.problem.message
        weight, condition = (_WEIGHT, "") if answer is Answer.NO else (0, finding.problem.condition)
        kind = "program" if finding.rule.at_start else "rule"
        reason = Reason(answer, kind, text, weight, finding.rule.id, condition)
        for pool in self._reach.pools(whole):
            if answer is Answer.UNKNOWN and finding.rule.presumed and not finding.problem.condition:
                assumption = f"runs unless {finding.rule.id} is true: {finding.problem.message}"
                self._presumed.setdefault(id(pool), []).append(assumption)
            else:
                self._of_pools.setdefault(id(pool), []).append(reason)
        for workload in self._reach.workloads(subject):
            self._of_workloads.setdefault(id(workload), []).append(reason)

    def _whole(self, finding: Finding) -> Subject:
        """Return the subject of an error: the whole cluster, if eksctl rejects a config because of one group."""
        subject, cluster = finding.problem.subject, self._case.cluster.resource
        rejected = isinstance(subject, Pool) and finding.rule.id in _REJECTED_BY_EKSCTL and is_of_eksctl(subject)
        return cluster if rejected and cluster is not None else subject

    def apply(self, verdict: Verdict) -> Verdict:
        """Return a result with the effect of these errors."""
        if verdict.workload.is_placed:
            # Its pods already run.
            return verdict
        held = _new(self._of_workloads.get(id(verdict.workload), ()), verdict.reasons)
        pools = self._pools(verdict.pools) if verdict.demand.pod.asks_for_gpu else verdict.pools
        if held or pools is not verdict.pools:
            # The number of replicas that fit is counted again.
            standing = tuple(each for each in verdict.reasons if each.rule not in OF_ALL_POOLS)
            verdict = self._with_pool_results(verdict, pools, (*standing, *held))
        presumed = self._required_assumptions(verdict.workload, pools) if verdict.answer is Answer.YES else ()
        return replace(verdict, rests_on=(*verdict.rests_on, *presumed)) if presumed else verdict

    def _with_pool_results(self, verdict: Verdict, pools: tuple[PoolVerdict, ...], held: tuple[Reason, ...]) -> Verdict:
        """Return a result with other results for its pools, computed once for pods that are alike."""
        workload = verdict.workload
        key = id(verdict.demand), id(workload.pod), id(pools), held
        if key not in self._found:
            # The result holds these objects, so that no other objects get the same ids.
            self._found[key] = self._case.with_pool_results(verdict, pools, held)
        like = self._found[key]
        return Verdict(workload, like.answer, like.pools, like.reasons, like.demand, like.rests_on)

    def _required_assumptions(self, workload: Workload, pools: tuple[PoolVerdict, ...]) -> tuple[str, ...]:
        """Return the assumptions that must hold because the pools without assumptions don't have room for all pods."""
        taking = [each for each in pools if each.answer is Answer.YES] if self._presumed else []
        assumptions = dict.fromkeys(text for each in taking for text in self._presumed.get(id(each.pool), ()))
        return tuple(text for text in assumptions if not self._holds_without(text, workload, taking))

    def _holds_without(self, text: str, workload: Workload, taking: Iterable[PoolVerdict]) -> bool:
        """Whether pools without an assumption certainly have room for all pods of a workload."""
        room = [each.holds for each in taking if text not in self._presumed.get(id(each.pool), ())]
        wanted = 1 if workload.replicas is None or workload.takes_turns else workload.replicas
        return bool(room) and (None in room or sum(each or 0 for each in room) >= wanted)

    def _pools(self, judged: tuple[PoolVerdict, ...]) -> tuple[PoolVerdict, ...]:
        """Return the results of pools, as one tuple for all workloads that shared one."""
        if not self._of_pools:
            return judged
        if id(judged) not in self._judged:
            stopped = (self._pool(each) for each in judged)
            self._judged[id(judged)] = tuple(sorted(stopped, key=lambda each: each.distance))
        return self._judged[id(judged)]

    def _pool(self, judged: PoolVerdict) -> PoolVerdict:
        reasons = self._of_pools.get(id(judged.pool))
        if not reasons:
            return judged
        # A rule explains more precisely than the scheduler.
        rules = {each.rule for each in reasons}
        certain = [each for each in reasons if each.answer is Answer.NO]
        other_reasons = [each for each in judged.reasons if each.rule not in rules]
        if certain or judged.answer is Answer.NO:
            against = (each for each in other_reasons if each.answer is Answer.NO)
            return judged.because(Answer.NO, (*against, *certain))
        return judged.because(Answer.UNKNOWN, (*other_reasons, *reasons))


def _may_stop(finding: Finding) -> bool:
    """Whether a finding may be an error and isn't marked as untrue."""
    return finding.problem.unknown and not finding.not_true and finding.rule.severity == "error"


def _new(reasons: Iterable[Reason], known: Iterable[Reason]) -> tuple[Reason, ...]:
    """Return the reasons of rules that aren't reported yet."""
    reported = {each.rule for each in known}
    return tuple(each for each in reasons if each.rule not in reported)


class SetLater:
    """The values of a case that only deployment sets, by the part that they affect.

    A value of a workload, of its storage or of a pool makes a "runs" conditional, unless deployments usually set it. A
    "runs" lists the other values in `restsOn`.

    Args:
        case: The cluster.
    """

    def __init__(self, case: Case) -> None:
        self._case, self._reach = case, Reach(case)
        self._pool_values: dict[int, list[OpenValue]] = {}
        self._workload_values: dict[int, list[OpenValue]] = {}
        self._shared_values: list[OpenValue] = []
        for value in case.open_values:
            pools, workloads = list(self._reach.pools(value.owner)), self._workloads(value)
            for pool in pools:
                self._pool_values.setdefault(id(pool), []).append(value)
            for workload in workloads:
                self._workload_values.setdefault(id(workload), []).append(value)
            if value.is_size or not (pools or any(each.asks_for_gpu for each in workloads)):
                self._shared_values.append(value)

    def apply(self, verdict: Verdict) -> Verdict:
        """Return the result with the effect of these values. Only a yes or a conditional result changes."""
        if not self._case.open_values or verdict.workload.is_placed or verdict.answer is Answer.NO:
            return verdict
        own = self._workload_values.get(id(verdict.workload), [])
        deciding = (each for each in (*own, *self._shared_values) if not (each.is_usual or each.is_size))
        decided = verdict.answer is Answer.YES or bool(conditions(verdict.reasons, verdict.pools))
        held = list(map(_reason, deciding)) if decided else []
        pools = tuple(map(self._pool, verdict.pools))
        if held or any(new is not old for new, old in zip(pools, verdict.pools, strict=True)):
            kept_reasons = (each for each in verdict.reasons if each.rule not in OF_ALL_POOLS)
            judged = tuple(sorted(pools, key=lambda each: each.distance))
            rests_on = verdict.rests_on
            verdict = replace(self._case.with_pool_results(verdict, judged, (*kept_reasons, *held)), rests_on=rests_on)
        values_of_candidates = (
            one for each in pools if each.answer is not Answer.NO for one in self._pool_values.get(id(each.pool), ())
        )
        every = (*own, *values_of_candidates, *self._shared_values)
        # The conditions of a conditional result name the values that decide it.
        shown = [each for each in every if verdict.answer is Answer.YES or each.is_usual or each.is_size]
        return replace(verdict, rests_on=(*verdict.rests_on, *_listed(shown)))

    def _pool(self, judged: PoolVerdict) -> PoolVerdict:
        values = [each for each in self._pool_values.get(id(judged.pool), ()) if not each.is_usual]
        if not judged.is_conditional or not values:
            return judged
        return judged.because(Answer.UNKNOWN, (*judged.reasons, *map(_reason, values)))

    def _workloads(self, value: OpenValue) -> Iterable[Workload]:
        return [*self._reach.workloads(value.owner), *self._storing.get(value.origin, ())]

    @cached_property
    def _storing(self) -> dict[Origin, list[Workload]]:
        """Workloads by their claims, and by the StorageClasses and volumes of these claims."""
        found: dict[Origin, list[Workload]] = {}
        for workload in self._case.cluster.workloads:
            for origin in self._storage(workload):
                found.setdefault(origin, []).append(workload)
        return found

    def _storage(self, workload: Workload) -> Iterator[Origin]:
        cluster = self._case.cluster
        for claim in claimed(workload, cluster):
            own = cluster.volume_claims.get((workload.namespace, claim.name or ""))
            storage = (each.object for each in (claim.storage_class, claim.volume) if each)
            yield from (each.origin for each in (own, *storage) if each is not None)


def _reason(value: OpenValue) -> Reason:
    condition = f"deployment sets {value.text} to a value with which these pods run"
    text = f"{value.text} is known at deployment only"
    if value.is_condition:
        condition = f"the condition of {value.origin.path} is true"
        text = f"it is known at deployment only whether {value.origin.path} is created"
    return Reason(Answer.UNKNOWN, "value", text, condition=condition)


def _listed(values: Iterable[OpenValue]) -> Iterator[str]:
    """Yield each value with its first place, and how many more places it has."""
    places: dict[str, list[str]] = {}
    for each in values:
        if each.is_condition:
            yield f"the condition of {each.origin.path} is true"
            continue
        found = places.setdefault(each.value, [])
        found += [each.place] if each.place not in found else []
    for expression, found in places.items():
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield f"deployment sets {shortened(expression)} ({found[0]}{more})"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The results of some workloads in one cluster.

    Attributes:
        case: The cluster.
        verdicts: The result for each, next to all workloads that request GPUs.
        packing: The load of each pool if all workloads that run alone run together, and which of these workloads don't
            fit.
    """

    case: Case
    verdicts: tuple[Verdict, ...]
    packing: Packing


def explain(case: Case, findings: Iterable[Finding] = (), workloads: Iterable[Workload] | None = None) -> Explanation:
    """Check workloads against the pools of a cluster.

    Args:
        case: The cluster.
        findings: Findings of rules in it. An error that isn't acknowledged keeps pods from running.
        workloads: Some of its workloads. Default: those that request a GPU.
    """
    stops, later = Stops(case, findings), SetLater(case)
    wanted = case.judged_workloads if workloads is None else tuple(workloads)
    chosen = {id(each) for each in wanted}
    others = [each for each in case.judged_workloads if id(each) not in chosen]
    alone = [_with_partners(later.apply(stops.apply(case.verdict(each))), case) for each in (*wanted, *others)]
    beside = check_contention(alone, case.services_without_gpus)
    assumptions = Assumptions(case.cluster)
    settled = tuple(_with_assumptions(_with_scheduler_message(each), case, assumptions) for each in beside)
    running = [each for each, before in zip(settled, alone, strict=True) if before.answer is Answer.YES]
    packing = pack(*([each for each in running if each.workload.ends is ends] for ends in (False, True)))
    settled_ids = {id(each.workload) for each in settled[: len(wanted)] if _may_be_left(each)}
    left = tuple(each for each in packing.left if id(each[0]) in settled_ids)
    return Explanation(case, settled[: len(wanted)], replace(packing, left=left))


def _with_assumptions(verdict: Verdict, case: Case, assumptions: Assumptions) -> Verdict:
    """Return a result with its assumptions about the cluster, if the input may have only a part of the cluster."""
    if verdict.workload.is_placed:
        return verdict
    verdict = _with_unread_input(verdict, case.cluster.may_hide("objects"))
    if verdict.answer is Answer.NO:
        # A rule's finding about the pod applies to every pool.
        refused = any(
            each.kind in (*_OF_THE_POD, "rule", "program") and each.answer is Answer.NO for each in verdict.reasons
        )
        other = () if case.cluster.whole or refused else (_OTHER_POOLS,)
        return replace(verdict, rests_on=(*verdict.rests_on, *other))
    runs_if = conditions(verdict.reasons, verdict.pools) if verdict.answer is Answer.UNKNOWN else ()
    if verdict.answer is Answer.UNKNOWN and not runs_if:
        return verdict
    relied = assumptions.for_workload(verdict.workload, verdict.pools)
    assumed = (f"assumed: {each}" for each in sorted(case.cluster.assumed))
    return replace(verdict, rests_on=(*verdict.rests_on, *assumed, *relied), runs_if=runs_if)


def _with_unread_input(verdict: Verdict, hidden: Sequence[str]) -> Verdict:
    """Return a result with the effect of unread parts of the input, which may contain an object that limits pods."""
    if verdict.answer is Answer.NO or not hidden:
        return verdict
    shown = ", ".join(hidden[:_SHOWN]) + (f" and {len(hidden) - _SHOWN} more" if len(hidden) > _SHOWN else "")
    reason = Reason(
        Answer.UNKNOWN,
        "unread",
        f"{shown} can't be read, and may contain an object that limits these pods, such as a quota",
        condition=f"nothing that can't be read limits these pods ({shown})",
    )
    return replace(verdict, answer=Answer.UNKNOWN, reasons=(*verdict.reasons, reason))


def _with_partners(verdict: Verdict, case: Case) -> Verdict:
    """Return a result with the roles of the same object that its pods wait for and that find no node."""
    partners = case.partners(verdict.workload) if not verdict.workload.is_placed else ()
    verdicts = [_partner_verdict(each, case) for each in partners if each.replicas != 0]
    waiting = [each for each in verdicts if each.answer is not Answer.YES]
    if not waiting:
        return verdict
    sized = [each for each in waiting if _lacks_only_sizes(each)]
    assumed = (f"a node without GPUs has room for {each.workload.name}" for each in sized)
    reasons = [_partner_reason(each, case) for each in waiting if each not in sized]
    answer = all_yes((verdict.answer, *(each.answer for each in reasons)))
    rests_on = (*verdict.rests_on, *assumed)
    return replace(verdict, answer=answer, reasons=(*verdict.reasons, *reasons), rests_on=rests_on)


def _partner_verdict(partner: Workload, case: Case) -> Verdict:
    """Return the result for a role without GPUs, which may also run on the built-in pools of Auto Mode."""
    verdict = case.verdict(partner)
    if verdict.answer is not Answer.NO or case.with_built_in_pools is None:
        return verdict
    built_in = case.with_built_in_pools.verdict(partner)
    if built_in.answer is Answer.NO:
        return verdict
    if not has_unknown_built_in_pools(case.cluster):
        return built_in
    text = "the built-in pools of Auto Mode in the cluster are known at deployment only"
    return replace(built_in, answer=Answer.UNKNOWN, reasons=(*built_in.reasons, Reason(Answer.UNKNOWN, "pool", text)))


def _lacks_only_sizes(partner: Verdict) -> bool:
    """Whether only the size of nodes without GPUs is unknown. The catalogue has no sizes for them."""
    open_pools = [each for each in partner.pools if each.answer is Answer.UNKNOWN]
    unknown = [one for each in open_pools[:1] for one in each.reasons if one.answer is Answer.UNKNOWN]
    sized = bool(open_pools) and all(node.row is None for node in open_pools[0].nodes_taking)
    of_sizes = all(each.rule == "GPU121" for each in partner.reasons)
    return sized and of_sizes and all(one.kind == "resource" for one in unknown)


def _partner_reason(partner: Verdict, case: Case) -> Reason:
    name = partner.workload.name
    reasons = [each.text for each in partner.reasons if each.answer is partner.answer]
    reasons += [f"pool {one.pool.name}: {each.text}" for one in partner.pools[:1] for each in one.reasons]
    why = f": {reasons[0]}" if reasons else ""
    refused = any(each.kind == "refused" for each in partner.reasons)
    if partner.answer is Answer.NO and (case.cluster.whole or refused):
        return Reason(Answer.NO, "partner", f"waits for {name}, which would stay Pending{why}")
    conditional = conditions(partner.reasons, partner.pools) if partner.answer is Answer.UNKNOWN else ()
    elsewhere = not case.cluster.whole and not refused
    condition = f"{name} runs on a node that isn't in the input" if elsewhere else " and ".join(conditional)
    text = f"waits for {name}, and it is unknown whether {name} gets a node{why}"
    return Reason(Answer.UNKNOWN, "partner", text, condition=condition)


def _with_scheduler_message(verdict: Verdict) -> Verdict:
    """Return a result with the message of the running cluster's scheduler, which contradicts a yes."""
    message = verdict.workload.unscheduled
    if not message:
        return verdict
    text = f"the scheduler reports: {message}"
    if verdict.answer is Answer.YES:
        text = f"the checker finds room for every pod, but {text}"
    reasons = (Reason(Answer.UNKNOWN, "observed", text), *verdict.reasons)
    return replace(verdict, answer=all_yes((verdict.answer, Answer.UNKNOWN)), reasons=reasons)


def _may_be_left(verdict: Verdict) -> bool:
    """Whether pods of a workload may wait while all workloads run. A service that fits next to them doesn't."""
    return verdict.answer is not Answer.YES or verdict.workload.ends
