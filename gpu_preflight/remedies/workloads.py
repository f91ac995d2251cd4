"""Possible changes to a workload so that a pool accepts it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.hardware.regions import is_seen_zone, is_zone_name, known_regions
from gpu_facts.kubernetes import ARCHITECTURES
from gpu_facts.light import regex
from gpu_facts.quantities import quantity, resources, show
from gpu_facts.refusals import near
from gpu_facts.resources import DEVICE_CLASS, DISK, GPU, NVIDIA
from gpu_preflight.admission.quotas import Shortage
from gpu_preflight.case import Case
from gpu_preflight.cluster.kueue import find_cluster_queue
from gpu_preflight.cluster.scalers import HPA, SCALED_OBJECT, Scaler, scale_target
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.container import Container
from gpu_preflight.model.label_values import LabelValues
from gpu_preflight.model.pod import Workload
from gpu_preflight.model.programs import programs
from gpu_preflight.model.taints import Taint, untolerated
from gpu_preflight.node.instance_types import own_name
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.reading.unknown import Unknown, dig, items, mapping, mappings
from gpu_preflight.remedies.change import Change, pod_path, written
from gpu_preflight.scheduling.demand import Demand

# Common option names for the number of GPUs that a program uses on a node.
_SIZE = regex(
    r"--?(?:tensor[-_]parallel(?:[-_]size)?|tp(?:[-_]size)?|nproc[-_]per[-_]node|num[-_]gpus|num[-_]shard)[= ]+(\d+)"
)
# How similar a label must be to the one that it may mean.
_CLOSE = 0.75
_OF_HPA = ("minReplicas", "maxReplicas")
_OF_KEDA = ("minReplicaCount", "maxReplicaCount")


def required_gpus(containers: Iterable[Container]) -> int:
    """Return the min number of GPUs that the arguments of a pod's containers require; 0 if they name none."""
    required = [0]
    for each in containers:
        required += [program.gpus_per_node_min for program in programs(each)]
        required += [int(found[1]) for found in _SIZE.finditer(" ".join(map(str, each.words)))]
    return max(required)


def used_gpus(containers: Iterable[Container]) -> int | None:
    """Return how many GPUs the only program of a pod uses; ``None`` if it isn't certain or there are several."""
    found = [program for each in containers for program in programs(each)]
    if len(found) != 1 or found[0].is_open or not found[0].is_sure or found[0].spans_nodes:
        return None
    return found[0].gpus_per_node if isinstance(found[0].gpus_per_node, int) else None


def moved(
    wanted: Demand,
    workload: Workload,
    taints: tuple[Taint, ...],
    node: NodeToBe,
    selected: frozenset[str] = frozenset(),
) -> Iterator[Change]:
    """Yield changes that allow a pod on a node: tolerations, the node's labels, and the device that it offers.

    Args:
        wanted: The requests of one pod.
        workload: The pods.
        taints: Taints of the node.
        node: The node.
        selected: Labels that another change sets on the node, so that the pod may continue to select them.
    """
    path = pod_path(workload.owner)
    if path is None:
        return
    spec = dig(workload.owner.content, *path)
    yield from _tolerations(wanted, workload, taints, path, spec)
    yield from _selector(wanted, workload, node, path, selected)
    yield from _offered(wanted, workload, node)


def corrected(workload: Workload, nodes: Iterable[NodeToBe]) -> Iterator[Change]:
    """Yield node selectors and required node affinity in which typos are corrected to labels of some nodes.

    Args:
        workload: The pods.
        nodes: A node of each kind that a pool may have.
    """
    path = pod_path(workload.owner)
    labels: dict[str, set[str]] = {}
    for node in nodes:
        for key, value in node.labels.items():
            if isinstance(value, LabelValues) and not value.all_but:
                labels.setdefault(key, set()).update(value.values)
    if path is None or not labels:
        return
    spec = dig(workload.owner.content, *path)
    for key, value in mapping(dig(spec, "nodeSelector")).items():
        if isinstance(value, str) and (right := _label_meant(key, [value], labels)) is not None:
            text = f"select {right[0]}={right[1][0]} instead of {key}={value}"
            yield _set(workload, text, (*path, "nodeSelector"), {key: None, right[0]: right[1][0]})
    yield from _corrected_affinity(workload, path, spec, labels)


