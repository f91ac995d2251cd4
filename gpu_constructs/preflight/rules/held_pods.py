"""GPU pods that are held back before any node is looked for."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_constructs.preflight.answer import Answer
from gpu_constructs.preflight.model import Cluster, Object, Workload
from gpu_constructs.preflight.pod_size import pod_requests
from gpu_constructs.preflight.quantity import resources
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.rules.verdicts import is_queued
from gpu_constructs.preflight.scheduling import general_reasons
from gpu_constructs.preflight.unknown import is_true, known_number, known_text, mapping, mappings

# Charts that bring a RuntimeClass of their own.
_BRINGS_RUNTIME_CLASSES = ("gpu-operator",)
# Pods with a lower priority start no node.
# Source: kubernetes/autoscaler cluster-autoscaler 1.36.1 main.go, flag expendable-pods-priority-cutoff
_EXPENDABLE_BELOW = -10
_PREFIX = "nvidia.com/"


def _gpu_workloads(cluster: Cluster) -> Iterator[Workload]:
    return (each for each in cluster.workloads if each.asks_for_gpu)


def _runtime_class(cluster: Cluster) -> Iterator[Problem]:
    if not cluster.sees_software or any(cluster.chart(each) for each in _BRINGS_RUNTIME_CLASSES):
        return
    known = {each.name for each in cluster.of_kind("RuntimeClass")}
    for workload in cluster.workloads:
        name = known_text(workload.pod.get("runtimeClassName"))
        if name and name not in known:
            yield Problem(
                workload.origin, f"{workload.name}: runtimeClassName {name} is no RuntimeClass of the cluster"
            )


def _waits(cluster: Cluster) -> Iterator[Problem]:
    for workload in _gpu_workloads(cluster):
        gates = [each.text for each in general_reasons(workload.pod, cluster) if each.kind == "gate"]
        for text in gates:
            yield Problem(workload.origin, f"{workload.name}: {text}")
        if is_true(workload.owner.spec.get("suspend")) and not is_queued(workload):
            yield Problem(workload.origin, f"{workload.name}: is suspended, and no queue is named that would start it")


def _scheduler(cluster: Cluster) -> Iterator[Problem]:
    for workload in _gpu_workloads(cluster):
        for each in general_reasons(workload.pod, cluster):
            if each.kind == "scheduler" and cluster.whole:
                unknown = each.answer is not Answer.NO or not cluster.sees_software
                yield Problem(workload.origin, f"{workload.name}: {each.text}", unknown=unknown)


def _expendable(cluster: Cluster) -> Iterator[Problem]:
    autoscaler = cluster.autoscaler("cluster-autoscaler")
    if autoscaler is None or cluster.autoscaler("karpenter") or cluster.auto_mode:
        return
    written = autoscaler.flags.get("expendable-pods-priority-cutoff")
    cutoff = _EXPENDABLE_BELOW if written is None else known_number(written)
    for workload in _gpu_workloads(cluster):
        if cutoff is not None and workload.priority is not None and workload.priority < cutoff:
            text = f"priority {workload.priority} is below {cutoff}, so cluster autoscaler makes no node for it"
            yield Problem(workload.origin, f"{workload.name}: {text}")


def _quota(cluster: Cluster) -> Iterator[Problem]:
    for workload in _gpu_workloads(cluster):
        asked = {name: amount for name, amount in pod_requests(workload.pod).items() if name.startswith(_PREFIX)}
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
            yield Problem(workload.origin, f"{workload.name}: {text}")


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
                yield Problem(workload.origin, f"{workload.name}: {text}")


def _largest(workload: Workload, name: str, limit: dict[str, object]) -> int:
    if limit.get("type") == "Pod":
        return pod_requests(workload.pod).get(name, 0)
    asked = (mapping(mapping(each.get("resources")).get("limits")) for each in workload.containers)
    return max((resources(each).get(name, 0) for each in asked), default=0)


RULES = (
    Rule(
        id="GPU126",
        severity="error",
        title="RuntimeClass that does not exist",
        why="The API server refuses every pod that names it.",
        source="https://kubernetes.io/docs/concepts/containers/runtime-class/",
        fix="Leave out runtimeClassName: images with NVIDIA's driver run GPU pods without; or create the RuntimeClass.",
        causes=("E13",),
        check=_runtime_class,
    ),
    Rule(
        id="GPU127",
        severity="warning",
        title="GPU pod that waits until somebody releases it",
        why="A pod with scheduling gates or of a suspended job makes no autoscaler move.",
        source="https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/",
        fix="Name the queue that releases it, or remove the gates and the suspension.",
        causes=("E13",),
        check=_waits,
    ),
    Rule(
        id="GPU128",
        severity="error",
        title="Scheduler that nothing installs",
        why="The pod waits for a scheduler that never looks at it.",
        source="https://kubernetes.io/docs/tasks/extend-kubernetes/configure-multiple-schedulers/",
        fix="Install that scheduler, or leave out schedulerName.",
        causes=("E13",),
        check=_scheduler,
    ),
    Rule(
        id="GPU129",
        severity="warning",
        title="Priority too low for a new node",
        why="Cluster autoscaler ignores the pod; it runs only where a node happens to be free.",
        source="kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/FAQ.md",
        fix="Give its PriorityClass a value of -10 or more.",
        causes=("E11",),
        check=_expendable,
    ),
    Rule(
        id="GPU130",
        severity="error",
        title="More GPUs than the namespace allows",
        why="The API server refuses the pods beyond the quota: their owner reports FailedCreate, no pod is Pending.",
        source="https://kubernetes.io/docs/concepts/policy/resource-quotas/",
        fix="Raise the quota, or ask for fewer GPUs.",
        causes=("E12",),
        check=_quota,
    ),
)
