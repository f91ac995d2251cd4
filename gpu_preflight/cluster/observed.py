"""The nodes and pods of a running cluster, from a dump by ``kubectl get``.

A Deployment, its ReplicaSet and its pods are one workload: ``metadata.ownerReferences`` show which object created
which. Pods with a node use its capacity. Only the other pods need a node. Running nodes become pools of a fixed size
with the resources that are free on them. Their autoscaler may add fresh nodes of the same kind.

Sources: https://kubernetes.io/docs/concepts/overview/working-with-objects/owners-dependents/,
https://karpenter.sh/docs/concepts/nodepools/#status-resources (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.labels import HOSTNAME, INSTANCE_TYPE, NODE_GROUP, NODE_POOL, ZONE
from gpu_facts.quantities import Resources, add, resources
from gpu_facts.resources import GPU
from gpu_preflight.model.cluster import Observation, Pool, PoolKind
from gpu_preflight.model.label_values import LabelValues, exactly
from gpu_preflight.model.pod import Workload, read_pod
from gpu_preflight.model.taints import Taint, object_taints
from gpu_preflight.reading.objects import Object, Part, Unread
from gpu_preflight.reading.unknown import dig, known_text, mapping, mappings

_ENDED = ("Succeeded", "Failed")
_DAEMON = "DaemonSet"
# Owner kinds may form a chain, such as JobSet, Job, Pod. A longer chain is a loop.
_LONGEST_CHAIN = 8
_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_NOT_READY = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
# The parts of a pod's spec that decide its requests.
_OF_REQUESTS = ("containers", "initContainers", "resources", "overhead")
_POOLS: frozenset[Part] = frozenset(("pools",))


class RunningCluster:
    """Existing nodes and pods in the input.

    Args:
        objects: Every object of one cluster.
    """

    def __init__(self, objects: Iterable[Object]) -> None:
        self._objects = list(objects)

    @cached_property
    def nodes(self) -> list[Object]:
        """Its nodes, including Node objects that weren't read from an API server."""
        return [each for each in self._objects if each.kind == "Node" and not each.group]

    @cached_property
    def placed_pods(self) -> list[Object]:
        """Its pods that have a node and haven't ended."""
        pods = (each for each in self._objects if each.kind == "Pod" and not has_ended(each))
        return [each for each in pods if known_text(each.spec.get("nodeName")) in self._node_names]

    @cached_property
    def _node_names(self) -> frozenset[str]:
        return frozenset(each.name for each in self.nodes)

    @cached_property
    def _objects_by_identity(self) -> dict[tuple[str, str, str], Object]:
        return {(each.kind, each.namespace, each.name): each for each in self._objects}

    def owner(self, each: Object) -> Object | None:
        """Return the object of the input that created another object."""
        references = mappings(dig(each.content, "metadata", "ownerReferences"))
        controllers = [one for one in references if one.get("controller") is True] or references
        keys = ((str(one.get("kind")), each.namespace, str(one.get("name"))) for one in controllers)
        return next((found for key in keys if (found := self._objects_by_identity.get(key)) is not None), None)

    def root(self, each: Object) -> Object:
        """Return the first object of the chain of owners that is in the input."""
        for _ in range(_LONGEST_CHAIN):
            above = self.owner(each)
            if above is None:
                return each
            each = above
        return each

    @cached_property
    def _pods_by_root(self) -> dict[int, list[Object]]:
        """Pods that haven't ended, by the id of the first object of their chain of owners."""
        found: dict[int, list[Object]] = {}
        for each in self._objects:
            if each.kind == "Pod" and not has_ended(each):
                found.setdefault(id(self.root(each)), []).append(each)
        return found

    def demands(self, workloads: Iterable[Workload]) -> Iterator[Workload]:
        """Yield each workload with its number of pods that have a node, and the scheduler's message about the rest."""
        left = {key: list(pods) for key, pods in self._pods_by_root.items()}
        for each in workloads:
            pods = left.get(id(each.owner))
            if not pods:
                yield each
                continue
            own = [one for one in pods if _is_like(one, each)][: each.replicas]
            left[id(each.owner)] = [one for one in pods if one not in own]
            placed = sum(self._has_node(one) for one in own)
            message = next((text for one in own if (text := _unscheduled(one))), "")
            yield replace(each, placed=placed, unscheduled=message) if placed or message else each

    def _has_node(self, pod: Object) -> bool:
        """Whether a pod is on a node. A manifest may name a missing node, but a pod with a phase is on its node."""
        name = known_text(pod.spec.get("nodeName"))
        return name is not None and (name in self._node_names or dig(pod.content, "status", "phase") is not None)

    @cached_property
    def _used(self) -> dict[str, tuple[Resources, ...]]:
        """Resources that the pods of each node use, by the name of the node."""
        found: dict[str, tuple[Resources, ...]] = {}
        read: dict[str, Resources] = {}
        for each in self.placed_pods:
            # Pods of one owner differ in other parts of their spec only.
            parts = {part: each.spec[part] for part in _OF_REQUESTS if part in each.spec}
            key = repr(parts)
            if key not in read:
                read[key] = read_pod(parts).requests
            name = str(each.spec.get("nodeName"))
            found[name] = (*found.get(name, ()), read[key])
        return found

    def pools(self, written: Iterable[Pool]) -> tuple[Pool, ...]:
        """Return running nodes as pools of nodes that are alike, and the groups that may get fresh nodes of their kind.

        Args:
            written: The pools of the input, whose growth is known.
        """
        alike: dict[str, list[Object]] = {}
        for each in self.nodes:
            alike.setdefault(self._likeness(each), []).append(each)
        running = tuple(self._running(nodes) for nodes in alike.values())
        known = {each.name for each in written} | {each.resource.path for each in written if each.resource}
        groups = {each.name: each for each in map(_fresh, self.nodes) if each is not None and each.name not in known}
        return (*running, *groups.values())

    def unread(self, written: Iterable[Pool]) -> Iterator[Unread]:
        """Yield the NodePools of running nodes that are not in the input, so that their limits are unknown."""
        known = {each.name for each in written}
        for name, each in {_pool_label(each): each for each in self.nodes}.items():
            if name is not None and name not in known:
                yield Unread(each.origin, f"NodePool {name} of running nodes isn't in the input", _POOLS)

    def with_use(self, pools: Iterable[Pool]) -> Iterator[Pool]:
        """Yield pools with the part of their limits that running nodes use."""
        reported = {each.name: mapping(dig(each.content, "status", "resources")) for each in self._node_pools}
        for pool in pools:
            label = _group_label if pool.is_group else _pool_label
            nodes = [each for each in self.nodes if label(each) == pool.name]
            status = mapping(reported.get(pool.name)) if not pool.is_group else {}
            used = resources(status) if status else add(*map(_capacity, nodes))
            if not used:
                yield pool
                continue
            # Its running nodes are separate pools.
            taken = {"nodes": len(nodes), **used}
            yield replace(pool, min_nodes=0 if nodes else pool.min_nodes, in_use=taken)

    @property
    def _node_pools(self) -> list[Object]:
        return [each for each in self._objects if each.kind == "NodePool"]

    def _likeness(self, node: Object) -> str:
        labels = {key: value for key, value in node.labels.items() if key != HOSTNAME}
        free = sorted(self.free(node).items())
        return repr((sorted(labels.items(), key=str), _taints(node), sorted(_allocatable(node).items()), free))

    def free(self, node: Object) -> Resources:
        """Return the allocatable resources of a node that its pods don't request, in base units."""
        have = _allocatable(node)
        taken = add(*self._used.get(node.name, ()))
        return {name: amount - taken.get(name, 0) for name, amount in have.items()}

    def _running(self, nodes: list[Object]) -> Pool:
        first = nodes[0]
        have, free = _allocatable(first), self.free(first)
        group = _pool_label(first) or _group_label(first)
        names = f"{len(nodes)} running nodes" if len(nodes) > 1 else f"running node {first.name}"
        # If the input has no pods, it isn't known how much of the nodes is free.
        least = free if self.placed_pods else dict.fromkeys(have, 0)
        return _pool(
            f"{names} of {group}" if group else names,
            "observed",
            first,
            Observation(have, least, free, tuple(each.name for each in nodes)),
            len(nodes),
        )


