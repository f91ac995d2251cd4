"""Rules for queues of Kueue and KAI Scheduler, and jobs that they never admit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gpu_facts.charts import KAI_SCHEDULER, KUEUE
from gpu_facts.labels import KAI_QUEUE, KUEUE_DOMAIN, KUEUE_QUEUE
from gpu_facts.quantities import show
from gpu_facts.refusals import did_you_mean
from gpu_facts.resources import GPU
from gpu_preflight.case import Case
from gpu_preflight.cluster.kueue import (
    QueuedJob,
    Quotas,
    accepts_namespace,
    cluster_queue,
    flavor_labels,
    flavor_tolerations,
    gpu_flavors,
    has_unknown_groups,
    is_configuration_seen,
    kueue_objects,
    local_queues,
    may_borrow_elsewhere,
    pods_at_once,
    quotas,
    reads_other_resources,
    resource_groups,
)
from gpu_preflight.cluster.objects import selection_answers
from gpu_preflight.cluster.software import is_defined
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import Workload
from gpu_preflight.model.taints import Taint, object_taints, untolerated
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, is_expression, is_true, known_text, mapping
from gpu_preflight.rule import Problem, rule

# Source: kubernetes-sigs/kueue v0.19.2 apis/kueue/v1beta2/clusterqueue_types.go
_STOPPED = ("Hold", "HoldAndDrain")
_CONCEPTS = "https://kueue.sigs.k8s.io/docs/concepts"
_PARTS = ("gpu-fraction", "gpu-memory")
# The chart creates two queues.
# Source: kai-scheduler/KAI-Scheduler v0.17.0 deployments/kai-scheduler/values.yaml
_DEFAULT_QUEUE, _DEFAULT_PARENT = "default-queue", "default-parent-queue"
# KubeRay sets the scheduler itself if it is configured for KAI Scheduler.
# Source: ray-project/kuberay ray-operator/controllers/ray/batchscheduler/kai-scheduler/kai_scheduler.go (2026-08)
_NAMED_LATER = ("RayCluster", "RayJob", "RayService")
_DOCUMENTED = "https://github.com/kai-scheduler/KAI-Scheduler/tree/v0.17.0/docs"
# Source: https://kueue.sigs.k8s.io/docs/tasks/manage/enforce_job_management/setup_default_local_queue/ (2026-11)
_DEFAULT_LOCAL_QUEUE = "default"
_PRIORITY = f"{KUEUE_DOMAIN}/priority-class"


@rule("GPU201", "error", source=f"{_CONCEPTS}/local_queue/")
def job_in_a_queue_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """Job's LocalQueue doesn't exist.

    Kueue suspends the job and never admits it.

    Fix: Create the LocalQueue in the namespace of the job, or use an existing one.
    """
    cluster = case.cluster
    if cluster.shows_software and not is_defined(KUEUE_DOMAIN, cluster):
        return
    found = list(local_queues(cluster).values())
    for job in case.queued_jobs:
        elsewhere = [each.namespace for each in found if each.name == job.queue]
        if job.local is not None or not (found or cluster.shows_software):
            continue
        hint = f"; namespace {elsewhere[0]} has one" if elsewhere else ""
        message = f"LocalQueue {job.namespace}/{job.queue} doesn't exist{hint}"
        unknown = not cluster.has_every_object("LocalQueue") or _has_open_name(found)
        yield Problem.from_subject(job, message, unknown=unknown)


@rule("GPU202", "error", source=f"{_CONCEPTS}/cluster_queue/")
def queue_that_refers_to_something_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """Queue or flavor refers to an object that doesn't exist.

    The queue stays inactive, and its jobs wait without pods.

    Fix: Create the object, or correct the name.
    """
    cluster = case.cluster
    for each in kueue_objects(cluster, "LocalQueue"):
        yield from _missing(cluster, each, "ClusterQueue", [each.spec.get("clusterQueue")])
    for each in kueue_objects(cluster, "ClusterQueue"):
        flavors = [flavor.name for group in resource_groups(each) for flavor in group.flavors]
        yield from _missing(cluster, each, "ResourceFlavor", flavors)
    for each in kueue_objects(cluster, "ResourceFlavor"):
        yield from _missing(cluster, each, "Topology", [each.spec.get("topologyName")])


def _missing(cluster: Cluster, source: Object, kind: str, names: Iterable[object]) -> Iterator[Problem]:
    there = {each.name for each in kueue_objects(cluster, kind)}
    for name in names:
        if known_text(name) and name not in there and (there or cluster.shows_software):
            message = f"{source.kind} {source.name} refers to {kind} {name}, which doesn't exist"
            open_ = _has_open_name(kueue_objects(cluster, kind))
            yield Problem(source, message, unknown=not cluster.has_every_object(kind) or open_)


def _has_open_name(objects: Iterable[Object]) -> bool:
    """Whether the name or the namespace of an object is known only at deployment."""
    return any(is_expression(f"{each.namespace}/{each.name}") for each in objects)


@rule("GPU203", "error", source=f"{_CONCEPTS}/cluster_queue/")
def job_that_is_more_than_its_queue_ever_has(case: Case) -> Iterator[Problem]:
    """Job needs more than its queue ever has.

    Kueue admits a job if one flavor has quota for all its pods. This job waits permanently, without pods.

    Fix: Raise the quota, or lower the job's requests.
    """
    cluster = case.cluster
    if reads_other_resources(cluster):
        return
    for job in case.queued_jobs:
        for part in job.parts:
            requests = {name: amount for name, amount in part.pod.requests.items() if amount}
            yield from _too_much(cluster, job, requests, pods_at_once(part))


def _too_much(cluster: Cluster, job: QueuedJob, requests: dict[str, int], pods: int) -> Iterator[Problem]:
    queue = job.cluster_queue
    if queue is None:
        return
    groups = quotas(queue, cluster)
    covered = {name for group in groups for name in group.covered}
    # Kueue counts pods only if a quota covers them.
    undeclared = sorted(requests.keys() - covered - {"pods"})
    if undeclared and covered:
        names = ", ".join(undeclared)
        message = f"ClusterQueue {queue.name} has no quota for {names}, which the job requests"
        fix = f"Add {names} to coveredResources of the ClusterQueue, and in the same order to each flavor."
        # Kueue may be configured to exclude resources, or to count others instead.
        yield Problem.from_subject(job, message, fix=fix, unknown=not is_configuration_seen(cluster))
    if has_unknown_groups(queue):
        yield Problem.from_subject(
            job, f"ClusterQueue {queue.name} may lack quota for the job: its resourceGroups aren't known", unknown=True
        )
    for group in groups:
        wanted = {name: requests[name] * pods for name in group.covered if name in requests}
        short = [group.short(flavor, wanted) for flavor in group.flavors]
        if short and all(short):
            name, most = next(each for each in short if each)
            shown = f"its {pods} pods request {show(name, wanted[name])} {name} together"
            message = f"{shown}, but ClusterQueue {queue.name} has at most {show(name, most)} of one flavor"
            fix = f"Raise nominalQuota of {name} in one flavor to {show(name, wanted[name])}, or lower the requests."
            yield Problem.from_subject(job, message, fix=fix, unknown=may_borrow_elsewhere(queue, cluster))
        elif wanted and all(_is_open(group, flavor, wanted) for flavor in group.flavors):
            late = f"its quota of {', '.join(wanted)} is known only at deployment"
            text = f"ClusterQueue {queue.name} may lack quota for the job: {late}"
            yield Problem.from_subject(job, text, unknown=True)


def _is_open(group: Quotas, flavor: str, wanted: Mapping[str, int]) -> bool:
    """Whether a flavor is too small for some pods, or has a quota that is unknown."""
    return bool(group.short(flavor, wanted)) or any((flavor, name) in group.unknown for name in wanted)


@rule("GPU204", "error", source=f"{_CONCEPTS}/resource_flavor/")
def flavor_whose_nodes_no_pool_makes(case: Case) -> Iterator[Problem]:
    """No pool has nodes with the labels of a ResourceFlavor.

    Kueue adds the labels to the pods as node selector, so admitted pods stay Pending.

    Fix: Add the labels to a pool, or use labels that a pool has.
    """
    cluster = case.cluster
    for flavor in gpu_flavors(cluster):
        labels = mapping(flavor.spec.get("nodeLabels"))
        taking = case.match_pool_labels(flavor_labels(flavor))
        if labels and taking and all(answer is Answer.NO for _, answer in taking):
            shown = ", ".join(f"{key}={value}" for key, value in labels.items())
            message = f"ResourceFlavor {flavor.name}: no pool has nodes with {shown}, so admitted pods stay Pending"
            yield Problem(flavor, message, unknown=not cluster.whole, doubt=cluster.doubt)


@rule("GPU205", "error", source=f"{_CONCEPTS}/resource_flavor/")
def flavor_without_toleration_of_its_nodes_taint(case: Case) -> Iterator[Problem]:
    """ResourceFlavor doesn't tolerate the taint of its nodes.

    Kueue admits the job to nodes whose taint its pods don't tolerate, and they stay Pending. Or it never admits the
    job.

    Fix: Add the toleration to the ResourceFlavor.
    """
    cluster = case.cluster
    used = {each.name: each for each in gpu_flavors(cluster)}
    for job in case.queued_jobs:
        groups = quotas(job.cluster_queue) if job.cluster_queue else []
        names = [flavor for group in groups for flavor in group.flavors]
        flavors = [used[name] for name in dict.fromkeys(names) if name in used]
        yield from _never_admitted(job, flavors)
        for flavor in flavors:
            yield from _flavor_taint_problems(case, job, flavor)


def _never_admitted(job: QueuedJob, flavors: list[Object]) -> Iterator[Problem]:
    """Yield a job that tolerates the taints of no flavor: Kueue reads the job's template without added tolerations."""
    for part in job.parts:
        closed = [_closed(part, flavor) for flavor in flavors]
        if closed and all(closed) and part.asks_for_gpu:
            text = f"its pod template doesn't tolerate {closed[0]} of ResourceFlavor {flavors[0].name}"
            fix = f"Add a toleration of {closed[0]} to spec.tolerations of ResourceFlavor {flavors[0].name}."
            yield Problem.from_subject(job, f"{text}, so Kueue never admits it", fix=fix)


