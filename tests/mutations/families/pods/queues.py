"""Queues of Kueue and of KAI Scheduler."""

from __future__ import annotations

from typing import Any

from tests.mutations.families.nodes.node_classes import charts
from tests.mutations.operator import MEASURED, operator
from tests.mutations.written import Written, containers, drop, look, pod, put, replace

KUEUE = "https://kueue.sigs.k8s.io/docs/concepts/"
KAI = "https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.17.0/docs/queues/README.md"
GROUP = ("spec", "resourceGroups", 0)
QUEUE_NAME = "kueue.x-k8s.io/queue-name"


def queues(given: Written) -> list[Any]:
    """The ClusterQueues."""
    return given.objects("ClusterQueue")


def queued(given: Written) -> list[Any]:
    """The jobs in a queue of Kueue."""
    return [each for each in given.gpu_workloads if look(each, "metadata", "labels", QUEUE_NAME)]


@operator(MEASURED + "a namespace without the label that the queue selects")
def namespace_without_the_label(given: Written) -> bool:
    """The queue selects namespaces by a label that the job's does not have."""
    return any(drop(each, "metadata", "labels") for each in given.objects("Namespace") if queues(given))


@operator(MEASURED + "a queue that is not there")
def queue_that_is_not_there(given: Written) -> bool:
    """The job names a queue that is not there."""
    return any(put(each, "metadata", "labels", QUEUE_NAME, to="gpus") for each in queued(given))


@operator(KUEUE)
def queue_of_another_namespace(given: Written) -> bool:
    """The LocalQueue is in another namespace."""
    return any(put(each, "metadata", "namespace", to="default") for each in given.objects("LocalQueue"))


@operator("https://github.com/headlamp-k8s/plugins/issues/1191")
def flavor_that_is_not_there(given: Written) -> bool:
    """The ClusterQueue names a flavor that is not there."""
    return any(replace(each, *GROUP, "flavors", 0, "name", to="l40s") for each in queues(given))


@operator(KUEUE)
def quota_below_the_job(given: Written) -> bool:
    """The quota of GPUs is below what the job asks for."""
    changed = False
    for each in queues(given):
        for one in look(each, *GROUP, "flavors", 0, "resources") or []:
            changed = (one["name"] == "nvidia.com/gpu" and put(one, "nominalQuota", to=0)) or changed
    return changed and all(drop(each, "spec", "cohortName") or True for each in queues(given))


@operator(KUEUE)
def quota_of_cpu_below_the_job(given: Written) -> bool:
    """The quota of CPU is below what the job asks for."""
    changed = False
    for each in queues(given):
        for one in look(each, *GROUP, "flavors", 0, "resources") or []:
            changed = (one["name"] == "cpu" and put(one, "nominalQuota", to=1)) or changed
    return changed and all(drop(each, "spec", "cohortName") or True for each in queues(given))


@operator(KUEUE)
def order_of_the_resources(given: Written) -> bool:
    """The resources of the flavor are in another order than those covered."""
    return any(
        put(each, *GROUP, "flavors", 0, "resources", to=look(each, *GROUP, "flavors", 0, "resources")[::-1])
        for each in queues(given)
    )


@operator(KUEUE)
def flavor_of_a_label_that_no_node_has(given: Written) -> bool:
    """The flavor is of a label that no node has."""
    return any(put(each, "spec", "nodeLabels", to={"team": "audio"}) for each in given.objects("ResourceFlavor"))


@operator(KUEUE)
def strategy_misspelt(given: Written) -> bool:
    """The strategy of the queue is misspelt."""
    return any(put(each, "spec", "queueingStrategy", to="BestEffortFifo") for each in queues(given))


@operator(KUEUE)
def priority_of_the_queue_that_is_not_there(given: Written) -> bool:
    """The job names a priority of Kueue that is not there."""
    return any(put(each, "metadata", "labels", "kueue.x-k8s.io/priority-class", to="urgent") for each in queued(given))


@operator("https://github.com/kubernetes-sigs/kueue/blob/v0.19.2/charts/kueue/README.md")
def no_kueue(given: Written) -> bool:
    """Kueue is not installed."""
    for template in given.templates:
        for name, each in list(template["Resources"].items()):
            if look(each, "Properties", "Chart") == "kueue":
                del template["Resources"][name]
                return True
    return False


@operator(MEASURED + "a queue of the other system")
def queue_of_the_other_system(given: Written) -> bool:
    """The pod of KAI Scheduler names a queue of Kueue."""
    return any(
        replace(each, "metadata", "labels", "kai.scheduler/queue", to="gpu")
        for each in given.objects("Pod")
        if queues(given)
    )


@operator(KAI)
def queue_with_others_below_it(given: Written) -> bool:
    """The pod names a queue that has others below it."""
    return any(
        replace(each, "metadata", "labels", "kai.scheduler/queue", to="research")
        for each in given.objects("Pod")
        if given.objects("Queue")
    )


@operator(KAI)
def scheduler_of_another_name(given: Written) -> bool:
    """The pod names KAI Scheduler by its project's name."""
    return any(replace(each, "spec", "schedulerName", to="kai") for each in given.objects("Pod"))


@operator(KUEUE)
def job_waits_for_nobody(given: Written) -> bool:
    """The job is suspended, and in no queue."""
    return any(drop(each, "metadata", "labels", QUEUE_NAME) for each in queued(given) if look(each, "spec", "suspend"))


@operator(KUEUE)
def label_on_the_pods(given: Written) -> bool:
    """The queue's name is on the pods of the job instead of on the job, so that the job is never resumed."""
    for each in queued(given):
        if each["kind"] == "Job" and charts(given, "kueue") and containers(each):
            name = each["metadata"]["labels"].pop(QUEUE_NAME)
            return put(pod(each), "metadata", to={"labels": {QUEUE_NAME: name}})
    return False