def has_ended(pod: Object) -> bool:
    """Whether a pod has ended and uses no resources."""
    return dig(pod.content, "status", "phase") in _ENDED


def is_finished(each: Object) -> bool:
    """Whether a pod or job has ended and needs no resources."""
    conditions = mappings(dig(each.content, "status", "conditions"))
    ended = any(one.get("type") in ("Complete", "Failed") and one.get("status") == "True" for one in conditions)
    return has_ended(each) if each.kind == "Pod" else each.kind == "Job" and ended


def _unscheduled(pod: Object) -> str:
    """Return the scheduler's message about a pod without a node; empty if there is none."""
    conditions = mappings(dig(pod.content, "status", "conditions"))
    refused = (
        one for one in conditions if one.get("type") == "PodScheduled" and str(one.get("status")).lower() == "false"
    )
    found = next(refused, None)
    if found is None or pod.spec.get("nodeName") is not None:
        return ""
    return known_text(found.get("message")) or known_text(found.get("reason")) or "PodScheduled is False"


def _is_like(pod: Object, workload: Workload) -> bool:
    """Whether a pod belongs to this role of its owner: both request the same devices."""
    if workload.owner.kind == "Pod":
        return True
    devices = {name: amount for name, amount in workload.pod.requests.items() if "/" in name}
    own = {name: amount for name, amount in read_pod(pod.spec).requests.items() if "/" in name}
    return own == devices