def _corrected_affinity(
    workload: Workload, path: tuple[str, ...], spec: Any, labels: Mapping[str, AbstractSet[str]]
) -> Iterator[Change]:
    place = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms, texts = list[dict[str, Any]](), list[str]()
    for term in mappings(dig(spec, *place, "nodeSelectorTerms")):
        expressions = []
        for each in mappings(term.get("matchExpressions")):
            key, values = each.get("key"), [one for one in items(each.get("values")) if isinstance(one, str)]
            right = _label_meant(str(key), values, labels) if each.get("operator") == "In" else None
            if right is not None:
                texts.append(f"require {right[0]} In ({', '.join(right[1])}) instead of {key} In ({', '.join(values)})")
            expressions.append({**each, "key": right[0], "values": right[1]} if right else each)
        terms.append({**term, "matchExpressions": expressions} if expressions else term)
    if texts:
        yield _set(workload, ", and ".join(texts), (*path, *place), {"nodeSelectorTerms": terms})


def _label_meant(key: str, values: list[str], labels: Mapping[str, AbstractSet[str]]) -> tuple[str, list[str]] | None:
    """Return key and values of labels that a typo most likely means; ``None`` if the label exists, or none is near."""
    right = key if key in labels else near(key, labels, closeness=_CLOSE)
    if right is None or not values or (right == key and not labels[key].isdisjoint(values)):
        return None
    if any(each not in labels[right] and _is_of_ec2(each) for each in values):
        return None
    meant = [each if each in labels[right] else near(each, labels[right], closeness=_CLOSE) for each in values]
    known = [each for each in meant if each is not None]
    return (right, known) if len(known) == len(values) else None


def _is_of_ec2(value: str) -> bool:
    """Whether a value names something that EC2 has, so that it isn't a typo.

    It is a region, a zone, an architecture, a part of an instance type, or a GPU, such as ``l4`` and ``NVIDIA-L4``.
    """
    models = {row.gpu_model.lower() for row in catalogue().values()}
    types = {part for row in catalogue().values() for part in (row.name, *row.name.split("."))}
    names = {*models, *types, *ARCHITECTURES.values(), *known_regions()}
    is_gpu = value.lower().startswith(("nvidia-", "tesla-")) and not models.isdisjoint(value.lower().split("-"))
    return value.lower() in names or is_gpu or (is_zone_name(value) and is_seen_zone(value))


def smaller(wanted: Demand, workload: Workload, node: NodeToBe) -> Iterator[Change]:
    """Yield requests lowered to the resources of a node; nothing if a pod's arguments require more."""
    for name, asked in wanted.requests.items():
        have = node.least.get(name, 0)
        if asked > have > 0 and name not in (*node.unsaid, "pods", DEVICE_CLASS):
            yield from lowered(workload, name, have)


def requested(wanted: Demand, workload: Workload) -> Iterator[Change]:
    """Yield a request for as many GPUs as a pod's programs use. It is lower than now only if that number is certain."""
    request, used = wanted.requests.get(GPU, 0), used_gpus(workload.containers)
    required = required_gpus(workload.containers) if used is None else used
    if 0 < request < required or (used is not None and 0 < used < request):
        yield from _asking(workload, GPU, f"request {required} {GPU}", {GPU: required})


def as_believed(wanted: Demand, workload: Workload, node: NodeToBe) -> Iterator[Change]:
    """Yield requests lowered to the autoscaler's view of a node that isn't launched yet."""
    for name, asked in wanted.requests.items():
        have = min(node.least.get(name, 0), node.believed.get(name, 0))
        if asked > have and name != DEVICE_CLASS and (have or name == DISK):
            yield from lowered(workload, name, have)


def fewer(workload: Workload, replicas: int) -> Iterator[Change]:
    """Yield the change that limits the number of pods to the available room."""
    field = {"Deployment": "replicas", "StatefulSet": "replicas", "ReplicaSet": "replicas", "Job": "parallelism"}
    name = field.get(workload.owner.kind)
    if name and replicas > 0:
        yield _set(workload, f"run {replicas} {'pod' if replicas == 1 else 'pods'}", ("spec", name), replicas)


def _set(workload: Workload, text: str, path: tuple[str, ...], value: Any) -> Change:
    return Change(text, workload.owner.origin, path, value)


