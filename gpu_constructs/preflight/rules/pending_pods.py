"""GPU pods that no pool gives a node."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_constructs.preflight.answer import Answer
from gpu_constructs.preflight.model import Cluster
from gpu_constructs.preflight.pool_limits import node_limit
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.rules.verdicts import JOBS, gpu_verdicts, no_reasons, only_limited
from gpu_constructs.preflight.scheduling import PoolVerdict, Verdict

_SHOWN = 3


def _never(cluster: Cluster) -> Iterator[Problem]:
    for verdict in gpu_verdicts(cluster):
        pools = verdict.pools
        refused = [each.text for each in verdict.reasons if each.kind == "refused"]
        if refused:
            yield Problem(verdict.workload.origin, f"{verdict.workload.name}: {refused[0]}")
            continue
        if not _none_takes(verdict, cluster) or any(only_limited(each) for each in pools):
            continue
        yield Problem(verdict.workload.origin, f"{verdict.workload.name}: {_why(pools)}", unknown=not cluster.whole)


def _none_takes(verdict: Verdict, cluster: Cluster) -> bool:
    if not verdict.pools:
        return cluster.whole and not cluster.opaque
    return all(each.answer is Answer.NO for each in verdict.pools)


def _why(pools: tuple[PoolVerdict, ...]) -> str:
    if not pools:
        return "would stay Pending, the cluster has no pool of its own"
    reasons = "; ".join(no_reasons(pools[0])[:_SHOWN])
    return f"would stay Pending, and pool {pools[0].pool.name} comes nearest: {reasons}"


def _too_many(cluster: Cluster) -> Iterator[Problem]:
    for verdict in gpu_verdicts(cluster):
        workload = verdict.workload
        replicas, most = workload.replicas, _most(verdict)
        if workload.takes_turns:
            continue
        if replicas is not None and most is not None and most < replicas:
            bounds = ", ".join(f"{each.pool.name}: {each.binding}" for each in verdict.pools if only_limited(each))
            message = f"{workload.name}: at most {most} of {replicas} pods run ({bounds})"
            # The pods of an indexed job may need one another, or take turns.
            yield Problem(workload.origin, message, unknown=workload.owner.kind in JOBS or not cluster.whole)


def _most(verdict: Verdict) -> int | None:
    """Return how many pods run when every pool that takes them is used up; ``None`` where there is no bound."""
    if any(each.answer is not Answer.NO for each in verdict.pools):
        return None
    bounds = [_bound(each) for each in verdict.pools if only_limited(each)]
    known = [each for each in bounds if each is not None]
    return sum(known) if known and len(known) == len(bounds) else None


def _bound(verdict: PoolVerdict) -> int | None:
    limits = [node_limit(verdict.pool, node) for node in verdict.nodes_taking]
    known = [each for each in limits if each is not None]
    return max(known) * (verdict.per_node or 1) if known and len(known) == len(limits) else None


RULES = (
    Rule(
        id="GPU120",
        severity="error",
        title="GPU pod that no pool gives a node",
        why="The pod stays Pending: no node fits it, or no autoscaler expects that a new one would.",
        source="https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/",
        fix="Change the pod or the nearest pool as the message says.",
        causes=(
            *("D10", "D12", "D13", "E2", "E3", "E4", "E5", "E6", "E7", "E8", "E9", "F6", "F9", "F10", "F13", "F19"),
            *("G1", "G4", "G6", "G7", "G15", "K8", "P020", "P070"),
        ),
        check=_never,
    ),
    Rule(
        id="GPU121",
        severity="error",
        title="More replicas than the limits of the pools allow",
        why="The pool stops at its maximum, and the replicas beyond it stay Pending.",
        source="https://karpenter.sh/docs/concepts/nodepools/#speclimits",
        fix="Raise the maximum or the limit of the pool, or lower the replicas.",
        causes=("F14", "G2"),
        check=_too_many,
    ),
)
