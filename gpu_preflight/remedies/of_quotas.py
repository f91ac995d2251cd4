"""What could be changed in the quotas of a namespace, or in a workload, so that they let it in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gpu_facts.quantities import quantity, resources, show
from gpu_preflight.admission.quotas import Shortage
from gpu_preflight.cluster.kueue import cluster_queue_of
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.unknown import Unknown, mapping, mappings
from gpu_preflight.remedies.change import Change, written
from gpu_preflight.remedies.of_workloads import lowered
from gpu_preflight.scheduling.demand import Demand


def larger(shortages: Iterable[Shortage]) -> Iterator[Change]:
    """Yield the smallest quotas that let all pods in."""
    of_quotas: dict[int, list[Shortage]] = {}
    for each in shortages:
        of_quotas.setdefault(id(each.quota), []).append(each)
    for short in of_quotas.values():
        quota = short[0].quota
        needed = {each.name: written(each.resource, each.needed, up=True) for each in short}
        texts = [f"{each.name} to {_shown(each.resource, needed[each.name])}" for each in short]
        hard = mapping(quota.spec.get("hard"))
        known = {} if any(isinstance(each, Unknown) for each in hard.values()) else hard
        text = f"raise {', '.join(texts)} in ResourceQuota {quota.name}"
        yield Change(text, quota.origin, ("spec", "hard"), {**known, **needed}, of_pool=True)


def wider(workload: Workload, cluster: Cluster) -> Iterator[Change]:
    """Yield the LimitRanges of a namespace with the maximum for a container that a pod's containers request."""
    for limit_range in cluster.of_kind("LimitRange"):
        entries = mappings(limit_range.spec.get("limits")) if limit_range.namespace == workload.namespace else []
        raised: dict[str, int | str] = {}
        changed = []
        for entry in entries:
            of_container = entry.get("type") == "Container"
            new = _higher(mapping(entry.get("max")), workload) if of_container else {}
            raised |= new
            changed.append({**entry, "max": {**mapping(entry.get("max")), **new}} if new else entry)
        if raised:
            texts = ", ".join(f"{name} to {_shown(name, value)}" for name, value in raised.items())
            text = f"raise the maximum of {texts} in LimitRange {limit_range.name}"
            yield Change(text, limit_range.origin, ("spec", "limits"), changed, of_pool=True)


def larger_queue(wanted: Demand, workload: Workload, cluster: Cluster) -> Iterator[Change]:
    """Yield the ClusterQueue of a job with the quota that all its pods need at once, in the first flavor of a group."""
    queue = cluster_queue_of(workload, cluster)
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
    """Return the quota of one resource, raised to what is wanted of it."""
    name = str(quota.get("name"))
    now = quantity(name, quota.get("nominalQuota"))
    if now is None or wanted.get(name, 0) <= now:
        return quota
    value = written(name, wanted[name], up=True)
    texts.append(f"{name} to {_shown(name, value)}")
    return {**quota, "nominalQuota": value}


def _higher(most: dict[str, Any], workload: Workload) -> dict[str, int | str]:
    """Return the amounts of which a container requests more than a maximum, as people write them."""
    known = resources(most)
    wanted: dict[str, int] = {}
    for each in workload.pod.every_container:
        for name, amount in (each.requests if each.is_open else {**each.requests, **resources(each.limits)}).items():
            wanted[name] = max(amount, wanted.get(name, 0))
    return {name: written(name, wanted[name], up=True) for name in known if wanted.get(name, 0) > known[name]}


def within(shortages: Iterable[Shortage], workload: Workload) -> Iterator[Change]:
    """Yield the most that each pod may ask for with the quotas as they are; nothing where that is no pod at all."""
    left: dict[str, int] = {}
    for each in shortages:
        left[each.resource] = min(each.for_each, left.get(each.resource, each.for_each))
    if all(left.values()):
        for name, amount in left.items():
            yield from lowered(workload, name, amount)


def _shown(resource: str, value: int | str) -> str:
    return show(resource, quantity(resource, value) or 0)
