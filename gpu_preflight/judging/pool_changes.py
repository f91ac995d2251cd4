"""What becomes of pools between two inputs: which are made anew, and whose nodes are drained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from gpu_facts.light_dataclasses import dataclass
from gpu_facts.schemas import created_with
from gpu_preflight.cluster.images import alias_of
from gpu_preflight.judging.group_updates import VERSIONS, rejected_combination
from gpu_preflight.judging.written import differ, leaf_changes, moved
from gpu_preflight.model.cluster import Cluster, Pool, PoolKind
from gpu_preflight.reading.eksctl.resources import is_of_eksctl
from gpu_preflight.reading.unknown import dig, items, mappings

Change = Literal["refused", "added", "removed", "replaced", "changed"]
# What nodes of Karpenter drift for.
_DRIFTING = ("template",)
_DRIFTS = "nodes drift and are replaced as the budgets allow"
_NO_NODES = ("0", "0%", 0)
_EFFECTS = {
    "managed": "rolls its nodes",
    "self-managed": "new nodes only, unless the group refreshes its instances",
}
# What eksctl changes of a group that is there, and what it says of the rest.
# Source: https://docs.aws.amazon.com/eks/latest/eksctl/faq.md (2026-11)
_SIZES = ("ScalingConfig", "MinSize", "MaxSize", "DesiredCapacity")
_LEFT_BY_EKSCTL = "eksctl changes nothing of a group that is there; make one of another name"
_QUIET = {"managed": ("LaunchTemplate",), "self-managed": ("LaunchTemplate",), "karpenter": (), "auto-mode": ()}


@dataclass(frozen=True, slots=True)
class PoolChange:
    """What becomes of a pool.

    Attributes:
        cluster: Name of its cluster.
        name: Its name.
        kind: Who makes its nodes.
        change: What becomes of it; one that is replaced drains its nodes, and one that is refused fails the deployment.
        details: What differs, one line each.
    """

    cluster: str
    name: str
    kind: PoolKind
    change: Change
    details: tuple[str, ...] = ()


def pool_changes(old: Iterable[Cluster], new: Iterable[Cluster]) -> tuple[PoolChange, ...]:
    """Return what becomes of every pool, replaced ones first."""
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


_Key = tuple[str, str, str]


def pools_by_key(clusters: Iterable[Cluster]) -> dict[_Key, Pool]:
    """Return every pool by what makes it the same pool in two inputs."""
    return {pool_key(cluster, pool): pool for cluster in clusters for pool in cluster.pools}


def pool_key(cluster: Cluster, pool: Pool) -> _Key:
    """Return what makes a pool the same in two inputs."""
    return cluster.title, pool.kind, pool.resource.key if pool.resource else pool.name


def _change(key: _Key, before: Pool | None, after: Pool | None, *versions: str | None) -> PoolChange | None:
    pool = after or before
    if pool is None:  # pragma: no cover
        return None
    if before is None:
        return PoolChange(key[0], pool.name, pool.kind, "added", _summary(pool))
    if after is None:
        left = pool.resource is not None and is_of_eksctl(pool.resource)
        fate = "eksctl leaves its nodes until somebody deletes them" if left else "its nodes are drained"
        return PoolChange(key[0], pool.name, pool.kind, "removed", (*_summary(pool), fate))
    replacing = made_anew(before, after)
    details = [*_differences(before, after, replacing), *_launch_differences(before, after)]
    details += _other_image(after, *versions)
    if not details:
        return None
    if not replacing and (apart := _made_apart(before, after)):
        return PoolChange(key[0], pool.name, pool.kind, "refused", (apart, *details))
    return PoolChange(key[0], pool.name, pool.kind, "replaced" if replacing else "changed", tuple(details))


def _other_image(pool: Pool, before: str | None, after: str | None) -> list[str]:
    """Return that nodes drift to the image of another Kubernetes version, which Karpenter looks up for an alias.

    Source, read 2026-11: https://karpenter.sh/v1.15/tasks/managing-amis/ (alias), and for Auto Mode
    https://docs.aws.amazon.com/eks/latest/userguide/auto-upgrade.html
    """
    follows = pool.kind == "auto-mode" or (pool.kind == "karpenter" and alias_of(pool) is not None)
    if not follows or before is None or after is None or before == after:
        return []
    return [f"{moved('image of Kubernetes', before, after)} ({_drifts(pool)})"]


def _drifts(pool: Pool) -> str:
    """Return what happens to nodes that drift, by the budgets of their NodePool.

    Source, read 2026-11: https://karpenter.sh/v1.15/concepts/disruption/#nodepool-disruption-budgets
    """
    closed = [
        items(each.get("reasons"))
        for each in mappings(dig(dict(pool.properties), "disruption", "budgets"))
        if each.get("nodes") in _NO_NODES and each.get("schedule") is None
    ]
    if not any(not reasons or "Drifted" in reasons for reasons in closed):
        return _DRIFTS
    if any(not reasons or "Empty" in reasons for reasons in closed):
        return "nodes drift and stay: the budgets for drift and for empty nodes are 0"
    return "nodes drift; the budget for drift is 0: a node is replaced when it is empty"


def _made_apart(before: Pool, after: Pool) -> str:
    """Return which changes of a managed group CloudFormation rejects in one deployment; empty where it accepts all."""
    if after.kind != "managed" or after.resource is None or is_of_eksctl(after.resource):
        return ""
    launch_changes = bool(_launch_differences(before, after))
    return rejected_combination(before.properties, after.properties, launch_changes=launch_changes)


def _renamed(changes: list[PoolChange], before: Mapping[_Key, Pool], after: Mapping[_Key, Pool]) -> list[PoolChange]:
    """Join a pool that goes and one that comes under its name: its logical id changed, so its nodes are drained."""
    gone = {(each.cluster, each.name, each.kind) for each in changes if each.change == "removed"}
    come = {(each.cluster, each.name, each.kind) for each in changes if each.change == "added"}
    both = gone & come
    kept = [each for each in changes if (each.cluster, each.name, each.kind) not in both]
    detail = "its logical id changes, so a new group is made and the old one drained"
    return [*kept, *(PoolChange(*each, "replaced", (detail,)) for each in sorted(both))]


def _summary(pool: Pool) -> tuple[str, ...]:
    types = ", ".join(pool.instance_types)
    bounds = f"at most {pool.max_nodes} nodes" if pool.max_nodes is not None else ""
    limits = ", ".join(f"limit {amount} {name}" for name, amount in pool.limits.items())
    return tuple(each for each in (types, bounds, limits) if each)


def made_anew(before: Pool, after: Pool) -> list[str]:
    """Return the properties that differ and that CloudFormation changes by making another group."""
    fixed = created_with(after.resource.type) if after.resource else ()
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
                f"{each} ({_consequence(name, after, replacing)})" for each in leaf_changes(name, old, new, joint=" ")
            ]
    return found


def _consequence(name: str, pool: Pool, replacing: list[str]) -> str:
    if pool.resource is not None and is_of_eksctl(pool.resource):
        return "in place" if name in _SIZES else _LEFT_BY_EKSCTL
    if name in replacing:
        return "replaces the group: a new one is made, then the old one is drained"
    if pool.kind == "managed" and name in VERSIONS:
        return "rolls its nodes"
    if not pool.is_group and name in _DRIFTING:
        return _drifts(pool)
    return "in place"


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
