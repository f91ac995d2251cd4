"""GPU pods that no pool gives a node."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import JOBS, Cluster
from gpu_constructs.preflight.reading.unknown import all_known
from gpu_constructs.preflight.rules.rule import Problem, rule
from gpu_constructs.preflight.scheduling.pool_limits import node_limit
from gpu_constructs.preflight.scheduling.verdict import PoolVerdict, Verdict

_SHOWN = 3


@rule("GPU120", "error", source="https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/")
def gpu_pod_that_no_pool_gives_a_node(case: Case) -> Iterator[Problem]:
    """GPU pod that no pool gives a node.

    The pod stays Pending: no node fits it, or no autoscaler expects that a new one would.

    Fix: Change the pod or the nearest pool as the message says.
    """
    cluster = case.cluster
    for verdict in case.verdicts:
        pools = verdict.pools
        refused = [each.text for each in verdict.reasons if each.kind == "refused"]
        if refused:
            yield Problem.of(verdict.workload, f"{refused[0]}")
            continue
        if not _none_takes(verdict, cluster) or any(each.only_limited for each in pools):
            continue
        yield Problem.of(verdict.workload, _why(pools), unknown=not cluster.whole)


def _none_takes(verdict: Verdict, cluster: Cluster) -> bool:
    if not verdict.pools:
        return cluster.whole and not cluster.opaque
    return all(each.answer is Answer.NO for each in verdict.pools)


def _why(pools: tuple[PoolVerdict, ...]) -> str:
    if not pools:
        return "would stay Pending, the cluster has no pool of its own"
    reasons = "; ".join(pools[0].refusing[:_SHOWN])
    return f"would stay Pending, and pool {pools[0].pool.name} comes nearest: {reasons}"


@rule("GPU121", "error", source="https://karpenter.sh/docs/concepts/nodepools/#speclimits")
def more_replicas_than_the_limits_of_the_pools_allow(case: Case) -> Iterator[Problem]:
    """More replicas than the limits of the pools allow.

    The pool stops at its maximum, and the replicas beyond it stay Pending.

    Fix: Raise the maximum or the limit of the pool, or lower the replicas.
    """
    for verdict in case.verdicts:
        workload = verdict.workload
        replicas, most = workload.replicas, _most(verdict)
        if workload.takes_turns:
            continue
        if replicas is not None and most is not None and most < replicas:
            bounds = ", ".join(f"{each.pool.name}: {each.binding}" for each in verdict.pools if each.only_limited)
            message = f"at most {most} of {replicas} pods run ({bounds})"
            # The pods of an indexed job may need one another, or take turns.
            yield Problem.of(workload, message, unknown=workload.owner.kind in JOBS or not case.cluster.whole)


def _most(verdict: Verdict) -> int | None:
    """Return how many pods run when every pool that takes them is used up; ``None`` where there is no bound."""
    if any(each.answer is not Answer.NO for each in verdict.pools):
        return None
    bounds = all_known(_bound(each) for each in verdict.pools if each.only_limited)
    return sum(bounds) if bounds else None


def _bound(verdict: PoolVerdict) -> int | None:
    limits = all_known(node_limit(verdict.pool, node) for node in verdict.nodes_taking)
    return max(limits) * (verdict.per_node or 1) if limits else None
