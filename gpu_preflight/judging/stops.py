"""What errors that rules find mean for pods: the pools that give no node, and the pods that never start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpu_preflight.case import Case
from gpu_preflight.cluster.pools import is_of_eksctl
from gpu_preflight.judging.reach import Reach
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.reason import Reason
from gpu_preflight.model.workload import Workload
from gpu_preflight.rules.rule import Finding, Subject
from gpu_preflight.scheduling.enough import OF_ALL_POOLS
from gpu_preflight.scheduling.verdict import PoolVerdict, Verdict

# Sizes, labels and a version of Amazon Linux 2 that eksctl validates before it creates anything.
# Source: eksctl-io/eksctl 99984ad pkg/apis/eksctl.io/v1alpha5/validation.go
_REJECTED_BY_EKSCTL = ("GPU003", "GPU057", "GPU058")
# How far a pool is from taking a pod when something else of it is broken.
_WEIGHT = 3


class Stops:
    """What the errors of a cluster stop, accepted or not; one that is said not to be true stops nothing.

    Beside one that only may be, whether the pods of its workload run is not known.

    Args:
        case: The cluster.
        findings: What rules found in it, or in others.
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
        text = finding.problem.message
        whole = self._whole(finding)
        if whole is not subject:
            text = f"eksctl rejects the whole config: {text}"
        elif isinstance(subject, (Pool, Workload)):
            text = text.removeprefix(f"{subject.title}: ")
        weight, condition = (_WEIGHT, "") if answer is Answer.NO else (0, finding.problem.condition)
        kind = "program" if finding.rule.at_start else "rule"
        reason = Reason(answer, kind, text, weight, finding.rule.id, condition)
        for pool in self._reach.pools(whole):
            if answer is Answer.UNKNOWN and finding.rule.presumed and not finding.problem.condition:
                told = f"runs unless {finding.rule.id} is true: {finding.problem.message}"
                self._presumed.setdefault(id(pool), []).append(told)
            else:
                self._of_pools.setdefault(id(pool), []).append(reason)
        for workload in self._reach.workloads(subject):
            self._of_workloads.setdefault(id(workload), []).append(reason)

    def _whole(self, finding: Finding) -> Subject:
        """Return what an error is about: the whole cluster, where eksctl rejects a config because of one group."""
        subject, cluster = finding.problem.subject, self._case.cluster.resource
        rejected = isinstance(subject, Pool) and finding.rule.id in _REJECTED_BY_EKSCTL and is_of_eksctl(subject)
        return cluster if rejected and cluster is not None else subject

    def on(self, verdict: Verdict) -> Verdict:
        """Return a verdict as it is beside those errors."""
        if verdict.workload.is_placed:
            # Its pods run already.
            return verdict
        held = _new(self._of_workloads.get(id(verdict.workload), ()), verdict.reasons)
        pools = self._pools(verdict.pools) if verdict.demand.pod.asks_for_gpu else verdict.pools
        if held or pools is not verdict.pools:
            # How many replicas fit is counted anew.
            standing = tuple(each for each in verdict.reasons if each.rule not in OF_ALL_POOLS)
            verdict = self._over(verdict, pools, (*standing, *held))
        presumed = self._rests_on(verdict.workload, pools) if verdict.answer is Answer.YES else ()
        return replace(verdict, rests_on=(*verdict.rests_on, *presumed)) if presumed else verdict

    def _over(self, verdict: Verdict, pools: tuple[PoolVerdict, ...], held: tuple[Reason, ...]) -> Verdict:
        """Return a verdict over other verdicts on pools, which is found once for pods that are alike."""
        workload = verdict.workload
        key = id(verdict.demand), id(workload.pod), id(pools), held
        if key not in self._found:
            # The verdict keeps them, so that nothing else is given the same ids.
            self._found[key] = self._case.over(verdict, pools, held)
        like = self._found[key]
        return Verdict(workload, like.answer, like.pools, like.reasons, like.demand, like.rests_on)

    def _rests_on(self, workload: Workload, pools: tuple[PoolVerdict, ...]) -> tuple[str, ...]:
        """Return what has to hold as the pools for which nothing is presumed do not hold all pods of a workload."""
        taking = [each for each in pools if each.answer is Answer.YES] if self._presumed else []
        told = dict.fromkeys(text for each in taking for text in self._presumed.get(id(each.pool), ()))
        return tuple(text for text in told if not self._holds_without(text, workload, taking))

    def _holds_without(self, text: str, workload: Workload, taking: Iterable[PoolVerdict]) -> bool:
        """Whether pools of which something is not presumed surely hold all pods of a workload."""
        room = [each.holds for each in taking if text not in self._presumed.get(id(each.pool), ())]
        wanted = 1 if workload.replicas is None or workload.takes_turns else workload.replicas
        return bool(room) and (None in room or sum(each or 0 for each in room) >= wanted)

    def _pools(self, judged: tuple[PoolVerdict, ...]) -> tuple[PoolVerdict, ...]:
        """Return the verdicts of pools, one tuple for all workloads that shared one."""
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
        # A rule says more closely what the scheduler saw.
        told = {each.rule for each in reasons}
        certain = [each for each in reasons if each.answer is Answer.NO]
        standing = [each for each in judged.reasons if each.rule not in told]
        if certain or judged.answer is Answer.NO:
            against = (each for each in standing if each.answer is Answer.NO)
            return judged.because(Answer.NO, (*against, *certain))
        return judged.because(Answer.UNKNOWN, (*standing, *reasons))


def _may_stop(finding: Finding) -> bool:
    """Whether a finding that nobody says is not true may be an error."""
    return finding.problem.unknown and not finding.denied and finding.rule.severity == "error"


def _new(reasons: Iterable[Reason], known: Iterable[Reason]) -> tuple[Reason, ...]:
    """Return the reasons of rules that have not said so already."""
    said = {each.rule for each in known}
    return tuple(each for each in reasons if each.rule not in said)