def _closed(part: Workload, flavor: Object) -> Taint | None:
    given = (*part.pod.tolerations, *flavor_tolerations(flavor))
    kept = untolerated(given, object_taints(flavor.spec.get("nodeTaints")))
    return next((taint for taint, answer in kept if answer is Answer.NO), None)


def _flavor_taint_problems(case: Case, job: QueuedJob, flavor: Object) -> Iterator[Problem]:
    # Imported here, because few inputs have Kueue's flavors.
    from gpu_preflight.admission.controllers import tolerating

    pools = [pool for pool, answer in case.match_pool_labels(flavor_labels(flavor)) if answer is Answer.YES]
    for part in job.parts:
        if not part.asks_for_gpu:
            continue
        given = (*tolerating(part.pod).tolerations, *flavor_tolerations(flavor))
        kept = [untolerated(given, pool.taints) for pool in pools if pool in case.gpu_pools]
        if kept and all(any(answer is Answer.NO for _, answer in each) for each in kept):
            taint = next(taint for taint, answer in kept[0] if answer is Answer.NO)
            message = (
                f"{part.name}: neither its pods nor ResourceFlavor {flavor.name} tolerate {taint} of the pool, so they "
                "stay Pending"
            )
            yield Problem(flavor, message, f"Add a toleration of {taint} to spec.tolerations of the ResourceFlavor.")


