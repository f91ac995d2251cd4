"""Rules for pods that stay Pending, are rejected or evicted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gpu_facts.labels import KUEUE_DOMAIN, KUEUE_QUEUE
from gpu_facts.light import regex
from gpu_facts.quantities import MIB, quantity
from gpu_preflight.admission.pod_security import below_level
from gpu_preflight.case import Case
from gpu_preflight.cluster.kueue import is_queued
from gpu_preflight.cluster.objects import may_be_excerpt
from gpu_preflight.cluster.software import is_defined
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.pod import Pod, Workload, read_pod_template
from gpu_preflight.model.taints import Taint, stay
from gpu_preflight.reading.unknown import Unknown, dig, is_expression, mapping
from gpu_preflight.rule import Problem, check_each_pod, rule

if TYPE_CHECKING:
    from gpu_preflight.scheduling.verdict import Verdict

_PLUGINS = "https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers"
_SELECTING = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
_ENDING = ("Never", "OnFailure")
_POD_OF_A_JOB = {"Job": "spec.template.spec", "CronJob": "spec.jobTemplate.spec.template.spec"}
# The minimum memory limit of a container. runc rejects a lower one.
# Source: opencontainers/runc v1.3 libcontainer/cgroups (2026-11)
_LEAST_MEMORY = 4 * MIB
# Only the path of an image must be in lower case, not its host, tag or digest.
# Source: distribution/reference v0.6.0 regexp.go
_HOST = regex(r"[^/.:]*[.:][^/]*/|localhost/")
_CAPITAL = regex(r"[A-Z]")
# Placeholders such as IMAGE_PLACEHOLDER. A folder such as ML is a name.
_FILLED_IN = regex(r"[A-Z0-9]+(_[A-Z0-9]+)+|IMAGE|REGISTRY|REPOSITORY|PLACEHOLDER|REPLACEME|ACCOUNT")
_SOURCE = "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions"
_SHOWN = 3


def _refused(case: Case, id: str) -> Iterator[Problem]:
    for workload in case.cluster.workloads:
        for each in case.admitted(workload).refusals:
            if each.rule == id:
                yield Problem.from_subject(workload, each.text, fix=each.fix, unknown=each.answer is Answer.UNKNOWN)


@rule("GPU126", "error", source="https://kubernetes.io/docs/concepts/containers/runtime-class/")
def runtimeclass_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """RuntimeClass doesn't exist or contradicts the pod.

    The API server rejects every pod that names it.

    Fix: Remove runtimeClassName (images with NVIDIA's driver run GPU pods without it), or create the RuntimeClass.
    """
    yield from _refused(case, "GPU126")


@rule("GPU130", "error", source="https://kubernetes.io/docs/concepts/policy/resource-quotas/")
def more_than_the_namespace_allows(case: Case) -> Iterator[Problem]:
    """Pods exceed a quota or limit of the namespace.

    The API server rejects pods beyond a ResourceQuota or outside a LimitRange. Their owner reports FailedCreate, and no
    pod is Pending.

    Fix: Raise the quota or the limit, or change the requests.
    """
    yield from _refused(case, "GPU130")


@rule("GPU370", "error", source=f"{_PLUGINS}/#priority")
def priorityclass_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """PriorityClass doesn't exist.

    The API server rejects every pod that names it.

    Fix: Create the PriorityClass, or remove priorityClassName.
    """
    yield from _refused(case, "GPU370")


@rule("GPU371", "error", source=f"{_PLUGINS}/#serviceaccount", presumed=True)
def serviceaccount_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """ServiceAccount doesn't exist.

    The API server rejects every pod that names it.

    Fix: Create the ServiceAccount in the namespace of the pod, or remove serviceAccountName.
    """
    yield from _refused(case, "GPU371")


@rule("GPU372", "error", source="https://kubernetes.io/docs/concepts/security/pod-security-standards/")
def pod_that_pod_security_refuses(case: Case) -> Iterator[Problem]:
    """Pod Security rejects the pod.

    The level that its namespace enforces forbids a setting of the pod, so no pod is created.

    Fix: Remove the setting from the pod, or label the namespace with a level that allows it.
    """
    yield from _refused(case, "GPU372")
    cluster = case.cluster
    judged = {each.origin for each in cluster.workloads}
    # GPU014 is about device plugins.
    judged |= {each.origin for each in cluster.daemon_sets if each.advertises}
    for daemon in cluster.objects_of_kind("DaemonSet"):
        found = [] if daemon.origin in judged else below_level(read_pod_template(daemon), daemon.namespace, cluster)
        for each in found:
            yield Problem(daemon, f"{daemon.origin.path}: {each.text}", unknown=each.answer is Answer.UNKNOWN)


@rule("GPU405", "error", source="https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/")
def pod_that_is_not_valid(case: Case) -> Iterator[Problem]:
    """Pod isn't valid.

    The API server rejects the pod. If a Deployment or Job creates it, only the controller reports the error:
    FailedCreate, and no pod is Pending.

    Fix: Correct the field that the message names.
    """
    yield from _refused(case, "GPU405")


@rule("GPU406", "error", source="https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/")
def workload_that_is_not_valid(case: Case) -> Iterator[Problem]:
    """Workload isn't valid.

    The API server rejects the Deployment, StatefulSet, DaemonSet, Job or CronJob, or the training operator rejects its
    job, so no pods are created.

    Fix: Correct the field that the message names.
    """
    yield from _refused(case, "GPU406")


@rule("GPU408", "error", source="https://kubernetes.io/docs/concepts/storage/volumes/")
def mount_that_the_api_server_refuses(case: Case) -> Iterator[Problem]:
    """API server rejects a volume mount.

    A container mounts a volume that its pod doesn't have, or two volumes at one path, so no pod is created.

    Fix: Correct the volume or the mount that the message names.
    """
    yield from _refused(case, "GPU408")


@rule("GPU373", "note", source=f"{_PLUGINS}/#extendedresourcetoleration")
def toleration_that_only_some_clusters_add(case: Case) -> Iterator[Problem]:
    """Pod relies on a toleration that only some clusters add.

    EKS adds a toleration for each extended resource to pods that request it. Self-managed clusters don't, so the pod
    stays Pending there.

    Fix: Add the toleration to the pod if it must also run elsewhere.
    """
    for verdict in case.verdicts:
        for text in verdict.rests_on:
            yield Problem.from_subject(verdict.workload, text)


@rule("GPU380", "error", source="https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/")
def selector_that_does_not_match_its_pods(case: Case) -> Iterator[Problem]:
    """Selector doesn't match the labels of its pods.

    The API server rejects the object, because its controller would never find the pods that it creates.

    Fix: Add every label of the selector to the labels of the pod template.
    """
    for each in case.cluster.objects_of_kind(*_SELECTING):
        wanted = mapping(dig(each.spec, "selector", "matchLabels"))
        labels = dig(each.content, "spec", "template", "metadata", "labels")
        differing = [key for key, value in wanted.items() if _differs(labels, key, value)]
        if differing:
            key = differing[0]
            text = f"selects pods with label {key}={wanted[key]}, but its pod template doesn't set this label"
            yield Problem.from_subject(each, text, unknown=may_be_excerpt(each))


def _differs(labels: Any, key: str, value: Any) -> bool:
    if isinstance(labels, Unknown) or isinstance(value, Unknown) or is_expression(str(value)):
        return False
    have = mapping(labels).get(key)
    return not isinstance(have, Unknown) and not is_expression(str(have)) and have != value


@rule("GPU381", "error", source="https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-template")
def job_whose_pods_restart_always(case: Case) -> Iterator[Problem]:
    """Pods of a job always restart.

    The API server rejects the job, because its pods would never end.

    Fix: Set restartPolicy to Never or OnFailure.
    """
    for workload in case.cluster.workloads:
        policy = workload.pod.restart_policy
        known = not isinstance(policy, Unknown) and not is_expression(str(policy))
        ends = workload.owner.kind in ("Job", "CronJob") and workload.owner.group == "batch"
        if ends and known and policy not in _ENDING:
            got = "no value, which means Always" if policy is None else repr(str(policy))
            text = f"{_POD_OF_A_JOB[workload.owner.kind]}.restartPolicy must be Never or OnFailure, got {got}"
            yield Problem.from_subject(workload, text)


@rule("GPU382", "error", source="https://kubernetes.io/docs/concepts/containers/images/#image-names")
def image_that_kubelet_cannot_parse(case: Case) -> Iterator[Problem]:
    """Image name isn't valid.

    The pod stays in InvalidImageName. The path of an image must be in lower case.

    Fix: Write the path in lower case; the tag may have capitals.
    """
    for workload in case.cluster.workloads:
        for container in workload.containers:
            image = container.image
            path = _path(image) if isinstance(image, str) and not is_expression(image) and "$" not in image else ""
            if _CAPITAL.search(path):
                # A part such as REGISTRY_PLACEHOLDER may be replaced before the manifest is applied.
                filled_in = any(_FILLED_IN.fullmatch(each) for each in str(image).split("/"))
                text = f"container {container.name} has image {image}, whose path must be in lower case"
                yield Problem.from_subject(workload, text, unknown=filled_in)


def _path(image: str) -> str:
    name = image.partition("@")[0]
    host = _HOST.match(name)
    rest = name[host.end() :] if host else name
    return rest.rpartition(":")[0] if ":" in rest.rpartition("/")[2] else rest


@rule("GPU383", "error", source="https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/")
def memory_limit_too_low_to_start(case: Case) -> Iterator[Problem]:
    """Memory limit is too low for the container to start.

    The container runtime rejects the limit. The suffix m means thousandths of a byte.

    Fix: Use the suffix Mi or Gi.
    """
    yield from check_each_pod(case.cluster.workloads, _low_limits)


def _low_limits(workload: Workload) -> Iterator[Problem]:
    for container in workload.containers:
        limits: Mapping[str, Any] = mapping(container.limits)
        amount = quantity("memory", limits.get("memory"))
        if amount is not None and 0 < amount < _LEAST_MEMORY:
            unit = "byte" if amount == 1 else "bytes"
            text = f"container {container.name} has memory limit {limits['memory']}, which is only {amount} {unit}"
            yield Problem.from_subject(workload, text)


@rule("GPU384", "error", source="https://kubernetes.io/docs/concepts/policy/resource-quotas/")
def quota_of_limits_of_an_extended_resource(case: Case) -> Iterator[Problem]:
    """ResourceQuota limits an extended resource by limits instead of requests.

    The API server rejects the ResourceQuota, so it has no effect. For extended resources, a quota counts only requests.

    Fix: Write requests.nvidia.com/gpu.
    """
    for each in case.cluster.objects_of_kind("ResourceQuota"):
        for name in mapping(each.spec.get("hard")):
            resource = name.removeprefix("limits.")
            if resource != name and "/" in resource:
                text = f"ResourceQuota {each.namespace}/{each.name}: key {name} isn't valid; write requests.{resource}"
                yield Problem(each, text)


@rule("GPU458", "warning", source=_SOURCE)
def pod_that_its_node_evicts_after_a_while(case: Case) -> Iterator[Problem]:
    """Pod is evicted after a while.

    A toleration with tolerationSeconds allows a pod to stay that long on nodes with a NoExecute taint. The taint of a
    pool is permanent, so every pod is evicted, and the next one too.

    Fix: Remove tolerationSeconds from the toleration.
    """
    if not any(_lasting(each) for each in case.cluster.pools):
        return
    for verdict in case.verdicts:
        pod = verdict.workload.pod
        if all(each.seconds is None for each in pod.tolerations):
            continue
        pools = [each.pool for each in verdict.pools if each.answer is not Answer.NO]
        for_a_while = [(pool, *found) for pool in pools if (found := _shortest_stay(pod, pool)) is not None]
        if for_a_while:
            pool, taint, seconds = for_a_while[0]
            text = f"its pods are evicted from pool {pool.name} after {seconds} s: they tolerate {taint} only that long"
            yield Problem.from_subject(verdict.workload, text, unknown=len(for_a_while) < len(pools))


def _shortest_stay(pod: Pod, pool: Pool) -> tuple[Taint, int] | None:
    """Return the taint of a pool that evicts a pod first, and after how many seconds."""
    found = [(taint, stay(pod.tolerations, taint)) for taint in _lasting(pool)]
    timed = [(taint, seconds) for taint, seconds in found if isinstance(seconds, int) and seconds > 0]
    return min(timed, key=lambda each: each[1], default=None)


def _lasting(pool: Pool) -> list[Taint]:
    return [each for each in pool.taints if each.effect == "NoExecute"]


@rule("GPU127", "warning", source="https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/")
def gpu_pod_that_waits_until_somebody_releases_it(case: Case) -> Iterator[Problem]:
    """GPU pod has a scheduling gate, or its job is suspended, and nothing releases it.

    For a pod with scheduling gates or of a suspended job, no autoscaler creates a node.

    Fix: Remove the gate, or install the controller that removes it. For a suspended job, set spec.suspend: false.
    """
    queued = is_defined(KUEUE_DOMAIN, case.cluster)
    or_queue = f", or set label {KUEUE_QUEUE} to the name of a LocalQueue" if queued else ""
    for workload in case.gpu_workloads:
        gates = [each.text for each in case.verdict(workload).reasons if each.kind == "gate"]
        for text in gates:
            fix = "Remove the gate from schedulingGates, or install the controller that removes it."
            yield Problem.from_subject(workload, text, fix=fix)
        if workload.suspended and not is_queued(workload):
            text = "is suspended, but names no queue that would start it"
            yield Problem.from_subject(workload, text, fix=f"Set spec.suspend: false in the job{or_queue}.")


@rule("GPU128", "error", source="https://kubernetes.io/docs/tasks/extend-kubernetes/configure-multiple-schedulers/")
def scheduler_that_nothing_installs(case: Case) -> Iterator[Problem]:
    """Scheduler of the pod isn't installed.

    The pod waits for a scheduler that never schedules it.

    Fix: Install this scheduler, or remove schedulerName.
    """
    for workload in case.gpu_workloads if case.cluster.whole else ():
        for each in case.verdict(workload).reasons:
            if each.kind == "scheduler":
                yield Problem.from_subject(workload, each.text, unknown=each.answer is not Answer.NO)


@rule("GPU129", "warning", source="kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/FAQ.md")
def priority_too_low_for_a_new_node(case: Case) -> Iterator[Problem]:
    """Priority is too low for a new node.

    Cluster autoscaler ignores the pod, so it runs only if a node happens to be free.

    Fix: Name a PriorityClass with value -10 or more. The value of an existing one can't be changed.
    """
    cluster = case.cluster
    if cluster.autoscaler("karpenter") or cluster.auto_mode:
        return
    if not case.gpu_workloads:
        return
    from gpu_preflight.scheduling.scheduler import priority_cutoff

    cutoff = priority_cutoff(cluster)
    for workload in case.gpu_workloads:
        if cutoff is not None and workload.priority is not None and workload.priority < cutoff:
            text = f"its priority {workload.priority} is below {cutoff}, so cluster autoscaler creates no node for it"
            fix = f"Set priorityClassName to a PriorityClass with value {cutoff} or more."
            yield Problem.from_subject(workload, text, fix=fix)


@rule("GPU120", "error", source="https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/", stops=False)
def gpu_pod_that_no_pool_gives_a_node(case: Case) -> Iterator[Problem]:
    """GPU pod stays Pending, because no pool has or creates a node for it.

    Either no node fits the pod, or no autoscaler expects that a new node would.

    Fix: Change the pod or the nearest pool as the message states.
    """
    cluster = case.cluster
    for verdict in case.verdicts:
        refused = [each for each in verdict.reasons if each.kind == "refused" and each.answer is Answer.NO]
        if refused:
            yield from (Problem.from_subject(verdict.workload, each.text) for each in refused[:1] if not each.rule)
            continue
        if not _none_takes(verdict):
            continue
        yield pending_problem(verdict, unknown=not cluster.whole or bool(cluster.hidden), doubt=cluster.doubt)


def pending_problem(verdict: Verdict, *, unknown: bool, doubt: str) -> Problem:
    """Return the problem of a workload that would stay Pending."""
    return Problem.from_subject(verdict.workload, _why(verdict), unknown=unknown, doubt=doubt)


def _none_takes(verdict: Verdict) -> bool:
    if not verdict.pools:
        return any(each.kind == "pool" and each.answer is Answer.NO for each in verdict.reasons)
    return all(each.answer is Answer.NO for each in verdict.pools)


def _why(verdict: Verdict) -> str:
    general = [each.text for each in verdict.reasons if each.answer is Answer.NO]
    if general and not _none_takes(verdict):
        return f"stays Pending: {general[0]}"
    if not verdict.pools:
        texts = [each.text for each in verdict.reasons if each.kind == "pool"]
        return f"stays Pending: {(texts or ['the cluster has no own pool'])[0]}"
    nearest = verdict.pools[0]
    reasons = "; ".join(nearest.refusing[:_SHOWN])
    return f"stays Pending, because no pool accepts it. Closest is pool {nearest.pool.name}: {reasons}"


@rule("GPU121", "error", source="https://karpenter.sh/docs/concepts/nodepools/#speclimits", stops=False)
def more_replicas_than_the_limits_of_the_pools_allow(case: Case) -> Iterator[Problem]:
    """Pools can't run all replicas.

    The pools stop at their maximum, and the replicas beyond it stay Pending.

    Fix: Change the pool or the claim as the message states, or lower the replicas.
    """
    for verdict in case.verdicts:
        workload = verdict.workload
        for each in verdict.reasons:
            if each.rule == "GPU121":
                maybe = each.answer is not Answer.NO or not case.cluster.whole
                doubt = _doubt_of_room(each, case)
                yield Problem.from_subject(workload, each.text, unknown=maybe, doubt=doubt)


def _doubt_of_room(reason: Reason, case: Case) -> str:
    """Return why pods may find room all the same. The text of an unknown reason names what isn't known."""
    return case.cluster.doubt if reason.answer is Answer.NO else "the message names what isn't known"


@rule("GPU374", "error", source="https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/", stops=False)
def workloads_that_do_not_fit_beside_each_other(case: Case) -> Iterator[Problem]:
    """Workloads don't fit into the pools together.

    Each workload would run alone. All of them together request more than the pools can ever have, or must be on
    separate nodes or zones that don't exist. All pods that share a claim need one node. Services without GPUs use
    capacity too, unless a taint excludes them.

    Fix: Change the pools or the workloads as the message states, or use a queue that starts one workload after another.
    """
    for verdict in case.verdicts:
        for each in verdict.reasons:
            if each.rule == "GPU374":
                maybe = each.answer is not Answer.NO or not case.cluster.whole
                doubt = _doubt_of_room(each, case)
                yield Problem.from_subject(verdict.workload, each.text, unknown=maybe, doubt=doubt)
