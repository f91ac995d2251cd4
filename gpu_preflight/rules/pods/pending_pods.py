"""GPU pods that no pool gives a node."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preflight.case import Case
from gpu_preflight.model.answer import Answer
from gpu_preflight.rules.rule import Problem, rule
from gpu_preflight.scheduling.verdict import Verdict

_SHOWN = 3


@rule("GPU120", "error", source="https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/", stops=False)
def gpu_pod_that_no_pool_gives_a_node(case: Case) -> Iterator[Problem]:
    """GPU pod that no pool gives a node.

    The pod stays Pending: no node fits it, or no autoscaler expects that a new one would.

    Fix: Change the pod or the nearest pool as the message says.
    """
    cluster = case.cluster
    for verdict in case.verdicts:
        refused = [each for each in verdict.reasons if each.kind == "refused" and each.answer is Answer.NO]
        if refused:
            yield from (Problem.of(verdict.workload, each.text) for each in refused[:1] if not each.rule)
            continue
        if not _none_takes(verdict):
            continue
        yield pending_problem(verdict, unknown=not cluster.whole or bool(cluster.hidden))


def pending_problem(verdict: Verdict, *, unknown: bool) -> Problem:
    """Return the problem of a workload that would stay Pending."""
    return Problem.of(verdict.workload, _why(verdict), unknown=unknown)


def _none_takes(verdict: Verdict) -> bool:
    if not verdict.pools:
        return any(each.kind == "pool" and each.answer is Answer.NO for each in verdict.reasons)
    return all(each.answer is Answer.NO for each in verdict.pools)


def _why(verdict: Verdict) -> str:
    general = [each.text for each in verdict.reasons if each.answer is Answer.NO]
    if general and not _none_takes(verdict):
        return f"would stay Pending: {general[0]}"
    if not verdict.pools:
        told = [each.text for each in verdict.reasons if each.kind == "pool"]
        return f"would stay Pending, {(told or ['the cluster has no pool of its own'])[0]}"
    nearest = verdict.pools[0]
    reasons = "; ".join(nearest.refusing[:_SHOWN])
    return f"would stay Pending, and pool {nearest.pool.name} comes nearest: {reasons}"


@rule("GPU121", "error", source="https://karpenter.sh/docs/concepts/nodepools/#speclimits", stops=False)
def more_replicas_than_the_limits_of_the_pools_allow(case: Case) -> Iterator[Problem]:
    """More replicas than the limits of the pools allow.

    The pools stop at their maximum, and the replicas beyond it stay Pending.

    Fix: Raise the maximum or the limit of a pool, or lower the replicas.
    """
    for verdict in case.verdicts:
        workload = verdict.workload
        for each in verdict.reasons:
            if each.rule == "GPU121":
                maybe = each.answer is not Answer.NO or not case.cluster.whole
                yield Problem.of(workload, each.text, unknown=maybe)


@rule("GPU374", "error", source="https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/", stops=False)
def workloads_that_do_not_fit_beside_each_other(case: Case) -> Iterator[Problem]:
    """Workloads that do not fit beside each other.

    Each would run alone; all of them at once ask for more than the pools may ever have, or keep apart from each other
    where there are not the nodes or zones for it. All pods that share a claim need one node.
    Services without GPUs take room too, where no taint keeps them off.

    Fix: Raise the maximum or the limit of a pool, lower the replicas, taint the nodes with GPUs, or let a queue start
    one after another.
    """
    for verdict in case.verdicts:
        for each in verdict.reasons:
            if each.rule == "GPU374":
                maybe = each.answer is not Answer.NO or not case.cluster.whole
                yield Problem.of(verdict.workload, each.text, unknown=maybe)
