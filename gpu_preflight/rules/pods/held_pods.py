"""GPU pods that are held back before any node is looked for."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preflight.case import Case
from gpu_preflight.cluster.kueue import is_queued
from gpu_preflight.model.answer import Answer
from gpu_preflight.rules.rule import Problem, rule
from gpu_preflight.scheduling.scheduling import priority_cutoff


@rule("GPU127", "warning", source="https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/")
def gpu_pod_that_waits_until_somebody_releases_it(case: Case) -> Iterator[Problem]:
    """GPU pod that waits until somebody releases it.

    A pod with scheduling gates or of a suspended job makes no autoscaler move.

    Fix: Name the queue that releases it, or remove the gates and the suspension.
    """
    for workload in case.gpu_workloads:
        gates = [each.text for each in case.verdict(workload).reasons if each.kind == "gate"]
        for text in gates:
            yield Problem.of(workload, text)
        if workload.suspended and not is_queued(workload):
            yield Problem.of(workload, "is suspended, and no queue is named that would start it")


@rule("GPU128", "error", source="https://kubernetes.io/docs/tasks/extend-kubernetes/configure-multiple-schedulers/")
def scheduler_that_nothing_installs(case: Case) -> Iterator[Problem]:
    """Scheduler that nothing installs.

    The pod waits for a scheduler that never looks at it.

    Fix: Install that scheduler, or leave out schedulerName.
    """
    for workload in case.gpu_workloads if case.cluster.whole else ():
        for each in case.verdict(workload).reasons:
            if each.kind == "scheduler":
                yield Problem.of(workload, each.text, unknown=each.answer is not Answer.NO)


@rule("GPU129", "warning", source="kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/FAQ.md")
def priority_too_low_for_a_new_node(case: Case) -> Iterator[Problem]:
    """Priority too low for a new node.

    Cluster autoscaler ignores the pod; it runs only where a node happens to be free.

    Fix: Give its PriorityClass a value of -10 or more.
    """
    cluster = case.cluster
    if cluster.autoscaler("karpenter") or cluster.auto_mode:
        return
    cutoff = priority_cutoff(cluster)
    for workload in case.gpu_workloads:
        if cutoff is not None and workload.priority is not None and workload.priority < cutoff:
            text = f"priority {workload.priority} is below {cutoff}, so cluster autoscaler makes no node for it"
            yield Problem.of(workload, text)