@rule("GPU206", "error", source="kubernetes-sigs/kueue v0.19.2 pkg/webhooks/clusterqueue_webhook.go")
def flavor_with_its_resources_in_another_order(case: Case) -> Iterator[Problem]:
    """Flavor lists its resources in another order than coveredResources.

    Kueue's webhook compares the two lists in order and rejects the ClusterQueue.

    Fix: List the resources of each flavor in the order of coveredResources.
    """
    for each in kueue_objects(case.cluster, "ClusterQueue"):
        for group in resource_groups(each):
            covered = group.covered
            for flavor in group.flavors:
                listed = tuple(resource.name for resource in flavor.resources)
                known = all(isinstance(name, str) for name in (*covered, *listed))
                if covered and listed != covered and known:
                    shown = f"flavor {flavor.name} lists {', '.join(listed) or 'no resource'}"
                    message = (
                        f"ClusterQueue {each.name}: {shown}, but must follow coveredResources {', '.join(covered)}"
                    )
                    yield Problem(each, message)


@rule("GPU207", "error", source=f"{_CONCEPTS}/cluster_queue/#namespace-selector")
def queue_that_takes_no_jobs_of_a_namespace(case: Case) -> Iterator[Problem]:
    """ClusterQueue doesn't accept jobs.

    A ClusterQueue without namespaceSelector, or with a stopPolicy, accepts no jobs. They wait without pods.

    Fix: Set namespaceSelector: {}, or label the namespace to match it.
    """
    cluster = case.cluster
    for each in kueue_objects(cluster, "LocalQueue"):
        queue = cluster_queue(each, cluster)
        if queue is None or accepts_namespace(queue, each.namespace, cluster) is not Answer.NO:
            continue
        if queue.spec.get("namespaceSelector") is None:
            text = f"ClusterQueue {queue.name} has no namespaceSelector, so it accepts no jobs"
            fix = "Set namespaceSelector: {} for every namespace, or a selector that matches this one."
        else:
            labels = _unmet_labels(queue, each.namespace, cluster, Answer.NO)
            text = f"ClusterQueue {queue.name} needs {labels}, which Namespace {each.namespace} doesn't have"
            fix = ""
        yield Problem(each, f"{each.title}: {text}", fix)
    for job in case.queued_jobs:
        queue = job.cluster_queue
        if queue is not None and accepts_namespace(queue, job.namespace, cluster) is Answer.UNKNOWN:
            yield Problem.from_subject(job, _unknown_selection(queue, job.namespace, cluster), unknown=True)
    yield from _stopped(case)


