"""GPU pods that are held back before any node is looked for."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_constructs.facts.charts import GPU_OPERATOR
from gpu_constructs.facts.quantities import resources
from gpu_constructs.facts.resources import NVIDIA
from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.cluster.kueue import is_queued
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Cluster, Workload
from gpu_constructs.preflight.reading.objects import Object
from gpu_constructs.preflight.reading.unknown import known_number, mapping, mappings
from gpu_constructs.preflight.rules.rule import Problem, rule

# Charts that bring a RuntimeClass of their own.
_BRINGS_RUNTIME_CLASSES = (GPU_OPERATOR,)
# Pods with a lower priority start no node.
# Source: kubernetes/autoscaler cluster-autoscaler 1.36.1 main.go, flag expendable-pods-priority-cutoff
_EXPENDABLE_BELOW = -10


@rule("GPU126", "error", source="https://kubernetes.io/docs/concepts/containers/runtime-class/")
def runtimeclass_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """RuntimeClass that does not exist.

    The API server refuses every pod that names it.

    Fix: Leave out runtimeClassName: images with NVIDIA's driver run GPU pods without; or create the RuntimeClass.
    """
    cluster = case.cluster
    if not cluster.sees_software or any(cluster.chart(each) for each in _BRINGS_RUNTIME_CLASSES):
        return
    known = {each.name for each in cluster.of_kind("RuntimeClass")}
    for workload in cluster.workloads:
        name = workload.pod.runtime_class
        if name and name not in known:
            yield Problem.of(workload, f"runtimeClassName {name} is no RuntimeClass of the cluster")


@rule("GPU127", "warning", source="https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/")
def gpu_pod_that_waits_until_somebody_releases_it(case: Case) -> Iterator[Problem]:
    """GPU pod that waits until somebody releases it.

    A pod with scheduling gates or of a suspended job makes no autoscaler move.

    Fix: Name the queue that releases it, or remove the gates and the suspension.
    """
    for verdict in case.verdicts:
        workload = verdict.workload
        gates = [each.text for each in verdict.reasons if each.kind == "gate"]
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
    cluster = case.cluster
    for verdict in case.verdicts:
        workload = verdict.workload
        for each in verdict.reasons:
            if each.kind == "scheduler" and cluster.whole:
                unknown = each.answer is not Answer.NO or not cluster.sees_software
                yield Problem.of(workload, each.text, unknown=unknown)


@rule("GPU129", "warning", source="kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/FAQ.md")
def priority_too_low_for_a_new_node(case: Case) -> Iterator[Problem]:
    """Priority too low for a new node.

    Cluster autoscaler ignores the pod; it runs only where a node happens to be free.

    Fix: Give its PriorityClass a value of -10 or more.
    """
    cluster = case.cluster
    autoscaler = cluster.autoscaler("cluster-autoscaler")
    if autoscaler is None or cluster.autoscaler("karpenter") or cluster.auto_mode:
        return
    written = autoscaler.flags.get("expendable-pods-priority-cutoff")
    cutoff = _EXPENDABLE_BELOW if written is None else known_number(written)
    for workload in case.gpu_workloads:
        if cutoff is not None and workload.priority is not None and workload.priority < cutoff:
            text = f"priority {workload.priority} is below {cutoff}, so cluster autoscaler makes no node for it"
            yield Problem.of(workload, text)


@rule("GPU130", "error", source="https://kubernetes.io/docs/concepts/policy/resource-quotas/")
def more_gpus_than_the_namespace_allows(case: Case) -> Iterator[Problem]:
    """More GPUs than the namespace allows.

    The API server refuses the pods beyond the quota: their owner reports FailedCreate, no pod is Pending.

    Fix: Raise the quota, or ask for fewer GPUs.
    """
    cluster = case.cluster
    for workload in case.gpu_workloads:
        asked = {name: amount for name, amount in workload.pod.requests.items() if name.startswith(NVIDIA)}
        for name, amount in asked.items():
            yield from _over_quota(cluster, workload, name, amount)
            yield from _over_range(cluster, workload, name, amount)


def _in_namespace(cluster: Cluster, kind: str, workload: Workload) -> list[Object]:
    return [each for each in cluster.of_kind(kind) if each.namespace == workload.namespace]


def _over_quota(cluster: Cluster, workload: Workload, name: str, amount: int) -> Iterator[Problem]:
    pods = 1 if workload.replicas is None or workload.takes_turns else workload.replicas
    for quota in _in_namespace(cluster, "ResourceQuota", workload):
        scoped = quota.spec.get("scopes") or quota.spec.get("scopeSelector")
        most = resources(quota.spec.get("hard")).get(f"requests.{name}")
        if not scoped and most is not None and amount * pods > most:
            text = f"asks for {amount * pods} {name} in all, ResourceQuota {quota.name} allows {most}"
            yield Problem.of(workload, text)


def _over_range(cluster: Cluster, workload: Workload, name: str, amount: int) -> Iterator[Problem]:
    for each in _in_namespace(cluster, "LimitRange", workload):
        for limit in mappings(each.spec.get("limits")):
            most = resources(mapping(limit.get("max"))).get(name)
            if (
                limit.get("type") in ("Pod", "Container")
                and most is not None
                and _largest(workload, name, limit) > most
            ):
                text = f"asks for {amount} {name}, LimitRange {each.name} allows {most} in a {limit['type']}"
                yield Problem.of(workload, text)


def _largest(workload: Workload, name: str, limit: dict[str, object]) -> int:
    if limit.get("type") == "Pod":
        return workload.pod.requests.get(name, 0)
    return max((resources(each.limits).get(name, 0) for each in workload.containers), default=0)
