"""What becomes of control planes between two inputs: which are made anew, and which versions EKS does not go to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from gpu_constructs.facts.schemas import created_with
from gpu_constructs.preflight.judging.written import differ, moved
from gpu_constructs.preflight.model.cluster import Cluster
from gpu_constructs.preflight.reading.cloudformation import Resource
from gpu_constructs.preflight.reading.eksctl.resources import is_of_eksctl
from gpu_constructs.preflight.reading.unknown import dig, known_text

Change = Literal["replaced", "renamed", "refused", "rolled back"]
_MODES = ("CONFIG_MAP", "API_AND_CONFIG_MAP", "API")
_MINOR = re.compile(r"1\.(\d{1,3})")


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """What becomes of a cluster.

    Attributes:
        cluster: Its name.
        change: Whether another one is made in its place, or beside it under a new name; whether EKS refuses it, or
            rolls the control plane back.
        detail: What differs, and what it means.
    """

    cluster: str
    change: Change
    detail: str


def cluster_changes(old: Iterable[Cluster], new: Iterable[Cluster]) -> tuple[ClusterChange, ...]:
    """Return what becomes of clusters that both inputs have."""
    before, after = _resources(old), _resources(new)
    # One that is replaced is called as before: that is the one that is lost.
    found = ((before[key][0], _changes(before[key][1], each)) for key, (_, each) in after.items() if key in before)
    changes = tuple(ClusterChange(name, change, detail) for name, each in found for change, detail in each)
    return (*_renamed(before, after), *changes)


def _renamed(
    before: Mapping[str, tuple[str, Resource]], after: Mapping[str, tuple[str, Resource]]
) -> Iterator[ClusterChange]:
    """Yield the one cluster of eksctl that goes where one of another name comes: eksctl knows clusters by name."""
    gone = [name for key, (name, each) in before.items() if key not in after and is_of_eksctl(each)]
    come = [name for key, (name, each) in after.items() if key not in before and is_of_eksctl(each)]
    if len(gone) == len(come) == 1:
        detail = f"metadata.name: {gone[0]} -> {come[0]}; eksctl makes another cluster and leaves this one as it is"
        yield ClusterChange(gone[0], "renamed", detail)


def _resources(clusters: Iterable[Cluster]) -> Mapping[str, tuple[str, Resource]]:
    return {each.resource.key: (each.name, each.resource) for each in clusters if each.resource}


def _changes(before: Resource, after: Resource) -> list[tuple[Change, str]]:
    """Return what becomes of one cluster; another one starts at whatever version it has."""
    found: list[tuple[Change, str]] = []
    for path in created_with(after.type):
        old, new = (dig(dict(each.properties), *path.split("/")) for each in (before, after))
        if differ(old, new):
            found.append(("replaced", f"{moved(path, old, new)}; what runs in the old one is gone"))
    return found or [*_step(_minor(before), _minor(after)), *_authentication(before, after)]


def _authentication(before: Resource, after: Resource) -> Iterator[tuple[Change, str]]:
    """Yield a way to authenticate that EKS does not go back to.

    Source, read 2026-11: https://docs.aws.amazon.com/eks/latest/userguide/setting-up-access-entries.html
    """
    old, new = (
        known_text(dig(dict(each.properties), "AccessConfig", "AuthenticationMode")) for each in (before, after)
    )
    if old in _MODES and new in _MODES and _MODES.index(new) < _MODES.index(old):
        yield "refused", f"AuthenticationMode: {old} -> {new}; EKS does not go back from access entries"


def _step(old: int | None, new: int | None) -> Iterator[tuple[Change, str]]:
    """Yield what EKS makes of another version.

    Source, read 2026-11: https://docs.aws.amazon.com/eks/latest/userguide/update-cluster.html and rollback-cluster.html
    """
    if old is None or new is None:
        return
    text = f"Version: 1.{old} -> 1.{new}"
    if new > old + 1:
        yield "refused", f"{text}; EKS goes up one minor version at a time, so deploy 1.{old + 1} first"
    elif new < old - 1:
        yield "refused", f"{text}; EKS goes back one minor version at most"
    elif new == old - 1:
        yield "rolled back", f"{text}; EKS does it within 7 days of the upgrade, once the nodes are at 1.{new}"


def _minor(resource: Resource) -> int | None:
    found = _MINOR.fullmatch(known_text(resource.properties.get("Version")) or "")
    return int(found[1]) if found else None