def _unmet_labels(queue: Object, namespace: str, cluster: Cluster, answer: Answer) -> str:
    """Return the namespace labels that a ClusterQueue needs and that a namespace meets with this answer."""
    met = selection_answers(mapping(queue.spec.get("namespaceSelector")), namespace, cluster)
    labels = [str(each) for each, found in met if found is answer]
    return f"namespace label{'s' if len(labels) > 1 else ''} {' and '.join(labels)}"


def _unknown_selection(queue: Object, namespace: str, cluster: Cluster) -> str:
    """Return why it isn't known whether a ClusterQueue accepts a namespace."""
    if not isinstance(queue.spec.get("namespaceSelector"), dict):
        return f"namespaceSelector of ClusterQueue {queue.name} is known only at deployment"
    text = f"ClusterQueue {queue.name} needs {_unmet_labels(queue, namespace, cluster, Answer.UNKNOWN)}"
    if any(each.name == namespace for each in cluster.objects_of_kind("Namespace")):
        return f"{text}, and whether Namespace {namespace} matches is known only at deployment"
    return f"{text}, but the input doesn't contain Namespace {namespace}"


def _stopped(case: Case) -> Iterator[Problem]:
    """Yield each queue that has a stopPolicy while jobs wait in it."""
    ways = (each for job in case.queued_jobs for each in (job.local, job.cluster_queue) if each is not None)
    for each in {id(one): one for one in ways}.values():
        policy = each.spec.get("stopPolicy")
        if policy in _STOPPED:
            text = f"{each.kind} {each.name} admits no job, because its stopPolicy is {policy}"
            yield Problem(each, text, f"Remove stopPolicy from {each.kind} {each.name}.")


def _kai_queue_name(workload: Workload) -> str | None:
    return known_text(workload.owner.labels.get(KAI_QUEUE)) or known_text(workload.labels.get(KAI_QUEUE))


def _queues(cluster: Cluster) -> list[Object]:
    return [each for each in cluster.objects_of_kind("Queue") if each.group == "scheduling.run.ai"]


def _kai_workloads(cluster: Cluster) -> list[tuple[Workload, str]]:
    named = [(each, _kai_queue_name(each)) for each in cluster.workloads if each.pod.scheduler == KAI_SCHEDULER]
    return [(each, queue) for each, queue in named if queue]


def _no_leaf(cluster: Cluster) -> Iterator[Problem]:
    queues = _queues(cluster)
    names = {each.name for each in queues} | {_DEFAULT_QUEUE, _DEFAULT_PARENT}
    parents = {known_text(each.spec.get("parentQueue")) for each in queues} | {_DEFAULT_PARENT}
    for workload, queue in _kai_workloads(cluster):
        if queue in parents:
            text = f"queue {queue} has child queues, so it accepts no pods"
            yield Problem.from_subject(workload, text, fix=f"Set label {KAI_QUEUE} to a queue without child queues.")
        elif queue not in names and (queues or cluster.shows_software):
            message = f"queue {queue} of KAI Scheduler doesn't exist"
            unknown = not (queues or cluster.sees_software)
            yield Problem.from_subject(workload, message, unknown=unknown, doubt=cluster.doubt)


def _orphans(cluster: Cluster) -> Iterator[Problem]:
    queues = _queues(cluster)
    names = {each.name for each in queues} | {_DEFAULT_PARENT}
    for each in queues:
        parent = known_text(each.spec.get("parentQueue"))
        if parent and parent not in names:
            message = f"Queue {each.name}: its parent queue {parent} doesn't exist"
            fix = "Create the parent queue, or set parentQueue to one that exists."
            yield Problem(each, message, fix, unknown=not (queues or cluster.sees_software), doubt=cluster.doubt)


@rule("GPU210", "error", source=f"{_DOCUMENTED}/queues")
def queue_of_kai_scheduler_that_takes_no_pods(case: Case) -> Iterator[Problem]:
    """Queue of KAI Scheduler accepts no pods.

    KAI Scheduler skips jobs whose queue doesn't exist, has no existing parent, or has child queues.

    Fix: Create the queue, or name an existing one without child queues.
    """
    cluster = case.cluster
    yield from _no_leaf(cluster)
    yield from _orphans(cluster)


