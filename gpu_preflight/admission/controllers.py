"""Changes that the API server's admission plugins make to a pod before it is scheduled, and why it rejects a pod.

EKS runs these plugins on every pod, and users can't change the list. DaemonSets and Kueue are exceptions: they read the
pod template as written.

Sources: https://docs.aws.amazon.com/eks/latest/userguide/platform-versions.html (2026-11); kubernetes v1.36.2
plugin/pkg/admission/{priority,runtimeclass,serviceaccount,extendedresourcetoleration,defaulttolerationseconds}/,
plugin/pkg/admission/limitranger/admission.go and pkg/apis/core/v1/defaults.go; volumes and mounts: v1.36.3
pkg/apis/core/validation/validation.go ``ValidateVolumes``, ``ValidateVolumeMounts``
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from gpu_facts.charts import GPU_OPERATOR
from gpu_facts.kubernetes import CLUSTER_CRITICAL, NODE_CRITICAL
from gpu_facts.labels import OS
from gpu_facts.light import dataclass
from gpu_facts.quantities import Resources, quantity, resources, show
from gpu_facts.refusals import did_you_mean, near
from gpu_preflight.admission.owners import not_valid_owner
from gpu_preflight.admission.pod_security import below_level
from gpu_preflight.admission.quotas import (
    NamespaceQuotas,
    Shortage,
    class_of_the_rest,
    object_quota_violations,
    resource_quotas,
)
from gpu_preflight.admission.validation import not_valid
from gpu_preflight.cluster.kueue import candidate_flavors, flavor_tolerations, workload_queue
from gpu_preflight.cluster.objects import may_be_excerpt
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.container import Container, aggregate_container_amounts, has_unknown, is_extended
from gpu_preflight.model.label_values import equal
from gpu_preflight.model.pod import Pod, Workload
from gpu_preflight.model.taints import Taint, Toleration, merged, tolerations
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, all_known, dig, is_expression, items, known_text, mapping, mappings
from gpu_preflight.schema.validation import is_typo

_BUILT_IN_PRIORITY_CLASSES = (CLUSTER_CRITICAL, NODE_CRITICAL)
# Charts that install a RuntimeClass.
_BRINGS_RUNTIME_CLASSES = (GPU_OPERATOR,)
# A controller creates it in every namespace.
_DEFAULT_SERVICE_ACCOUNT = "default"
# A pod without a toleration for these taints stays five minutes on a lost node.
_LOST_NODE_TAINTS = tuple(Taint(f"node.kubernetes.io/{name}", "", "NoExecute") for name in ("not-ready", "unreachable"))
_LOST_NODE_SECONDS = 300
# Other kinds may add volumes to their pods.
_KINDS_WITHOUT_ADDED_VOLUMES = ("CronJob", "DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "StatefulSet")
# Volumes that a controller adds to its pods, by the kind of their owner.
# Source: kubeflow/mpi-operator v0.8.0 pkg/controller/mpi_job_controller.go; the last is of its v1
_ADDED_VOLUMES = {"MPIJob": ("ssh-auth", "mpi-job-config", "mpi-job-kubectl")}
_TEMPLATES = (("volumeClaimTemplates",), ("leaderWorkerTemplate", "volumeClaimTemplates"))


@dataclass(frozen=True, slots=True)
class _Range:
    """One entry of a LimitRange: ``Container`` or ``Pod``, and its amounts as they are written."""

    owner: str
    type: str
    least: Mapping[str, Any]
    most: Mapping[str, Any]
    limits: Mapping[str, Any]
    asked: Mapping[str, Any]
    ratios: Mapping[str, Any]

    def __str__(self) -> str:
        return f"LimitRange {self.owner} (type {self.type})"


def _ranges(namespace: str, cluster: Cluster, type: str) -> Iterator[_Range]:
    for each in cluster.objects_of_kind("LimitRange"):
        for entry in mappings(each.spec.get("limits")) if each.namespace == namespace else ():
            if entry.get("type") == type:
                yield _range(each.name, type, entry)


def _range(owner: str, type: str, entry: Mapping[str, Any]) -> _Range:
    least, most = mapping(entry.get("min")), mapping(entry.get("max"))
    limits = {**most, **mapping(entry.get("default"))}
    asked = {**least, **limits, **mapping(entry.get("defaultRequest"))}
    return _Range(owner, type, least, most, limits, asked, mapping(entry.get("maxLimitRequestRatio")))


def with_defaults(pod: Pod, namespace: str, cluster: Cluster) -> Pod:
    """Return a pod with the defaults of a LimitRange for containers without amounts."""
    for each in _ranges(namespace, cluster, "Container"):
        if each.limits or each.asked:
            pod = replace(
                pod,
                containers=tuple(_filled(one, each) for one in pod.containers) if pod.containers else pod.containers,
                init_containers=tuple(_filled(one, each) for one in pod.init_containers),
                likeness=f"{pod.likeness} {each.limits} {each.asked}",
            )
    return pod


def _filled(container: Container, given: _Range) -> Container:
    if isinstance(container.limits, Unknown) or isinstance(container.asked, Unknown):
        return container
    # If no request is written, the limit is the request. The API server sets this before the plugin runs.
    asked = {**given.asked, **container.limits, **container.asked}
    return replace(container, limits={**given.limits, **container.limits}, asked=asked)


def out_of_range(pod: Pod, namespace: str, cluster: Cluster) -> Iterator[Reason]:
    """Yield why a pod is rejected that requests less or more than a LimitRange allows."""
    for allowed in _ranges(namespace, cluster, "Container"):
        for each in pod.every_container:
            if not each.is_open:
                yield from _refusals(f"container {each.name}", allowed, each.requests, resources(each.limits))
    for allowed in _ranges(namespace, cluster, "Pod"):
        if not pod.is_open:
            yield from _refusals("the pod", allowed, _pod_requests(pod), _pod_limits(pod))


def _pod_requests(pod: Pod) -> Resources:
    """Return the requests of a pod, without the overhead of its RuntimeClass."""
    return {**pod.container_requests, **pod.whole_requests}


def _pod_limits(pod: Pod) -> Resources:
    """Return the limits of a pod: the sum of its containers' limits."""
    limits = aggregate_container_amounts(pod.containers or (), pod.init_containers, lambda each: resources(each.limits))
    return {**limits, **resources(pod.limits)}