def _pool_label(node: Object) -> str | None:
    return known_text(node.labels.get(NODE_POOL))


def _group_label(node: Object) -> str | None:
    return known_text(node.labels.get(NODE_GROUP))


def _allocatable(node: Object) -> dict[str, int]:
    return resources(dig(node.content, "status", "allocatable") or dig(node.content, "status", "capacity"))


def _capacity(node: Object) -> dict[str, int]:
    """Return the amounts that a node counts against the limits of its NodePool.

    Until its device plugin advertises GPUs, Karpenter counts the GPUs of the instance type.
    """
    have = resources(dig(node.content, "status", "capacity") or dig(node.content, "status", "allocatable"))
    row = catalogue().get(str(node.labels.get(INSTANCE_TYPE)))
    return have if row is None else {**have, GPU: max(have.get(GPU, 0), row.ec2_gpus)}


def _taints(node: Object) -> tuple[Taint, ...]:
    found = object_taints(node.spec.get("taints"))
    keys = {each.key for each in found}
    conditions = mappings(dig(node.content, "status", "conditions"))
    ready = next((one.get("status") for one in conditions if one.get("type") == "Ready"), "True")
    if node.spec.get("unschedulable") is True and _UNSCHEDULABLE.key not in keys:
        found = (*found, _UNSCHEDULABLE)
    if ready != "True" and _NOT_READY.key not in keys:
        found = (*found, _NOT_READY)
    return found


def _fresh(node: Object) -> Pool | None:
    """Return the group of a running node, which its autoscaler may scale up; ``None`` for nodes of Karpenter."""
    if _pool_label(node) is not None or not node.labels:
        return None
    group = _group_label(node)
    kind: PoolKind = "managed" if group else "self-managed"
    have = _allocatable(node)
    name = group or f"the group of {node.name}"
    return replace(_pool(name, kind, node, Observation(have, have, have, ()), None), min_nodes=0)


def _pool(name: str, kind: PoolKind, node: Object, observed: Observation, count: int | None) -> Pool:
    labels: dict[str, Any] = {key: exactly(str(value)) for key, value in node.labels.items() if key != HOSTNAME}
    if observed.names:
        labels[HOSTNAME] = LabelValues(frozenset(observed.names))
    zone, instance_type = known_text(node.labels.get(ZONE)), known_text(node.labels.get(INSTANCE_TYPE))
    return Pool(
        name=name,
        kind=kind,
        origin=node.origin,
        instance_types=(instance_type,) if instance_type else (),
        labels=labels,
        taints=_taints(node) if observed.names else _lasting(_taints(node)),
        zones=(zone,) if zone else (),
        min_nodes=count,
        max_nodes=count,
        observed=observed,
    )


def _lasting(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """Return the taints without those that a fresh node of the same kind wouldn't have."""
    return tuple(each for each in taints if each.key not in (_UNSCHEDULABLE.key, _NOT_READY.key))