@rule("GPU211", "warning", source=f"{_DOCUMENTED}/quickstart")
def queue_of_kai_scheduler_on_a_pod_of_another_scheduler(case: Case) -> Iterator[Problem]:
    """Pod in a queue of KAI Scheduler uses another scheduler.

    The other scheduler ignores queues: the pod uses GPUs that KAI Scheduler counts for its queues.

    Fix: Set schedulerName: kai-scheduler in the pod.
    """
    for each in case.cluster.workloads:
        queue, scheduler = _kai_queue_name(each), each.pod.scheduler
        later = each.owner.kind in _NAMED_LATER and scheduler is None
        if queue and scheduler != KAI_SCHEDULER and not later and not isinstance(scheduler, Unknown):
            name = known_text(scheduler) or "the default scheduler"
            yield Problem.from_subject(each, f"is in queue {queue} of KAI Scheduler, but {name} schedules it")


@rule("GPU212", "error", source=f"{_DOCUMENTED}/gpu-sharing")
def part_of_a_gpu_that_kai_scheduler_refuses(case: Case) -> Iterator[Problem]:
    """KAI Scheduler rejects the request for a part of a GPU.

    Its webhook rejects a pod that requests a part of a GPU and whole GPUs, or a part while sharing is off.

    Fix: Remove nvidia.com/gpu from the pod's limits, and set global.gpuSharing: true in the chart.
    """
    cluster = case.cluster
    chart = cluster.chart(KAI_SCHEDULER)
    sharing = dig(chart.values, "global", "gpuSharing") if chart else True
    for each in cluster.workloads:
        part = next((name for name in _PARTS if name in each.annotations), None)
        if part is None or each.pod.scheduler != KAI_SCHEDULER:
            continue
        if each.pod.requests.get(GPU):
            text = f"requests both {part} and whole {GPU}, which KAI Scheduler rejects"
            yield Problem.from_subject(each, text, fix=f"Remove {GPU} from the limits of the pod.")
        elif not is_true(sharing) and not isinstance(sharing, Unknown):
            text = f"requests {part}, but global.gpuSharing of KAI Scheduler's chart is off, so it rejects the pod"
            fix = "Set global.gpuSharing: true in the values of chart kai-scheduler."
            yield Problem.from_subject(each, text, fix=fix)


@rule("GPU393", "error", source=f"{_CONCEPTS}/workload_priority_class/")
def job_of_a_priority_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """WorkloadPriorityClass of a job doesn't exist.

    Kueue creates no workload for the job, which stays suspended.

    Fix: Create the WorkloadPriorityClass, or correct the name.
    """
    cluster = case.cluster
    known = [each.name for each in kueue_objects(cluster, "WorkloadPriorityClass")]
    for job in case.queued_jobs if cluster.whole else ():
        owner = job.parts[0].owner
        name = known_text(owner.labels.get(_PRIORITY))
        if name and not is_expression(name) and name not in known:
            text = f"{job.name}: WorkloadPriorityClass {name} doesn't exist{did_you_mean(name, known)}"
            yield Problem(owner, text, unknown=not cluster.sees_objects, doubt=cluster.doubt)


@rule("GPU394", "error", source=f"{_CONCEPTS}/workload/")
def suspended_job_whose_queue_stands_on_its_pods(case: Case) -> Iterator[Problem]:
    """Suspended job has the queue label only on its pods.

    Kueue reads the label of the job, so it doesn't start this one, and no other component does.

    Fix: Move the label to metadata.labels of the job.
    """
    cluster = case.cluster
    for workload in cluster.workloads:
        owner = workload.owner
        misplaced = KUEUE_QUEUE in workload.labels and KUEUE_QUEUE not in owner.labels
        if owner.kind == "Job" and workload.suspended and misplaced and _has_kueue(workload, cluster):
            text = f"is suspended and never starts: label {KUEUE_QUEUE} is on its pods instead of the job"
            yield Problem.from_subject(workload, text, unknown=cluster.chart(KUEUE) is None)


def _has_kueue(workload: Workload, cluster: Cluster) -> bool:
    """Whether the input has Kueue or its queues, and no default queue, which accepts jobs without a queue."""
    queues = cluster.objects_of_kind("LocalQueue")
    given = any((each.namespace, each.name) == (workload.namespace, _DEFAULT_LOCAL_QUEUE) for each in queues)
    return cluster.chart(KUEUE) is not None or (bool(queues) and not given)