def _refusals(who: str, allowed: _Range, asked: Resources, limits: Resources) -> Iterator[Reason]:
    for name, most in resources(allowed.most).items():
        wanted = max(asked.get(name, 0), limits.get(name, 0))
        if wanted > most:
            text = f"{who} requests {show(name, wanted)} {name}, but {allowed} allows {show(name, most)}"
            yield _refusal(
                text, f"Lower the request and the limit to {show(name, most)}, or raise max in the LimitRange."
            )
        elif name not in limits:
            fix = f"Set {name} in resources.limits of {who}."
            yield _refusal(f"{who} has no limit of {name}, and {allowed} requires one", fix)
    for name, least in resources(allowed.least).items():
        wanted = min(asked.get(name, 0), limits.get(name, least))
        if wanted < least:
            text = f"{who} requests {show(name, wanted)} {name}, but {allowed} requires at least {show(name, least)}"
            yield _refusal(text, f"Raise the request to {show(name, least)}, or lower min in the LimitRange.")
        elif name not in asked:
            fix = f"Set {name} in resources.requests of {who}."
            yield _refusal(f"{who} has no request of {name}, and {allowed} requires one", fix)
    for name, ratio in allowed.ratios.items():
        # A plain number in thousandths, for any resource: 1500m means 1.5.
        thousandths = quantity("cpu", ratio)
        if thousandths is not None and not 0 < limits.get(name, 0) * 1000 <= thousandths * asked.get(name, 0):
            text = f"{who} must have a limit of {name} that is at most {ratio} times its request ({allowed})"
            yield _refusal(text, f"Set a limit of {name} that is at most {ratio} times the request of {who}.")


def _refusal(text: str, fix: str) -> Reason:
    return Reason(Answer.NO, "refused", text, rule="GPU130", fix=fix)


def missing(
    text: str, name: str, known: Collection[str], cluster: Cluster, rule: str, answer: Answer = Answer.NO
) -> Iterator[Reason]:
    """Yield why a pod is rejected if it names a missing object and the input has other objects of this kind.

    Args:
        text: The missing object, as a sentence.
        name: Its name.
        known: Names of existing objects.
        cluster: The cluster.
        rule: The rule that finds it.
        answer: The result for the pod, if the name isn't a typo for an existing one.
    """
    if name not in known and cluster.sees_objects:
        nearest = _nearest(name, frozenset(known))
        hint = f"; did you mean {nearest!r}?" if nearest is not None else ""
        # A similar name may be another object: trainer-b next to trainer-a.
        slip = nearest is not None and is_typo(name, nearest)
        yield Reason(Answer.NO if slip else answer, "refused", f"{text}{hint}", rule=rule)


