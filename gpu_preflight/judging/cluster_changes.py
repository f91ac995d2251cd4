"""What becomes of control planes between two inputs: which are made anew, and what EKS refuses or does too early."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Literal

from gpu_facts.kubernetes_support import LEAST_KARPENTER, SUPPORT
from gpu_facts.light_dataclasses import dataclass
from gpu_facts.light_patterns import regex
from gpu_facts.schemas import created_with
from gpu_facts.today import today
from gpu_preflight.judging.written import differ, moved
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.eksctl.resources import is_of_eksctl
from gpu_preflight.reading.unknown import dig, is_true, known_text

Change = Literal["replaced", "renamed", "refused", "rolled back", "too early"]
_MODES = ("CONFIG_MAP", "API_AND_CONFIG_MAP", "API")
# EKS began with 1.10; of a 1.30 that YAML read as a number 1.3 is left.
_MINOR = regex(r"1\.(\d{2,3})")
_GONE = "what runs in the old one is gone"


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """What becomes of a cluster.

    Attributes:
        cluster: Its name.
        change: Whether another one is made in its place, or beside it under a new name; whether EKS refuses it, or
            rolls the control plane back; whether something must be upgraded before it.
        detail: What differs, and what it means.
    """

    cluster: str
    change: Change
    detail: str


def cluster_changes(old: Iterable[Cluster], new: Iterable[Cluster]) -> tuple[ClusterChange, ...]:
    """Return what becomes of clusters that both inputs have."""
    before, after = _by_key(old), _by_key(new)
    # One that is replaced is called as before: that is the one that is lost.
    found = ((before[key].name, _changes(before[key], each)) for key, each in after.items() if key in before)
    changes = tuple(ClusterChange(name, change, detail) for name, each in found for change, detail in each)
    return (*_renamed(before, after), *changes)


def _renamed(before: Mapping[str, Cluster], after: Mapping[str, Cluster]) -> Iterator[ClusterChange]:
    """Yield the one cluster of eksctl that goes where one of another name comes: eksctl knows clusters by name."""
    gone = [each.name for key, each in before.items() if key not in after and _is_of_eksctl(each)]
    come = [each.name for key, each in after.items() if key not in before and _is_of_eksctl(each)]
    if len(gone) == len(come) == 1:
        detail = f"metadata.name: {gone[0]} -> {come[0]}; eksctl makes another cluster and leaves this one as it is"
        yield ClusterChange(gone[0], "renamed", detail)


def _is_of_eksctl(cluster: Cluster) -> bool:
    return cluster.resource is not None and is_of_eksctl(cluster.resource)


def _by_key(clusters: Iterable[Cluster]) -> Mapping[str, Cluster]:
    return {each.resource.key: each for each in clusters if each.resource}


def _changes(old: Cluster, new: Cluster) -> list[tuple[Change, str]]:
    """Return what becomes of one cluster; another one starts at whatever version it has."""
    before, after = old.resource, new.resource
    if before is None or after is None:
        return []
    found: list[tuple[Change, str]] = []
    gone = "EKS does not delete the old one, whose DeletionProtection is on" if _is_protected(before) else _GONE
    for path in created_with(after.type):
        was, becomes = (dig(dict(each.properties), *path.split("/")) for each in (before, after))
        if differ(was, becomes):
            found.append(("replaced", f"{moved(path, was, becomes)}; {gone}"))
    steps = (_minor(before), _minor(after))
    return found or [
        *version_step(before, after),
        *_support(before, after, *steps),
        *_authentication(before, after),
        *_order(old, *steps),
    ]


def _is_protected(resource: Resource) -> bool:
    """Whether EKS refuses to delete a cluster.

    Source, read 2026-11: https://docs.aws.amazon.com/eks/latest/userguide/deletion-protection.html
    """
    return is_true(resource.properties.get("DeletionProtection"))


def _support(before: Resource, after: Resource, old: int | None, new: int | None) -> Iterator[tuple[Change, str]]:
    """Yield that a cluster leaves extended support otherwise than by an upgrade.

    Source, read 2026-11: https://docs.aws.amazon.com/eks/latest/userguide/disable-extended-support.html
    """
    was, becomes = (dig(dict(each.properties), "UpgradePolicy", "SupportType") for each in (before, after))
    support = SUPPORT.get(f"1.{old}")
    ended = support is not None and today() >= date.fromisoformat(support.standard_ends)
    if ended and old == new and was in (None, "EXTENDED") and becomes == "STANDARD":
        left = f"1.{old} left standard support on {support.standard_ends}" if support else ""
        yield "refused", f"SupportType: EXTENDED -> STANDARD; {left}, so upgrade first"


def _order(cluster: Cluster, old: int | None, new: int | None) -> Iterator[tuple[Change, str]]:
    """Yield the Karpenter that runs and is not for the version to come: its chart is upgraded after the cluster."""
    karpenter = cluster.autoscaler("karpenter")
    least = LEAST_KARPENTER.get(new or 0)
    if karpenter is None or karpenter.version is None or least is None or old is None or new != old + 1:
        return
    runs = minor(karpenter.version)
    if (0, 0) < runs < least:
        needed = f"{least[0]}.{least[1]}"
        text = f"Version: 1.{old} -> 1.{new}; Karpenter {karpenter.version} runs, and 1.{new} needs {needed}"
        yield "too early", f"{text}: deploy that first, by itself"


def _authentication(before: Resource, after: Resource) -> Iterator[tuple[Change, str]]:
    """Yield a way to authenticate that EKS does not go back to.

    Source, read 2026-11: https://docs.aws.amazon.com/eks/latest/userguide/setting-up-access-entries.html
    """
    old, new = (
        known_text(dig(dict(each.properties), "AccessConfig", "AuthenticationMode")) for each in (before, after)
    )
    if old in _MODES and new in _MODES and _MODES.index(new) < _MODES.index(old):
        yield "refused", f"AuthenticationMode: {old} -> {new}; EKS does not go back from access entries"


def version_step(before: Resource, after: Resource) -> Iterator[tuple[Change, str]]:
    """Yield why EKS rejects another version of a cluster, or on which conditions EKS rolls the cluster back.

    Source, read 2026-11: https://docs.aws.amazon.com/eks/latest/userguide/update-cluster.html and rollback-cluster.html
    """
    old, new = _minor(before), _minor(after)
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