def _tolerations(
    wanted: Demand, workload: Workload, taints: tuple[Taint, ...], path: tuple[str, ...], spec: Any
) -> Iterator[Change]:
    refused = [taint for taint, answer in untolerated(wanted.pod.tolerations, taints) if answer is Answer.NO]
    if not refused:
        return
    added = [{"key": each.key, "operator": "Exists", "effect": each.effect} for each in refused]
    text = f"tolerate {', '.join(map(str, refused))}"
    yield _set(workload, text, (*path, "tolerations"), [*mappings(dig(spec, "tolerations")), *added])


def _selector(
    wanted: Demand, workload: Workload, node: NodeToBe, path: tuple[str, ...], selected: frozenset[str]
) -> Iterator[Change]:
    for each in wanted.pod.selection.selector:
        if each.key in selected or each.matches(node.labels) is not Answer.NO:
            continue
        have = node.labels.get(each.key)
        value = have.only if isinstance(have, LabelValues) else None
        other = _name_there(each.key, node)
        if other is not None and replace(each, key=other).matches(node.labels) is Answer.YES:
            text = f"select {other} instead of {each.key}"
            chosen = {each.key: None, other: (each.values or ("",))[0]}
            yield _set(workload, text, (*path, "nodeSelector"), chosen)
            continue
        text = f"select {each.key}={value}" if value else f"select no {each.key}"
        yield _set(workload, text, (*path, "nodeSelector"), {each.key: value})


def _name_there(key: str, node: NodeToBe) -> str | None:
    """Return the name that a node has for a label of instance types. Karpenter and Auto Mode use different names."""
    names = (own_name(key, kind) for kind in ("karpenter", "auto-mode"))
    return next((each for each in names if each is not None and each in node.labels), None)


def without_runtime(workload: Workload) -> Iterator[Change]:
    """Yield the removal of a pod's runtime class. No EKS image with NVIDIA's driver needs one."""
    path = pod_path(workload.owner)
    if path is not None and dig(workload.owner.content, *path, "runtimeClassName") is not None:
        yield _set(workload, "remove runtimeClassName", (*path, "runtimeClassName"), None)


def _offered(wanted: Demand, workload: Workload, node: NodeToBe) -> Iterator[Change]:
    """Yield the replacement of a GPU resource that a node doesn't offer by one that it offers."""
    offered = sorted(each for each, amount in node.least.items() if each.startswith(NVIDIA) and amount > 0)
    for name in wanted.requests:
        if name.startswith(NVIDIA) and offered and not node.least.get(name) and name not in node.unsaid:
            yield from _asking(workload, name, f"request 1 {offered[0]}", {name: None, offered[0]: 1})


def lowered(workload: Workload, name: str, have: int) -> Iterator[Change]:
    """Yield a request lowered to an amount, in base units. If the amount is 0, the request is removed."""
    if name == GPU and have < required_gpus(workload.containers):
        return
    if have <= 0:
        yield from _asking(workload, name, f"request no {name}", {name: None})
        return
    value = written(name, have)
    yield from _asking(workload, name, f"request {show(name, quantity(name, value) or 0)} {name}", {name: value})


def _asking(workload: Workload, name: str, text: str, asked: Mapping[str, Any]) -> Iterator[Change]:
    """Yield new requests of the only container that names a resource."""
    path = pod_path(workload.owner)
    containers = mappings(dig(workload.owner.content, *path, "containers")) if path else []
    asking = [each for each in containers if _parts(each, name)]
    if path and len(asking) == 1:
        parts = {part: dict(asked) for part in _parts(asking[0], name)}
        value = [{"name": asking[0].get("name"), "resources": parts}]
        yield _set(workload, text, (*path, "containers"), value)


def _parts(container: Mapping[str, Any], name: str) -> list[str]:
    """Return the fields, limits or requests or both, in which a container names a resource."""
    return [part for part in ("limits", "requests") if name in mapping(dig(container, "resources", part))]


def larger(shortages: Iterable[Shortage]) -> Iterator[Change]:
    """Yield the smallest quotas that admit all pods."""
    of_quotas: dict[int, list[Shortage]] = {}
    for each in shortages:
        of_quotas.setdefault(id(each.quota), []).append(each)
    for short in of_quotas.values():
        quota = short[0].quota
        needed = {each.name: written(each.resource, each.needed, up=True) for each in short}
        texts = [f"{each.name} to {_format_quantity(each.resource, needed[each.name])}" for each in short]
        hard = mapping(quota.spec.get("hard"))
        known = {} if any(isinstance(each, Unknown) for each in hard.values()) else hard
        text = f"raise {', '.join(texts)} in ResourceQuota {quota.name}"
        yield Change(text, quota.origin, ("spec", "hard"), {**known, **needed}, of_pool=True)


