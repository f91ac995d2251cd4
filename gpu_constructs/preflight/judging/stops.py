"""What errors that rules find mean for pods: the pools that give no node, and the pods that never start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.cluster.kueue import cluster_queues, queued_jobs, quotas
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Autoscaler, Pool, Workload
from gpu_constructs.preflight.model.reason import Reason
from gpu_constructs.preflight.reading.objects import Object, Origin
from gpu_constructs.preflight.reading.unknown import known_text
from gpu_constructs.preflight.rules.rule import Finding, Subject
from gpu_constructs.preflight.scheduling.enough import OF_ALL_POOLS
from gpu_constructs.preflight.scheduling.verdict import PoolVerdict, Verdict

# How far a pool is from taking a pod when something else of it is broken.
_WEIGHT = 3


class Stops:
    """What the errors of a cluster stop. One that somebody accepts, or that only may be, stops nothing.

    Args:
        case: The cluster.
        findings: What rules found in it, or in others.
    """

    def __init__(self, case: Case, findings: Iterable[Finding]) -> None:
        self._case = case
        self._of_pools: dict[int, list[Reason]] = {}
        self._of_workloads: dict[int, list[Reason]] = {}
        self._judged: dict[int, tuple[PoolVerdict, ...]] = {}
        for each in findings:
            if each.counts and each.rule.stops and each.cluster == case.cluster.name:
                self._add(each)

    def _add(self, finding: Finding) -> None:
        subject = finding.problem.subject
        reason = Reason(Answer.NO, "rule", finding.problem.message, _WEIGHT, finding.rule.id)
        for pool in _pools_of(subject, self._case):
            self._of_pools.setdefault(id(pool), []).append(reason)
        for workload in _workloads_of(subject, self._case):
            self._of_workloads.setdefault(id(workload), []).append(reason)

    def on(self, verdict: Verdict) -> Verdict:
        """Return a verdict as it is beside those errors."""
        held = _new(self._of_workloads.get(id(verdict.workload), ()), verdict.reasons)
        pools = self._pools(verdict.pools) if verdict.workload.asks_for_gpu else verdict.pools
        if not held and pools is verdict.pools:
            return verdict
        # How many replicas fit is counted anew.
        standing = tuple(each for each in verdict.reasons if each.rule not in OF_ALL_POOLS)
        return self._case.over(verdict, pools, (*standing, *held))

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
        standing = [each for each in judged.reasons if each.answer is Answer.NO]
        return replace(judged, answer=Answer.NO, reasons=(*standing, *_new(reasons, standing)))


def _new(reasons: Iterable[Reason], known: Iterable[Reason]) -> tuple[Reason, ...]:
    """Return the reasons of rules that have not said so already."""
    said = {each.rule for each in known}
    return tuple(each for each in reasons if each.rule not in said)


def _pools_of(subject: Subject, case: Case) -> Iterator[Pool]:
    """Yield the pools that make no node for a GPU pod while something is broken."""
    cluster, origin = case.cluster, subject.origin
    whole = cluster.resource is not None and cluster.resource.origin == origin
    stopped = [each for each in cluster.autoscalers if each is subject or each.origin == origin]
    managers = {each.name for each in cluster.daemon_sets if each.advertises and each.origin == origin}
    for pool in cluster.pools:
        broken = whole or pool is subject or origin in _origins(pool)
        idle = any(_is_idle_without(each, pool) for each in stopped)
        bare = managers and any(managers.intersection(each.device_managers) for each in case.nodes(pool))
        if broken or idle or bare:
            yield pool


def _origins(pool: Pool) -> set[Origin]:
    """Return where everything stands that a pool is made of."""
    parts = [pool.resource, pool.launch_resource]
    return {pool.origin, *(each.origin for each in (*parts, pool.node_class) if each is not None)}


def _is_idle_without(autoscaler: Autoscaler, pool: Pool) -> bool:
    return autoscaler.kind == pool.autoscaler and not pool.min_nodes


def _workloads_of(subject: Subject, case: Case) -> Iterator[Workload]:
    """Yield the workloads whose pods never start while something is broken."""
    cluster, origin = case.cluster, subject.origin
    yield from (each for each in cluster.workloads if each is subject or each.origin == origin)
    if isinstance(subject, Object):
        yield from (each for each in cluster.workloads if _claims(each, subject))
        for job in queued_jobs(cluster):
            if _waits_for(job.local, job.cluster_queue, subject, case):
                yield from job.parts


def _claims(workload: Workload, claim: Object) -> bool:
    if claim.namespace != workload.namespace:
        return False
    names = {"ResourceClaim": "claim", "ResourceClaimTemplate": "template"}
    part = names.get(claim.kind)
    return part is not None and any(known_text(getattr(each, part)) == claim.name for each in workload.pod.claims)


def _waits_for(local: Object | None, name: str | None, subject: Object, case: Case) -> bool:
    """Whether a job waits in a queue that is broken, or whose only flavor is."""
    queue = cluster_queues(case.cluster).get(name or "")
    if subject in (local, queue):
        return True
    flavors = {flavor for group in quotas(queue) for flavor in group.flavors} if queue else set()
    return subject.kind == "ResourceFlavor" and flavors == {subject.name}
