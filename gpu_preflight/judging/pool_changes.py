"""Changes of pools: whether each is replaced, which workloads are evicted, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from gpu_facts.light import dataclass
from gpu_facts.schemas import replacement_properties
from gpu_preflight.cluster.images import ami_alias
from gpu_preflight.judging.cluster_changes import VERSIONS, rejected_combination
from gpu_preflight.judging.deployed import differ, leaf_changes, moved
from gpu_preflight.judging.explain import Explanation
from gpu_preflight.judging.pool_costs import PoolCost
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool, PoolKind
from gpu_preflight.model.label_values import requirement
from gpu_preflight.reading.eksctl.recognition import is_of_eksctl
from gpu_preflight.reading.unknown import dig, items, mappings
from gpu_preflight.scheduling.verdict import Result, Verdict

Change = Literal["refused", "added", "removed", "replaced", "changed"]
# The property of a NodePool that describes its nodes.
_TEMPLATE = "template"
_DRIFTS = "nodes drift and are replaced as the budgets allow"
_ROLLS = "rolls its nodes"
_NO_NODES = ("0", "0%", 0)
_EFFECTS = {
    "managed": _ROLLS,
    "self-managed": "new nodes only, unless the group refreshes its instances",
}
# The properties that eksctl changes in an existing group, and the text for all other properties.
# Source: https://docs.aws.amazon.com/eks/latest/eksctl/faq.md (2026-11)
_SIZES = ("ScalingConfig", "MinSize", "MaxSize", "DesiredCapacity")
_LEFT_BY_EKSCTL = "eksctl doesn't change this in an existing group; create a group with another name"
_QUIET = {"managed": ("LaunchTemplate",), "self-managed": ("LaunchTemplate",), "karpenter": (), "auto-mode": ()}
_PoolKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Evicted:
    """A workload that loses pods when nodes of a pool are drained, or may.

    Attributes:
        workload: Its name.
        pods: Number of its pods in the pool, if each runs in the nearest pool that takes it; ``None`` if the pool may
            take them, and it isn't known whether it has them.
        after: Its result after the change; ``None`` if it is removed.
    """

    workload: str
    pods: int | None
    after: Result | None


@dataclass(frozen=True, slots=True)
class PoolChange:
    """The effect of a change on a pool.

    Attributes:
        cluster: Name of its cluster.
        name: Its name.
        kind: The component that launches its nodes.
        change: The effect. ``replaced`` drains its nodes, and ``refused`` fails the deployment.
        details: The differences, one line each.
        drains: Whether its running nodes are drained: it is replaced or removed, or its nodes are replaced.
        max_nodes: Most nodes that it has before; ``None`` without a known bound.
        evicted: The workloads with GPUs whose pods are on those nodes, or may be.
    """

    cluster: str
    name: str
    kind: PoolKind
    change: Change
    details: tuple[str, ...] = ()
    drains: bool = False
    max_nodes: int | None = None
    evicted: tuple[Evicted, ...] = ()


def pool_changes(old: Iterable[Cluster], new: Iterable[Cluster]) -> tuple[PoolChange, ...]:
    """Return the changes of all pools, replaced ones first."""
    clusters = list(old), list(new)
    before, after = map(pools_by_key, clusters)
    versions = [{each.title: each.version for each in side} for side in clusters]
    found = [
        change
        for key in dict.fromkeys((*before, *after))
        if (change := _change(key, before.get(key), after.get(key), *(each.get(key[0]) for each in versions)))
    ]
    order = ("refused", "replaced", "removed", "changed", "added")
    return tuple(sorted(_renamed(found, before, after), key=lambda each: (order.index(each.change), each.name)))


def pools_by_key(clusters: Iterable[Cluster]) -> dict[_PoolKey, Pool]:
    """Return all pools by the key that identifies a pool in two inputs."""
    return {pool_key(cluster, pool): pool for cluster in clusters for pool in cluster.pools}


def pool_key(cluster: Cluster, pool: Pool) -> _PoolKey:
    """Return the key that identifies a pool in two inputs."""
    return cluster.title, pool.kind, pool.resource.key if pool.resource else pool.name


def _change(key: _PoolKey, before: Pool | None, after: Pool | None, *versions: str | None) -> PoolChange | None:
    pool = after or before
    if pool is None:  # pragma: no cover
        return None
    if before is None:
        return PoolChange(key[0], pool.name, pool.kind, "added", _summary(pool))
    if after is None:
        left = pool.resource is not None and is_of_eksctl(pool.resource)
        fate = "eksctl leaves its nodes until you delete them" if left else "its nodes are drained"
        details = [*_summary(pool), fate]
        return PoolChange(
            key[0], pool.name, pool.kind, "removed", tuple(details), drains=not left, max_nodes=before.max_nodes
        )
    replacing = properties_requiring_replacement(before, after)
    details = [*_differences(before, after, replacing), *_launch_differences(before, after)]
    details += _other_image(after, *versions)
    if not details:
        return None
    if not replacing and (apart := _rejected_changes(before, after)):
        return PoolChange(key[0], pool.name, pool.kind, "refused", (apart, *details))
    drains = bool(replacing) or any(each.endswith((f"({_ROLLS})", f"({_DRIFTS})")) for each in details)
    change: Change = "replaced" if replacing else "changed"
    return PoolChange(key[0], pool.name, pool.kind, change, tuple(details), drains=drains, max_nodes=before.max_nodes)


def _other_image(pool: Pool, before: str | None, after: str | None) -> list[str]:
    """Return the line about nodes that drift to the image of another Kubernetes version; empty if they don't.

    For an alias, Karpenter looks up the image of the cluster's version.

    Source, read 2026-11: https://karpenter.sh/v1.15/tasks/managing-amis/ (alias), and for Auto Mode
    https://docs.aws.amazon.com/eks/latest/userguide/auto-upgrade.html
    """
    follows = pool.kind == "auto-mode" or (pool.kind == "karpenter" and ami_alias(pool) is not None)
    if not follows or before is None or after is None or before == after:
        return []
    return [f"{moved('image of Kubernetes', before, after)} ({_drifts(pool)})"]


def _drifts(pool: Pool) -> str:
    """Return the effect on nodes that drift, which depends on the budgets of their NodePool.

    Source, read 2026-11: https://karpenter.sh/v1.15/concepts/disruption/#nodepool-disruption-budgets
    """
    # A budget whose reasons are unknown may allow drift, so the nodes count as replaced.
    closed = [
        items(each.reasons)
        for each in pool.budgets
        if each.nodes in _NO_NODES and each.schedule is None and isinstance(each.reasons, (list, type(None)))
    ]
    if not any(not reasons or "Drifted" in reasons for reasons in closed):
        return _DRIFTS
    if any(not reasons or "Empty" in reasons for reasons in closed):
        return "nodes drift and stay: the budgets for drift and for empty nodes are 0"
    return "nodes drift; the budget for drift is 0: a node is replaced when it is empty"


def _rejected_changes(before: Pool, after: Pool) -> str:
    """Return the changes of a managed group that CloudFormation rejects in one deployment; empty if it accepts all."""
    if after.kind != "managed" or after.resource is None or is_of_eksctl(after.resource):
        return ""
    launch_changes = bool(_launch_differences(before, after))
    return rejected_combination(before.properties, after.properties, launch_changes=launch_changes)


def _renamed(
    changes: list[PoolChange], before: Mapping[_PoolKey, Pool], after: Mapping[_PoolKey, Pool]
) -> list[PoolChange]:
    """Merge a removed and an added pool of one name into a replaced one: its logical id changes, and nodes drain."""
    gone = {(each.cluster, each.name, each.kind): each for each in changes if each.change == "removed"}
    come = {(each.cluster, each.name, each.kind) for each in changes if each.change == "added"}
    both = {key: each for key, each in gone.items() if key in come}
    kept = [each for each in changes if (each.cluster, each.name, each.kind) not in both]
    detail = "its logical id changes, so a new group is made and the old one drained"
    moved_pools = (replace(each, change="replaced", details=(detail,), drains=True) for _, each in sorted(both.items()))
    return [*kept, *moved_pools]


def _summary(pool: Pool) -> tuple[str, ...]:
    types = ", ".join(pool.instance_types)
    bounds = f"at most {pool.max_nodes} nodes" if pool.max_nodes is not None else ""
    limits = ", ".join(f"limit {amount} {name}" for name, amount in pool.limits.items())
    return tuple(each for each in (types, bounds, limits) if each)


def properties_requiring_replacement(before: Pool, after: Pool) -> list[str]:
    """Return the properties that differ and for which CloudFormation replaces the group."""
    fixed = replacement_properties(after.resource.type) if after.resource else ()
    if after.resource and is_of_eksctl(after.resource):
        return []
    return [name for name in fixed if differ(before.properties.get(name), after.properties.get(name))]


def _differences(before: Pool, after: Pool, replacing: list[str]) -> list[str]:
    quiet = _QUIET.get(after.kind, ())
    names = [each for each in dict.fromkeys((*before.properties, *after.properties)) if each not in quiet]
    found = []
    for name in names:
        old, new = before.properties.get(name), after.properties.get(name)
        if differ(old, new):
            found += [
                f"{each} ({_consequence(name, before, after, replacing)})"
                for each in leaf_changes(name, old, new, joint=" ")
            ]
    return found


def _consequence(name: str, before: Pool, pool: Pool, replacing: list[str]) -> str:
    if pool.resource is not None and is_of_eksctl(pool.resource):
        return "in place" if name in _SIZES else _LEFT_BY_EKSCTL
    if name in replacing:
        return "replaces the group: a new one is made, then the old one is drained"
    if pool.kind == "managed" and name in VERSIONS:
        return _ROLLS
    if not pool.is_group and name == _TEMPLATE and nodes_drift(before.properties.get(name), pool.properties.get(name)):
        return _drifts(pool)
    return "in place"


def nodes_drift(before: Any, after: Any) -> bool:
    """Return whether Karpenter replaces the nodes that a NodePool's template made, if it becomes another template.

    Nodes that still meet the new requirements stay. They meet a requirement that isn't known only if it is unchanged.

    Source: kubernetes-sigs/karpenter v1.15.0 pkg/controllers/nodeclaim/disruption/drift.go (areRequirementsDrifted),
    and pkg/apis/v1/nodepool.go: the hash of a template doesn't contain its requirements
    """
    listed = [dig(each, "spec", "requirements") for each in (before, after)]
    if not all(isinstance(each, list) and len(mappings(each)) == len(each) for each in listed):
        return differ(before, after)
    rest = [{**each, "spec": {**each["spec"], "requirements": None}} for each in (before, after)]
    pairs = [[(one, requirement(one)) for one in mappings(side)] for side in listed]
    return differ(*rest) or not all(
        any(not differ(old, new) or one.implies(other) for old, one in pairs[0]) for new, other in pairs[1]
    )


def _launch_differences(before: Pool, after: Pool) -> list[str]:
    of_eksctl = after.resource is not None and is_of_eksctl(after.resource)
    effect = _LEFT_BY_EKSCTL if of_eksctl else _EFFECTS.get(after.kind) or _drifts(after)
    old, new = before.launch.written, after.launch.written
    names = dict.fromkeys((*old, *new))
    return [
        f"{line} ({effect})"
        for name in names
        if differ(old.get(name), new.get(name))
        for line in leaf_changes(name, old.get(name), new.get(name), joint=" ")
    ]


def with_evicted(
    change: PoolChange, costs: Iterable[PoolCost], old: Sequence[Explanation], new: Sequence[Explanation]
) -> PoolChange:
    """Return a change of a pool with its most nodes before and the workloads that lose pods by it."""
    if not change.drains:
        return change
    key = change.cluster, change.name
    most = next((each.max_nodes for each in costs if (each.cluster, each.pool) == key), change.max_nodes)
    results = {
        each.workload.name: each.result for one in new if one.case.cluster.title == key[0] for each in one.verdicts
    }
    pods: dict[str, int | None] = {}
    for one in old:
        for pool in (each for each in one.case.cluster.pools if _is_changed(each, one, change)):
            pods |= {each.workload.name: None for each in one.verdicts if _may_use(each, pool)}
            placed = [use.pods for use in one.packing.uses if use.pool is pool]
            pods |= {name: count for each in placed for name, count in each.items() if count}
    evicted = tuple(Evicted(name, count, results.get(name)) for name, count in pods.items())
    return replace(change, max_nodes=most, evicted=evicted)


def _is_changed(pool: Pool, explanation: Explanation, change: PoolChange) -> bool:
    """Whether a change is about a pool."""
    return (explanation.case.cluster.title, pool.name, pool.kind) == (change.cluster, change.name, change.kind)


def _may_use(verdict: Verdict, pool: Pool) -> bool:
    """Whether a pool may have pods of a workload."""
    if verdict.workload.replicas == 0 or verdict.workload.is_daemon_set or verdict.answer is Answer.NO:
        return False
    return any(each.pool is pool and each.answer is not Answer.NO for each in verdict.pools)
