"""Rules for pod autoscalers that have no target, no metric, or contradicting bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_facts.resources import NVIDIA
from gpu_preflight.case import Case
from gpu_preflight.cluster.scalers import SCALED_OBJECT, VPA, Scaler, scale_target
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import Workload
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, items, known_number, known_text, mapping, mappings
from gpu_preflight.rule import Problem, rule

_HPA_DOCS = "https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/"
_KEDA_DOCS = "https://keda.sh/docs/2.20/reference/scaledobject-spec/"
# Resources that metrics.k8s.io serves.
# Source: kubernetes/metrics v0.36.1 pkg/apis/metrics/v1beta1/types.go
_MEASURED = ("cpu", "memory")
_WITH_SCALE = {"Deployment": "apps", "StatefulSet": "apps", "ReplicaSet": "apps"}
_DOCS = "https://github.com/kubernetes/autoscaler/blob/vertical-pod-autoscaler-1.7.1/vertical-pod-autoscaler/docs"
_ONE_NODE = "ReadWriteOnce"


@rule("GPU360", "error", source=_HPA_DOCS, stops=False)
def horizontal_pod_autoscaler_by_a_resource_that_is_not_measured(case: Case) -> Iterator[Problem]:
    """HorizontalPodAutoscaler scales by a resource that isn't measured.

    The resource metrics API has only CPU and memory. The autoscaler reports FailedGetResourceMetric and never scales.

    Fix: Scale by a metric from Prometheus, through prometheus-adapter or KEDA: the model server's queue length, such as
    vllm:num_requests_waiting, or DCGM_FI_DEV_GPU_UTIL.
    """
    for scaler, metric in case.signals:
        if metric.resource is not None and metric.resource not in _MEASURED:
            text = f"scales by {metric.resource} of type {metric.kind}, but the resource metrics API has only cpu and "
            text += "memory, so this metric never scales it"
            yield Problem.from_subject(scaler, text)


@rule("GPU361", "error", source=_HPA_DOCS, stops=False)
def horizontal_pod_autoscaler_by_a_share_of_no_request(case: Case) -> Iterator[Problem]:
    """HorizontalPodAutoscaler targets utilization of a resource that no container requests.

    Utilization is a share of each container's request. Without a request it is undefined, and the autoscaler never
    scales.

    Fix: Request the resource in every container, or set averageValue as target.
    """
    cluster = case.cluster
    for scaler, metric in case.signals:
        name, workload = metric.resource, scale_target(scaler, cluster)
        if name is None or workload is None or (metric.target or {}).get("averageUtilization") is None:
            continue
        bare = [
            one.name
            for one in workload.pod.containers or ()
            if (metric.kind == "Resource" or one.name == metric.container)
            and not one.is_open
            and name not in one.requests
        ]
        filled = [one for one in cluster.objects_of_kind("LimitRange") if one.namespace == scaler.target.namespace]
        whole = name in mapping(workload.pod.asked) or name in mapping(workload.pod.limits)
        if bare and not whole:
            names = ", ".join(map(str, bare))
            text = f"targets utilization of {name}, which container {names} doesn't request, so it never scales"
            yield Problem.from_subject(scaler, text, unknown=bool(filled))


@rule("GPU362", "error", source=_KEDA_DOCS, stops=False)
def scaler_that_refers_to_something_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """Scaler refers to an object that doesn't exist.

    It has no target to scale, or can't read its metric, and does nothing.

    Fix: Create the named object in the scaler's namespace, or correct the name.
    """
    cluster = case.cluster
    if not cluster.whole:
        return
    for each in case.replica_scalers:
        # If the input has no other workload in the namespace, the target may be deployed by other means.
        alone = not any(one.namespace == each.target.namespace for one in cluster.workloads)
        for text in _missing_target(each, cluster):
            yield Problem.from_subject(each, text, unknown=alone or not cluster.sees_objects, doubt=cluster.doubt)
        for text in _missing_authentication(each, cluster):
            yield Problem.from_subject(each, text, unknown=not cluster.sees_objects, doubt=cluster.doubt)


def _missing_target(scaler: Scaler, cluster: Cluster) -> Iterator[str]:
    kind, name, namespace = scaler.target
    if name is None or kind not in _WITH_SCALE or scaler.is_made_by_keda:
        return
    there = {(each.namespace, each.name) for each in cluster.objects_of_kind(kind)}
    if (namespace, name) not in there:
        elsewhere = next((space for space, other in there if other == name), None)
        hint = f"; namespace {elsewhere} has one" if elsewhere else ""
        yield f"refers to {kind} {namespace}/{name}, which doesn't exist{hint}"


def _missing_authentication(scaler: Scaler, cluster: Cluster) -> Iterator[str]:
    for kind, name, namespace in (each.authentication for each in scaler.signals if each.authentication):
        if name is None:
            continue
        everywhere = kind == "ClusterTriggerAuthentication"
        found = [each for each in cluster.objects_of_kind(kind) if each.name == name]
        if not any(everywhere or each.namespace == namespace for each in found):
            yield f"refers to {kind} {name if everywhere else f'{namespace}/{name}'}, which doesn't exist"


@rule("GPU363", "error", source="kedacore/keda v2.20.0 apis/keda/v1alpha1/scaledobject_webhook.go", stops=False)
def scaler_whose_bounds_contradict_each_other(case: Case) -> Iterator[Problem]:
    """Bounds of a scaler contradict each other.

    The API server, or KEDA's webhook, rejects it.

    Fix: Set the minimum number of pods at or below the maximum, and KEDA's idleReplicaCount below the minimum.
    """
    for each in case.replica_scalers:
        least, most = _compared_min(each), each.max_replicas
        if least is not None and most is not None and least > most:
            text = f"its minimum of {least} pods is above its maximum of {most}"
            fix = f"Raise the maximum to {least} or more, or lower the minimum to {most} or less."
            yield Problem.from_subject(each, text, fix=fix)
        idle = known_number(each.object.spec.get("idleReplicaCount"))
        if idle is not None and least is not None and idle >= least:
            text = f"idleReplicaCount {idle} must be below its minimum of {least}"
            yield Problem.from_subject(each, text, fix="Set idleReplicaCount: 0 and minReplicaCount: 1 or more.")


def _compared_min(scaler: Scaler) -> int | None:
    """Return the minimum that KEDA compares: 0 if none is set, and 1 if it is set to 0."""
    absent = scaler.kind == SCALED_OBJECT and scaler.object.spec.get("minReplicaCount") is None
    return 0 if absent else scaler.min_replicas


def _vertical(case: Case) -> Iterator[tuple[Scaler, str, list[dict[str, Any]]]]:
    """Yield each VerticalPodAutoscaler with its update mode and its container policies."""
    for each in case.scalers:
        if each.kind == VPA:
            mode = known_text(dig(each.object.spec, "updatePolicy", "updateMode")) or "Recreate"
            yield each, mode, mappings(dig(each.object.spec, "resourcePolicy", "containerPolicies"))


def _controlled(policies: list[dict[str, Any]]) -> set[str]:
    named = [items(policy.get("controlledResources")) or _MEASURED for policy in policies]
    return {str(name) for names in named for name in names} or {*_MEASURED}


@rule("GPU237", "warning", source=f"{_DOCS}/known-limitations.md")
def vpa_and_horizontal_pod_autoscaler_on_the_same_metric(case: Case) -> Iterator[Problem]:
    """VPA and HorizontalPodAutoscaler use the same metric.

    VPA changes the request that the other one divides by, so the number and the size of the pods oscillate.

    Fix: Set updatePolicy.updateMode: "Off" in the VPA, or scale by a metric that VPA doesn't change.
    """
    for vpa, mode, policies in _vertical(case):
        for hpa in case.scalers if mode != "Off" else ():
            names = {each.resource for each in hpa.signals if each.kind == "Resource" and each.resource}
            both = sorted(_controlled(policies) & names)
            if both and vpa.target == hpa.target:
                yield Problem(vpa, f"{vpa.title} and {hpa.title} both control {' and '.join(both)} of the same pods")


@rule("GPU238", "warning", source=f"{_DOCS}/known-limitations.md")
def vpa_that_is_to_change_gpus(case: Case) -> Iterator[Problem]:
    """VPA policy names GPUs.

    VPA supports only CPU and memory. Newer versions reject other names, older ones ignore them.

    Fix: Remove the resource, and deploy again to change the number of GPUs.
    """
    for each, _, policies in _vertical(case):
        found = set()
        for policy in policies:
            parts = ("minAllowed", "maxAllowed", "minResources", "maxResources")
            names = [
                *items(policy.get("controlledResources")),
                *(name for part in parts for name in mapping(policy.get(part))),
            ]
            found |= {str(name) for name in names if str(name).startswith(NVIDIA)}
        if found:
            yield Problem.from_subject(each, f"names {', '.join(sorted(found))}, but VPA supports only cpu and memory")


@rule("GPU239", "warning", source=f"{_DOCS}/features.md")
def vpa_that_restarts_gpu_pods(case: Case) -> Iterator[Problem]:
    """VPA restarts GPU pods.

    VPA evicts a pod to change its CPU or memory. A model loads again, and a training run starts over.

    Fix: Set updatePolicy.updateMode: "Off" in the VPA, or "Initial".
    """
    for each, mode, _ in _vertical(case):
        workload = scale_target(each, case.cluster)
        if workload is not None and workload.asks_for_gpu and mode in ("Auto", "Recreate", "InPlaceOrRecreate"):
            yield Problem.from_subject(each, f"updateMode {mode} evicts pods of {workload.name}, which has GPUs")


@rule("GPU442", "warning", source="https://lws.sigs.k8s.io/docs/concepts/rollout-strategy/")
def update_of_groups_that_needs_spare_nodes(case: Case) -> Iterator[Problem]:
    """Update of a LeaderWorkerSet needs spare nodes.

    maxSurge starts whole groups before others end. Their pods stay Pending, and the ones that start keep the existing
    nodes.

    Fix: Set rolloutStrategy.rollingUpdateConfiguration.maxSurge: 0, with maxUnavailable: 1.
    """
    for owner in case.cluster.objects_of_kind("LeaderWorkerSet"):
        rolling = dig(owner.spec, "rolloutStrategy", "rollingUpdateConfiguration")
        surge, groups = known_number(dig(rolling, "maxSurge")), known_number(owner.spec.get("replicas", 1))
        size = known_number(dig(owner.spec, "leaderWorkerTemplate", "size"))
        if not surge or groups is None or size is None:
            continue
        pods = _alike(case, owner)
        if (
            pods is None
            or _has_no_room(case, pods, groups * size)
            or not _has_no_room(case, pods, (groups + surge) * size)
        ):
            continue
        pods_needed = f"{(groups + surge) * size} pods, but the pools have room for {groups * size}"
        yield Problem.from_subject(
            owner, f"an update creates {pods_needed}", unknown=not case.cluster.whole, doubt=case.cluster.doubt
        )


@rule(
    "GPU493", "warning", source="https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#max-unavailable"
)
def update_of_a_deployment_that_needs_a_spare_gpu(case: Case) -> Iterator[Problem]:
    """Rolling update of a Deployment needs a spare GPU that no pool has.

    The update starts a new pod before it ends an old one. The new pod stays Pending, the old one keeps its GPU, and the
    update never ends. This is the default for a Deployment with three replicas or fewer.

    Fix: Set strategy.type: Recreate, or rollingUpdate with maxSurge: 0 and maxUnavailable: 1, or raise the limit of the
    pool.
    """
    for workload in case.gpu_workloads:
        rolling = dig(workload.owner.spec, "strategy", "rollingUpdate")
        if not _surge_without_end(workload) or not workload.replicas or workload.suspended:
            continue
        if _has_no_room(case, workload, workload.replicas) or not _has_no_room(case, workload, workload.replicas + 1):
            continue
        gone = "0" if dig(rolling, "maxUnavailable") is not None else "0: the default of 25%, rounded down"
        text = f"a rolling update starts pod {workload.replicas + 1} before it ends one (maxUnavailable {gone}),"
        text += " but the pools"
        yield Problem.from_subject(
            workload, f"{text} have room for {workload.replicas}", unknown=not case.cluster.whole
        )


@rule("GPU494", "warning", source="https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes")
def update_of_a_deployment_whose_disk_is_in_use(case: Case) -> Iterator[Problem]:
    """Rolling update of a Deployment needs a disk that the old pod still uses.

    The new pod starts on another node and hangs in ContainerCreating with a Multi-Attach error. The old pod stays until
    the new one is ready, so the update never ends.

    Fix: Set strategy.type: Recreate, or use a volume that several nodes can mount.
    """
    for workload, claim in case.gpu_claims:
        if not _surge_without_end(workload) or workload.replicas != 1 or claim.name is None or claim.spec is None:
            continue
        if claim.modes != [_ONE_NODE] or not claim.is_ebs:
            continue
        # On a node with room for both pods, the update works.
        rooms = [each.per_node for each in case.verdict(workload).pools if each.answer is not Answer.NO]
        alone = bool(rooms) and all(each == 1 for each in rooms)
        text = f"a rolling update starts a second pod, but {claim.title} is {_ONE_NODE} and still in use"
        yield Problem.from_subject(workload, text, unknown=not alone)


def _surge_without_end(workload: Workload) -> int:
    """Return how many pods an update starts before it ends any; 0 if it ends one first, or if it isn't known.

    Source: kubernetes/kubernetes v1.36.3 pkg/controller/deployment/util/deployment_util.go ``ResolveFenceposts``:
    maxSurge rounds up and maxUnavailable down, each 25 % by default.
    """
    owner, replicas = workload.owner, workload.replicas
    kind = dig(dict(owner.spec), "strategy", "type")
    if owner.kind != "Deployment" or kind not in (None, "RollingUpdate") or replicas is None:
        return 0
    rolling = dig(dict(owner.spec), "strategy", "rollingUpdate")
    surge = _pods(dig(rolling, "maxSurge"), replicas, up=True)
    gone = _pods(dig(rolling, "maxUnavailable"), replicas, up=False)
    return surge if surge and gone == 0 else 0


def _pods(value: object, replicas: int, *, up: bool) -> int | None:
    """Return a number of pods that is written as a number or a percentage; ``None`` if it isn't known."""
    text = "25%" if value is None else str(value)
    if isinstance(value, Unknown) or not text.removesuffix("%").isdigit():
        return None
    if not text.endswith("%"):
        return int(text)
    amount = int(text[:-1]) * replicas
    return -(-amount // 100) if up else amount // 100


def _alike(case: Case, owner: Object) -> Workload | None:
    """Return the pods of a set if all of them have the same requests and the same placement."""
    parts = case.cluster.owned_workloads(owner)
    if not parts or not parts[0].asks_for_gpu:
        return None
    asks = [(each.pod.requests, each.pod.selection, each.pod.tolerations) for each in parts]
    return parts[0] if all(each == asks[0] for each in asks) else None


def _has_no_room(case: Case, pods: Workload, number: int) -> bool:
    """Whether the pools surely have no capacity for a number of pods."""
    verdict = case.with_replicas(pods, number)
    return any(each.rule == "GPU121" and each.answer is Answer.NO for each in verdict.reasons)