@lru_cache(maxsize=1024)
def _nearest(name: str, there: frozenset[str]) -> str | None:
    """Return the existing name that is nearest to a name. It is cached, because many pods may have the same name."""
    return near(name, sorted(there))


def without_priority_class(pod: Pod, cluster: Cluster) -> Iterator[Reason]:
    """Yield why a pod is rejected if its class doesn't exist."""
    name = known_text(pod.priority_class)
    if name and name not in _BUILT_IN_PRIORITY_CLASSES:
        known = [each.name for each in cluster.objects_of_kind("PriorityClass")]
        yield from missing(
            f"priorityClassName {name} isn't a PriorityClass of the cluster", name, known, cluster, "GPU370"
        )


def without_runtime_class(pod: Pod, cluster: Cluster) -> Iterator[Reason]:
    """Yield why a pod is rejected if its class doesn't exist, or contradicts it."""
    name, found = pod.runtime_class, _runtime_class(pod, cluster)
    if name and found is None and not any(cluster.chart(each) for each in _BRINGS_RUNTIME_CLASSES):
        known = [each.name for each in cluster.objects_of_kind("RuntimeClass")]
        yield from missing(
            f"runtimeClassName {name} isn't a RuntimeClass of the cluster", name, known, cluster, "GPU126"
        )
    for each in _contradicted(pod, found) if found else ():
        fix = "Remove the label from nodeSelector of the pod."
        yield Reason(Answer.NO, "refused", each, rule="GPU126", fix=fix)
    if (found or not name) and not has_unknown(pod.overhead) and resources(pod.overhead) != _overhead(found):
        text = (
            f"its overhead isn't the overhead of {f'RuntimeClass {name}' if name else 'a RuntimeClass, which it lacks'}"
        )
        yield Reason(Answer.NO, "refused", text, rule="GPU126", fix="Remove overhead from the pod.")


def with_runtime_class(pod: Pod, cluster: Cluster) -> Pod:
    """Return a pod with the node selector, the tolerations and the overhead of its class."""
    found = _runtime_class(pod, cluster)
    if found is None:
        return pod
    chosen, given = _selector(found), tolerations(dig(found.content, "scheduling", "tolerations"))
    overhead = mapping(dig(found.content, "overhead", "podFixed"))
    selection = replace(pod.selection, selector=(*pod.selection.selector, *equal(chosen)))
    return replace(
        pod,
        selection=selection,
        tolerations=merged(pod.tolerations, given),
        overhead=pod.overhead or overhead,
        likeness=f"{pod.likeness} {chosen} {given} {overhead}",
    )


def _runtime_class(pod: Pod, cluster: Cluster) -> Object | None:
    if not pod.runtime_class:
        return None
    return next((each for each in cluster.objects_of_kind("RuntimeClass") if each.name == pod.runtime_class), None)


def _overhead(found: Object | None) -> dict[str, int]:
    return resources(dig(found.content, "overhead", "podFixed")) if found else {}


def _selector(found: Object) -> dict[str, object]:
    return mapping(dig(found.content, "scheduling", "nodeSelector"))


def _contradicted(pod: Pod, found: Object) -> Iterator[str]:
    """Yield labels for which the pod requires another value than its class."""
    wanted = {each.key: each for each in equal(_selector(found))}
    for each in pod.selection.selector:
        other = wanted.get(each.key)
        if other is not None and None not in (each.values, other.values) and each.values != other.values:
            yield f"its node selector {each} contradicts {other} of RuntimeClass {found.name}"


def service_accounts_by_namespace(cluster: Cluster) -> dict[str, set[str]]:
    """Return the names of the service accounts of a cluster, by namespace."""
    found: dict[str, set[str]] = {}
    for each in cluster.objects_of_kind("ServiceAccount"):
        found.setdefault(each.namespace, set()).add(each.name)
    return found


def without_service_account(
    pod: Pod, namespace: str, cluster: Cluster, accounts: Mapping[str, Collection[str]]
) -> Iterator[Reason]:
    """Yield why a pod is rejected if nothing creates its account. Charts and eksctl create accounts too."""
    name = known_text(pod.service_account) or _DEFAULT_SERVICE_ACCOUNT
    charts = any(each.namespace == namespace for each in cluster.charts)
    if name != _DEFAULT_SERVICE_ACCOUNT and not charts:
        text = f"serviceAccountName {name} isn't a ServiceAccount of namespace {namespace}"
        yield from missing(text, name, accounts.get(namespace, ()), cluster, "GPU371", Answer.UNKNOWN)