def wider(workload: Workload, cluster: Cluster) -> Iterator[Change]:
    """Yield the LimitRanges of a namespace with their maximum raised to the requests of a pod's containers."""
    for limit_range in cluster.objects_of_kind("LimitRange"):
        entries = mappings(limit_range.spec.get("limits")) if limit_range.namespace == workload.namespace else []
        raised: dict[str, int | str] = {}
        changed = []
        for entry in entries:
            of_container = entry.get("type") == "Container"
            new = _higher(mapping(entry.get("max")), workload) if of_container else {}
            raised |= new
            changed.append({**entry, "max": {**mapping(entry.get("max")), **new}} if new else entry)
        if raised:
            texts = ", ".join(f"{name} to {_format_quantity(name, value)}" for name, value in raised.items())
            text = f"raise the maximum of {texts} in LimitRange {limit_range.name}"
            yield Change(text, limit_range.origin, ("spec", "limits"), changed, of_pool=True)


def larger_queue(wanted: Demand, workload: Workload, cluster: Cluster) -> Iterator[Change]:
    """Yield the ClusterQueue of a job with the quota that all its pods need at once, in the first flavor of a group."""
    queue = find_cluster_queue(workload, cluster)
    if queue is None:
        return
    all_at_once = {name: amount * (workload.replicas or 1) for name, amount in wanted.requests.items()}
    groups: list[dict[str, Any]] = []
    texts: list[str] = []
    for group in mappings(queue.spec.get("resourceGroups")):
        first, *rest = mappings(group.get("flavors")) or [{}]
        quotas = [_with_quota(each, all_at_once, texts) for each in mappings(first.get("resources"))]
        groups.append({**group, "flavors": [{**first, "resources": quotas}, *rest]})
    if texts:
        text = f"raise nominalQuota of {', '.join(texts)} in ClusterQueue {queue.name}"
        yield Change(text, queue.origin, ("spec", "resourceGroups"), groups, of_pool=True)


def _with_quota(quota: dict[str, Any], wanted: dict[str, int], texts: list[str]) -> dict[str, Any]:
    """Return the quota of one resource, raised to the requested amount."""
    name = str(quota.get("name"))
    now = quantity(name, quota.get("nominalQuota"))
    if now is None or wanted.get(name, 0) <= now:
        return quota
    value = written(name, wanted[name], up=True)
    texts.append(f"{name} to {_format_quantity(name, value)}")
    return {**quota, "nominalQuota": value}


def _higher(most: dict[str, Any], workload: Workload) -> dict[str, int | str]:
    """Return the amounts of containers that exceed a maximum, as quantities."""
    known = resources(most)
    wanted: dict[str, int] = {}
    for each in workload.pod.every_container:
        for name, amount in (each.requests if each.is_open else {**each.requests, **resources(each.limits)}).items():
            wanted[name] = max(amount, wanted.get(name, 0))
    return {name: written(name, wanted[name], up=True) for name in known if wanted.get(name, 0) > known[name]}


def within(shortages: Iterable[Shortage], workload: Workload) -> Iterator[Change]:
    """Yield the max request of each pod within the existing quotas; nothing if not even one pod fits."""
    left: dict[str, int] = {}
    for each in shortages:
        left[each.resource] = min(each.for_each, left.get(each.resource, each.for_each))
    if all(left.values()):
        for name, amount in left.items():
            yield from lowered(workload, name, amount)


def _format_quantity(resource: str, value: int | str) -> str:
    return show(resource, quantity(resource, value) or 0)


def workload_scaler(workload: Workload, case: Case) -> Scaler | None:
    """Return the autoscaler that sets a workload's number of pods; the last one if there are several."""
    found = (each for each in reversed(case.scalers) if each.kind in (HPA, SCALED_OBJECT))
    return next((each for each in found if scale_target(each, case.cluster) is workload), None)


def bounded(scaler: Scaler, replicas: int) -> Iterator[Change]:
    """Yield the change that keeps an autoscaler from creating more than a number of pods."""
    least, most = _OF_KEDA if scaler.kind == SCALED_OBJECT else _OF_HPA
    for name, now in ((most, scaler.max_replicas), (least, scaler.min_replicas)):
        if now is not None and now > replicas:
            text = f"lower {name} of {scaler.title} to {replicas}"
            yield Change(text, scaler.origin, ("spec", name), replicas, of_pool=True)
