"""Pods that the API server does not let in: their owner reports FailedCreate, and no pod is Pending."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preflight.admission.pod_security import below_level
from gpu_preflight.case import Case
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.pod import pod_of
from gpu_preflight.rules.rule import Problem, rule

_PLUGINS = "https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers"


def _refused(case: Case, id: str) -> Iterator[Problem]:
    for workload in case.cluster.workloads:
        for each in case.admitted(workload).refusals:
            if each.rule == id:
                yield Problem.of(workload, each.text, unknown=each.answer is Answer.UNKNOWN)


@rule("GPU126", "error", source="https://kubernetes.io/docs/concepts/containers/runtime-class/")
def runtimeclass_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """RuntimeClass that does not exist, or that goes against the pod.

    The API server refuses every pod that names it.

    Fix: Leave out runtimeClassName: images with NVIDIA's driver run GPU pods without; or create the RuntimeClass.
    """
    yield from _refused(case, "GPU126")


@rule("GPU130", "error", source="https://kubernetes.io/docs/concepts/policy/resource-quotas/")
def more_than_the_namespace_allows(case: Case) -> Iterator[Problem]:
    """More than the namespace allows.

    The API server refuses the pods beyond a ResourceQuota or outside a LimitRange: their owner reports FailedCreate, no
    pod is Pending.

    Fix: Raise the quota or the limit, or ask for less.
    """
    yield from _refused(case, "GPU130")


@rule("GPU370", "error", source=f"{_PLUGINS}/#priority")
def priorityclass_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """PriorityClass that does not exist.

    The API server refuses every pod that names it.

    Fix: Create the PriorityClass, or leave out priorityClassName.
    """
    yield from _refused(case, "GPU370")


@rule("GPU371", "error", source=f"{_PLUGINS}/#serviceaccount", presumed=True)
def serviceaccount_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """ServiceAccount that does not exist.

    The API server refuses every pod that names it.

    Fix: Create the ServiceAccount in the namespace of the pod, or leave out serviceAccountName.
    """
    yield from _refused(case, "GPU371")


@rule("GPU372", "error", source="https://kubernetes.io/docs/concepts/security/pod-security-standards/")
def pod_that_pod_security_refuses(case: Case) -> Iterator[Problem]:
    """Pod that Pod Security refuses.

    The level that its namespace enforces forbids what the pod asks for, so no pod is created.

    Fix: Take it out of the pod, or label the namespace with a level that allows it.
    """
    yield from _refused(case, "GPU372")
    cluster = case.cluster
    judged = {each.origin for each in cluster.workloads}
    # GPU014 is about device plugins.
    judged |= {each.origin for each in cluster.daemon_sets if each.advertises}
    for daemon in cluster.of_kind("DaemonSet"):
        found = [] if daemon.origin in judged else below_level(pod_of(daemon), daemon.namespace, cluster)
        for each in found:
            yield Problem(daemon, f"{daemon.origin.path}: {each.text}", unknown=each.answer is Answer.UNKNOWN)


@rule("GPU405", "error", source="https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/")
def pod_that_is_not_valid(case: Case) -> Iterator[Problem]:
    """Pod that is not valid.

    The API server refuses it for what is written in it. Of what a Deployment or Job makes it says so only once the
    controller makes a pod: FailedCreate, and no pod is Pending.

    Fix: Write what the message asks for.
    """
    yield from _refused(case, "GPU405")


@rule("GPU406", "error", source="https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/")
def workload_that_is_not_valid(case: Case) -> Iterator[Problem]:
    """Workload that is not valid.

    The API server refuses the Deployment, the StatefulSet, the DaemonSet, the Job or the CronJob for what is written in
    it, or the training operator its job, so nothing makes pods.

    Fix: Write what the message asks for.
    """
    yield from _refused(case, "GPU406")


@rule("GPU408", "error", source="https://kubernetes.io/docs/concepts/storage/volumes/")
def mount_that_the_api_server_refuses(case: Case) -> Iterator[Problem]:
    """Mount that the API server refuses.

    A container mounts a volume that its pod does not have, or two at one path: no pod is made.

    Fix: Add the volume to the pod, correct its name, or mount one of the two elsewhere.
    """
    yield from _refused(case, "GPU408")


@rule("GPU373", "note", source=f"{_PLUGINS}/#extendedresourcetoleration")
def toleration_that_only_some_clusters_add(case: Case) -> Iterator[Problem]:
    """Toleration that only some clusters add.

    EKS adds a toleration of each extended resource to pods that ask for it; clusters that people set up themselves do
    not, and the pod stays Pending there.

    Fix: Write the toleration into the pod if it is to run elsewhere too.
    """
    for verdict in case.verdicts:
        for text in verdict.rests_on:
            yield Problem.of(verdict.workload, text)
