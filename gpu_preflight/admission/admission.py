"""The pod that is scheduled, made of the pod that is written.

EKS runs these plugins on every pod, and nobody can change the list. DaemonSets and Kueue are apart: the controller of
the one and the flavors of the other look at the template as it is written.
Source: https://docs.aws.amazon.com/eks/latest/userguide/platform-versions.html (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpu_facts.labels import OS
from gpu_facts.light_dataclasses import dataclass
from gpu_preflight.admission.limit_ranges import out_of_range, with_defaults
from gpu_preflight.admission.mounting.volume_mounts import not_mounted
from gpu_preflight.admission.owners import not_valid_owner
from gpu_preflight.admission.pod_security import below_level
from gpu_preflight.admission.priority import without_priority_class
from gpu_preflight.admission.quota_objects import beyond_objects
from gpu_preflight.admission.quota_scopes import class_of_the_rest
from gpu_preflight.admission.quotas import NamespaceQuotas, Shortage, quotas_of
from gpu_preflight.admission.runtime_classes import with_runtime_class, without_runtime_class
from gpu_preflight.admission.service_accounts import accounts_of, without_service_account
from gpu_preflight.admission.tolerations import flavored, tolerating
from gpu_preflight.admission.validation import not_valid
from gpu_preflight.cluster.kueue import queue_of
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.label_values import equal
from gpu_preflight.model.pod import Pod
from gpu_preflight.model.reason import Reason
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.unknown import dig


@dataclass(frozen=True, slots=True)
class Admitted:
    """What becomes of a workload's pods when they are created.

    Attributes:
        workload: The workload with its pod as it is let in.
        refusals: Why they are not let in, each with the rule that says so.
    """

    workload: Workload
    refusals: tuple[Reason, ...] = ()


class Admission:
    """Lets the pods of one cluster in; pods that are written alike in one namespace are read once."""

    def __init__(self, cluster: Cluster) -> None:
        """Take the cluster."""
        self._cluster, self._accounts = cluster, accounts_of(cluster)
        # With each pod, so that no other is given the same id.
        self._seen: dict[tuple[object, ...], tuple[Pod, Admitted]] = {}
        self._quotas: dict[str, NamespaceQuotas] = {}
        self._known: dict[int, tuple[Workload, Admitted]] = {}
        self._mounts: dict[int, tuple[Pod, tuple[Reason, ...]]] = {}

    def of(self, workload: Workload) -> Admitted:
        """Return a workload as the API server lets its pods in."""
        if id(workload) not in self._known:
            # With the workload, so that no other is given the same id.
            self._known[id(workload)] = workload, self._of(workload)
        return self._known[id(workload)][1]

    def _of(self, workload: Workload) -> Admitted:
        like = self._alike(workload)
        admitted = _with_pod(workload, like.workload.pod)
        if workload.owner.kind == "Pod" and not self.has_quotas(workload.namespace):
            return Admitted(admitted, (*self._not_mounted(workload), *like.refusals))
        over = (*self._over_quota(admitted), *beyond_objects(workload, self._cluster))
        refusals = (*not_valid_owner(workload.owner), *self._not_mounted(workload), *like.refusals, *over)
        return Admitted(admitted, refusals)

    def _not_mounted(self, workload: Workload) -> tuple[Reason, ...]:
        """Return why pods are refused for what they mount; of lone pods that are written alike it is found once."""
        if workload.owner.kind != "Pod":
            return tuple(not_mounted(workload))
        key = id(workload.pod)
        if key not in self._mounts:
            self._mounts[key] = workload.pod, tuple(not_mounted(workload))
        return self._mounts[key][1]

    def has_quotas(self, namespace: str) -> bool:
        """Whether a ResourceQuota limits the pods of a namespace."""
        return bool(self._quotas_of(namespace))

    def _alike(self, workload: Workload) -> Admitted:
        key = id(workload.pod), workload.namespace, repr(queue_of(workload))
        if key not in self._seen:
            self._seen[key] = workload.pod, self._admitted(workload)
        return self._seen[key][1]

    def shortages(self, workload: Workload) -> tuple[Shortage, ...]:
        """Return what the quotas of its namespace have too little of for a workload."""
        admitted = _with_pod(workload, self._alike(workload).workload.pod)
        return tuple(self._quotas_of(workload.namespace).shortages(admitted))

    def _over_quota(self, workload: Workload) -> Iterator[Reason]:
        return self._quotas_of(workload.namespace).refusals(workload)

    def _quotas_of(self, namespace: str) -> NamespaceQuotas:
        if namespace not in self._quotas:
            quotas = quotas_of(namespace, self._cluster)
            self._quotas[namespace] = NamespaceQuotas(
                quotas, self._let_in(namespace) if quotas else (), class_of_the_rest(self._cluster)
            )
        return self._quotas[namespace]

    def _let_in(self, namespace: str) -> Iterator[Workload]:
        """Yield the workloads of a namespace that nothing but a quota may refuse."""
        for each in self._cluster.workloads:
            if each.namespace == namespace and not (like := self._alike(each)).refusals:
                yield _with_pod(each, like.workload.pod)

    def _admitted(self, workload: Workload) -> Admitted:
        cluster, namespace = self._cluster, workload.namespace
        pod = tolerating(with_defaults(workload.pod, namespace, cluster))
        pod = _with_operating_system(with_runtime_class(pod, cluster))
        refusals = (
            *without_priority_class(pod, cluster),
            *without_service_account(pod, namespace, cluster, self._accounts),
            *without_runtime_class(pod, cluster),
            *out_of_range(pod, namespace, cluster),
            *below_level(pod, namespace, cluster),
            *not_valid(pod, workload.priority, cluster, preempts=workload.preempts),
        )
        pod = flavored(pod, workload, cluster) if queue_of(workload) is not None else pod
        return Admitted(replace(workload, pod=pod), refusals)


def _with_operating_system(pod: Pod) -> Pod:
    """Return a pod of Windows with the label of the nodes on which kubelet accepts it.

    Source: kubernetes/kubernetes v1.36 pkg/kubelet/lifecycle/predicate.go ``rejectPodAdmissionBasedOnOSField``
    """
    if dig(pod.written, "os", "name") != "windows":
        return pod
    selection = replace(pod.selection, selector=(*pod.selection.selector, *equal({OS: "windows"})))
    return replace(pod, selection=selection, likeness=f"{pod.likeness} windows")


def _with_pod(workload: Workload, pod: Pod) -> Workload:
    return workload if pod is workload.pod else replace(workload, pod=pod)