def tolerating(pod: Pod) -> Pod:
    """Return a pod with the tolerations that admission adds."""
    added = (*_extended_resource_tolerations(pod), *_lost_node_tolerations(pod))
    return replace(pod, tolerations=(*pod.tolerations, *added)) if added else pod


def flavored(pod: Pod, workload: Workload, cluster: Cluster) -> Pod:
    """Return a pod with the tolerations that Kueue may add. Which flavor Kueue chooses is known at run time only."""
    added = tuple(each for flavor in candidate_flavors(workload, cluster) for each in flavor_tolerations(flavor))
    if not added:
        return pod
    return replace(pod, tolerations=(*pod.tolerations, *added), likeness=f"{pod.likeness} {added}")


def _extended_resource_tolerations(pod: Pod) -> Iterator[Toleration]:
    """Yield a toleration for each extended resource that its containers request. A claim isn't a request."""
    names = {name for each in pod.every_container for name in each.names if is_extended(name)}
    for name in sorted(names):
        added = Toleration(name, "Exists", effect="NoSchedule")
        if added not in pod.tolerations:
            yield added


def _lost_node_tolerations(pod: Pod) -> Iterator[Toleration]:
    """Yield a toleration for each taint of a lost node that no toleration of the pod covers, for any value."""
    for taint in _LOST_NODE_TAINTS:
        if not any(_matches_key_and_effect(each, taint) for each in pod.tolerations):
            yield Toleration(taint.key, "Exists", effect=taint.effect, seconds=_LOST_NODE_SECONDS)


def _matches_key_and_effect(given: Toleration, taint: Taint) -> bool:
    return (not given.key or given.key == taint.key) and (not given.effect or given.effect == taint.effect)


def not_mounted(workload: Workload) -> Iterator[Reason]:
    """Yield why a workload's pods are rejected because of the mounts of their containers."""
    pod, owner = workload.pod.written, workload.owner
    answer = Answer.NO if owner.kind in _KINDS_WITHOUT_ADDED_VOLUMES else Answer.UNKNOWN
    for text in _faults_of_volumes(pod):
        yield _mount_refusal(text, Answer.NO)
    volumes = None if may_be_excerpt(owner) else _volumes(pod, owner)
    for container in (*mappings(pod.get("initContainers")), *mappings(pod.get("containers"))):
        who, mounts = f"container {container.get('name')}", mappings(container.get("volumeMounts"))
        for text in _faults_of_paths(who, mounts):
            yield _mount_refusal(text, Answer.NO)
        named = [*mounts, *mappings(container.get("volumeDevices"))]
        for text in _without_volume(who, named, volumes) if volumes is not None else ():
            yield _mount_refusal(text, answer)


def _mount_refusal(text: str, answer: Answer) -> Reason:
    return Reason(answer, "refused", f"the API server rejects it: {text}", rule="GPU408")


def _volumes(pod: Mapping[str, Any], owner: Object) -> set[str] | None:
    """Return the names of a pod's volumes; ``None`` if one isn't known."""
    made = [dig(owner.spec, *path) for path in _TEMPLATES]
    listed = [pod.get("volumes"), *made]
    if any(isinstance(each, Unknown) for each in listed):
        return None
    templates = [dig(each, "metadata", "name") for part in made for each in items(part)]
    names = [_text(each) for each in (*(dig(each, "name") for each in items(pod.get("volumes"))), *templates)]
    known = all_known(names)
    return {*known, *_ADDED_VOLUMES.get(owner.kind, ())} if len(known) == len(names) else None


def _text(value: Any) -> str | None:
    text = known_text(value)
    return None if text is None or is_expression(text) else text


def _faults_of_volumes(pod: Mapping[str, Any]) -> Iterator[str]:
    for name in _twice(_text(each.get("name")) for each in mappings(pod.get("volumes"))):
        yield f"two volumes have the name {name}"


