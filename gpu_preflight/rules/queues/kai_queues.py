"""Pods of KAI Scheduler that it never places."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.charts import KAI_SCHEDULER
from gpu_facts.labels import KAI_QUEUE
from gpu_facts.resources import GPU
from gpu_preflight.case import Case
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, is_true, known_text
from gpu_preflight.rules.rule import Problem, rule

_PARTS = ("gpu-fraction", "gpu-memory")
# The chart makes two queues of its own.
# Source: kai-scheduler/KAI-Scheduler v0.17.0 deployments/kai-scheduler/values.yaml
_DEFAULT_QUEUE, _DEFAULT_PARENT = "default-queue", "default-parent-queue"
# KubeRay itself names the scheduler, once it is told to use KAI Scheduler.
# Source: ray-project/kuberay ray-operator/controllers/ray/batchscheduler/kai-scheduler/kai_scheduler.go (2026-08)
_NAMED_LATER = ("RayCluster", "RayJob", "RayService")
_DOCUMENTED = "https://github.com/kai-scheduler/KAI-Scheduler/tree/v0.17.0/docs"


def _queue_of(workload: Workload) -> str | None:
    return known_text(workload.owner.labels.get(KAI_QUEUE)) or known_text(workload.labels.get(KAI_QUEUE))


def _queues(cluster: Cluster) -> list[Object]:
    return [each for each in cluster.of_kind("Queue") if each.group == "scheduling.run.ai"]


def _of_kai(cluster: Cluster) -> list[tuple[Workload, str]]:
    named = [(each, _queue_of(each)) for each in cluster.workloads if each.pod.scheduler == KAI_SCHEDULER]
    return [(each, queue) for each, queue in named if queue]


def _no_leaf(cluster: Cluster) -> Iterator[Problem]:
    queues = _queues(cluster)
    names = {each.name for each in queues} | {_DEFAULT_QUEUE, _DEFAULT_PARENT}
    parents = {known_text(each.spec.get("parentQueue")) for each in queues} | {_DEFAULT_PARENT}
    for workload, queue in _of_kai(cluster):
        if queue in parents:
            yield Problem.of(workload, f"queue {queue} has queues of its own and takes no pods")
        elif queue not in names and (queues or cluster.shows_software):
            message = f"nothing defines queue {queue} of KAI Scheduler"
            yield Problem.of(workload, message, unknown=not (queues or cluster.sees_software))


def _orphans(cluster: Cluster) -> Iterator[Problem]:
    queues = _queues(cluster)
    names = {each.name for each in queues} | {_DEFAULT_PARENT}
    for each in queues:
        parent = known_text(each.spec.get("parentQueue"))
        if parent and parent not in names:
            message = f"Queue {each.name}: nothing defines its parent {parent}"
            yield Problem(each, message, unknown=not (queues or cluster.sees_software))


@rule("GPU210", "error", source=f"{_DOCUMENTED}/queues")
def queue_of_kai_scheduler_that_takes_no_pods(case: Case) -> Iterator[Problem]:
    """Queue of KAI Scheduler that takes no pods.

    KAI Scheduler passes over jobs whose queue, or whose queue's parent, does not exist, or is no leaf.

    Fix: Name a queue that exists, has a parent that exists, and has no queues below it.
    """
    cluster = case.cluster
    yield from _no_leaf(cluster)
    yield from _orphans(cluster)


@rule("GPU211", "warning", source=f"{_DOCUMENTED}/quickstart")
def queue_of_kai_scheduler_on_a_pod_of_another_scheduler(case: Case) -> Iterator[Problem]:
    """Queue of KAI Scheduler on a pod of another scheduler.

    The other scheduler knows no queues: the pod takes GPUs that KAI Scheduler counts for its queues.

    Fix: Set schedulerName: kai-scheduler in the pod.
    """
    for each in case.cluster.workloads:
        queue, scheduler = _queue_of(each), each.pod.scheduler
        later = each.owner.kind in _NAMED_LATER and scheduler is None
        if queue and scheduler != KAI_SCHEDULER and not later and not isinstance(scheduler, Unknown):
            name = known_text(scheduler) or "the default scheduler"
            yield Problem.of(each, f"is in queue {queue} of KAI Scheduler, but {name} places it")


@rule("GPU212", "error", source=f"{_DOCUMENTED}/gpu-sharing")
def part_of_a_gpu_that_kai_scheduler_refuses(case: Case) -> Iterator[Problem]:
    """Part of a GPU that KAI Scheduler refuses.

    Its webhook refuses a pod that asks for a part and for whole GPUs, or for a part while sharing is off.

    Fix: Remove nvidia.com/gpu from the pod's limits, and set global.gpuSharing: true in the chart.
    """
    cluster = case.cluster
    chart = cluster.chart(KAI_SCHEDULER)
    sharing = dig(chart.values, "global", "gpuSharing") if chart else True
    for each in cluster.workloads:
        asked = next((name for name in _PARTS if name in each.annotations), None)
        if asked is None or each.pod.scheduler != KAI_SCHEDULER:
            continue
        if each.pod.requests.get(GPU):
            yield Problem.of(each, f"asks for {asked} and for whole {GPU} at once")
        elif not is_true(sharing) and not isinstance(sharing, Unknown):
            yield Problem.of(each, f"asks for {asked}, and the chart has global.gpuSharing off")