def _faults_of_paths(who: str, mounts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for path in _twice(_text(each.get("mountPath")) for each in mounts):
        yield f"{who} mounts two volumes at {path}"
    for each in mounts:
        inner = _text(each.get("subPath")) or ""
        if inner.startswith("/") or ".." in inner.split("/"):
            yield f"{who} has subPath {inner}, which must be relative and without '..'"


def _without_volume(who: str, mounts: Sequence[Mapping[str, Any]], volumes: Collection[str]) -> Iterator[str]:
    for name in dict.fromkeys(_text(each.get("name")) for each in mounts):
        if name is not None and name not in volumes:
            yield f"{who} mounts volume {name}, which the pod doesn't have{did_you_mean(name, sorted(volumes))}"


def _twice(values: Iterator[str | None]) -> list[str]:
    return [value for value, count in Counter(values).items() if value is not None and count > 1]


@dataclass(frozen=True, slots=True)
class Admitted:
    """The result of admission for a workload's pods.

    Attributes:
        workload: The workload with its pod after admission.
        refusals: Why the pods are rejected, each with the rule that reports it.
    """

    workload: Workload
    refusals: tuple[Reason, ...] = ()


class Admission:
    """Admission of the pods of one cluster. Pods with the same text in one namespace are read once."""

    def __init__(self, cluster: Cluster) -> None:
        """Store the cluster."""
        self._cluster, self._accounts = cluster, service_accounts_by_namespace(cluster)
        # Each entry holds its pod, so that no other pod gets the same id.
        self._seen: dict[tuple[object, ...], tuple[Pod, Admitted]] = {}
        self._quotas: dict[str, NamespaceQuotas] = {}
        self._known: dict[int, tuple[Workload, Admitted]] = {}
        self._mounts: dict[int, tuple[Pod, tuple[Reason, ...]]] = {}

    def admit(self, workload: Workload) -> Admitted:
        """Return a workload after admission of its pods."""
        if id(workload) not in self._known:
            # Each entry holds its workload, so that no other workload gets the same id.
            self._known[id(workload)] = workload, self._compute_admission(workload)
        return self._known[id(workload)][1]

    def _compute_admission(self, workload: Workload) -> Admitted:
        like = self._alike(workload)
        admitted = _with_pod(workload, like.workload.pod)
        if workload.owner.kind == "Pod" and not self.has_quotas(workload.namespace):
            return Admitted(admitted, (*self._not_mounted(workload), *like.refusals))
        over = (*self._quota_violations(admitted), *object_quota_violations(workload, self._cluster))
        refusals = (*not_valid_owner(workload.owner), *self._not_mounted(workload), *like.refusals, *over)
        return Admitted(admitted, refusals)

    def _not_mounted(self, workload: Workload) -> tuple[Reason, ...]:
        """Return why pods are rejected because of their mounts, computed once for single pods with the same spec."""
        if workload.owner.kind != "Pod":
            return tuple(not_mounted(workload))
        key = id(workload.pod)
        if key not in self._mounts:
            self._mounts[key] = workload.pod, tuple(not_mounted(workload))
        return self._mounts[key][1]

    def has_quotas(self, namespace: str) -> bool:
        """Whether a ResourceQuota limits the pods of a namespace."""
        return bool(self._namespace_quotas(namespace))

    def _alike(self, workload: Workload) -> Admitted:
        key = id(workload.pod), workload.namespace, repr(workload_queue(workload))
        if key not in self._seen:
            self._seen[key] = workload.pod, self._admitted(workload)
        return self._seen[key][1]

    def shortages(self, workload: Workload) -> tuple[Shortage, ...]:
        """Return the quotas of its namespace that have too little left for a workload."""
        admitted = _with_pod(workload, self._alike(workload).workload.pod)
        return tuple(self._namespace_quotas(workload.namespace).shortages(admitted))

    def _quota_violations(self, workload: Workload) -> Iterator[Reason]:
        return self._namespace_quotas(workload.namespace).refusals(workload)

    def _namespace_quotas(self, namespace: str) -> NamespaceQuotas:
        if namespace not in self._quotas:
            quotas = resource_quotas(namespace, self._cluster)
            self._quotas[namespace] = NamespaceQuotas(
                quotas, self._workloads_before_quotas(namespace) if quotas else (), class_of_the_rest(self._cluster)
            )
        return self._quotas[namespace]

    def _workloads_before_quotas(self, namespace: str) -> Iterator[Workload]:
        """Yield the workloads of a namespace that only a quota may reject."""
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
        pod = flavored(pod, workload, cluster) if workload_queue(workload) is not None else pod
        return Admitted(replace(workload, pod=pod), refusals)


def _with_operating_system(pod: Pod) -> Pod:
    """Return a Windows pod with the label of the nodes on which kubelet accepts it.

    Source: kubernetes/kubernetes v1.36 pkg/kubelet/lifecycle/predicate.go ``rejectPodAdmissionBasedOnOSField``
    """
    if dig(pod.written, "os", "name") != "windows":
        return pod
    selection = replace(pod.selection, selector=(*pod.selection.selector, *equal({OS: "windows"})))
    return replace(pod, selection=selection, likeness=f"{pod.likeness} windows")


def _with_pod(workload: Workload, pod: Pod) -> Workload:
    return workload if pod is workload.pod else replace(workload, pod=pod)
