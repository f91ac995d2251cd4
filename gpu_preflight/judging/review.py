"""Two versions of an input compared: pools, workloads and resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from gpu_facts.light import dataclass
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.cluster.images import ami_alias, image_version, pool_image
from gpu_preflight.cluster.network import pool_region
from gpu_preflight.judging.acknowledgements import Acknowledgement
from gpu_preflight.judging.changes import ResourceChange, resource_changes
from gpu_preflight.judging.check import Report, check
from gpu_preflight.judging.cluster_changes import ClusterChange, cluster_changes
from gpu_preflight.judging.explain import Explanation
from gpu_preflight.judging.filters import Filters
from gpu_preflight.judging.pool_changes import (
    PoolChange,
    pool_changes,
    pool_key,
    pools_by_key,
    properties_requiring_replacement,
    with_evicted,
)
from gpu_preflight.judging.pool_costs import PoolCost, pool_costs, uncounted_workloads
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.pod import Workload
from gpu_preflight.reading.folder_files import Skipped
from gpu_preflight.reading.inputs import Input
from gpu_preflight.reading.objects import Unread
from gpu_preflight.reading.unknown import known_text
from gpu_preflight.rule import Finding
from gpu_preflight.scheduling.pool_limits import Ceiling, ceiling
from gpu_preflight.scheduling.verdict import Result, Verdict

_VERSION = "Version"
_FindingKey = tuple[str, str]
_Kind = tuple[str, str, bool, bool]


def keep_deployed_versions(deployed: Iterable[Cluster], written: Iterable[Cluster]) -> tuple[Cluster, ...]:
    """Return clusters as a deployment leaves them: each group that names no version keeps the one that it has.

    EKS gives a group the version of its cluster when it makes the group, and another one only when it is asked for.

    Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html (2026-11): without
    ``version`` the version of the node group does not change.

    Args:
        deployed: The clusters that are there.
        written: What is deployed over them.
    """
    there = tuple(deployed)
    pools, versions = pools_by_key(there), {each.title: each.version for each in there}

    def keep_version(cluster: Cluster, pool: Pool) -> Pool:
        was = pools.get(pool_key(cluster, pool))
        version = image_version(was, versions[cluster.title]) if was and _asks_for_none(was, pool) else None
        # What EKS says to a release of another version is not told.
        stays = version is not None and image_version(pool, version) == version
        return replace(pool, properties={**pool.properties, _VERSION: version}) if stays else pool

    return tuple(replace(each, pools=tuple(keep_version(each, pool) for pool in each.pools)) for each in written)


def _asks_for_none(was: Pool, now: Pool) -> bool:
    """Whether a managed group has its version of EKS, and stays."""
    of_eks = now.kind == "managed" and pool_image(now) is None and pool_image(was) is None
    return (
        of_eks
        and _VERSION not in was.properties
        and _VERSION not in now.properties
        and not properties_requiring_replacement(was, now)
    )


@dataclass(frozen=True, slots=True)
class Move:
    """A version that changes.

    Attributes:
        what: Of what.
        before: The version before; ``None`` where there was none.
        after: The version after; ``None`` where there is none.
    """

    what: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Fate:
    """A workload whose verdict changes.

    Attributes:
        name: Its name, with that of its cluster where there are several.
        before: The verdict before; ``None`` where it was not there.
        after: The verdict after; ``None`` where it is gone.
        before_result: What the verdict before comes to, as `Verdict.result` names it.
        after_result: What the verdict after comes to.
        reason: The nearest reason for the verdict after.
        accepted: Whether somebody accepts an error that is found in it.
    """

    name: str
    before: Answer | None
    after: Answer | None
    before_result: Result | None = None
    after_result: Result | None = None
    reason: str | None = None
    accepted: bool = False


@dataclass(frozen=True, slots=True)
class Review:
    """Everything a reviewer asks of a change.

    Attributes:
        control_planes: Clusters that are replaced, or whose version EKS does not go to.
        pools: Pools that are added, removed, replaced or changed.
        changes: Resources and objects that differ, with what the deployment does to each.
        moves: Versions that change.
        before: The ceiling before.
        after: The ceiling after.
        fates: Workloads whose verdict changes.
        new: Findings that come.
        fixed: Findings that go.
        standing: Findings that stay.
        explained_before: What became of the workloads of each cluster.
        explained_after: What becomes of them.
        selected: Number of rules whose findings are reported; ``None`` for all.
        unselected: Findings of other rules in the new version.
        costs_before: What each GPU pool cost.
        costs_after: What each costs.
        uncounted: Workloads whose nodes aren't counted after the change, because their result isn't known.
        unread: Parts of the new version that can't be read before deployment.
        skipped: Parts of its folders that weren't read.
        unused: Its acknowledgements that accept nothing.
        mistaken: What is wrong with its acknowledgements in metadata, annotations and comments.
    """

    control_planes: tuple[ClusterChange, ...] = ()
    pools: tuple[PoolChange, ...] = ()
    changes: tuple[ResourceChange, ...] = ()
    moves: tuple[Move, ...] = ()
    before: Ceiling = field(default_factory=Ceiling)
    after: Ceiling = field(default_factory=Ceiling)
    fates: tuple[Fate, ...] = ()
    new: tuple[Finding, ...] = ()
    fixed: tuple[Finding, ...] = ()
    standing: tuple[Finding, ...] = ()
    explained_before: tuple[Explanation, ...] = ()
    explained_after: tuple[Explanation, ...] = ()
    selected: int | None = None
    unselected: tuple[Finding, ...] = ()
    costs_before: tuple[PoolCost, ...] = ()
    costs_after: tuple[PoolCost, ...] = ()
    uncounted: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    unused: tuple[Acknowledgement, ...] = ()
    mistaken: tuple[str, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether the change is refused, leaves an error that nobody accepts, or makes a pod Pending."""
        changes = [each.change for each in self.control_planes] + [each.change for each in self.pools]
        if "refused" in changes:
            return True
        if any(each.change == "fails" for each in self.changes):
            return True
        pending = any(each.after is Answer.NO and not each.accepted for each in self.fates)
        return pending or any(each.counts for each in (*self.new, *self.standing))


def review(old: Input, new: Input, filters: Filters | None = None) -> Review:
    """Compare two inputs.

    Args:
        old: The version before.
        new: The version after.
        filters: Findings that are hidden or accepted in both.

    Raises:
        UnusableInput: An acknowledgement names no rule or gives no reason.
    """
    deployed, written = clusters(old), clusters(new)
    before, after = (
        check(old, keep_deployed_versions(deployed, deployed)),
        check(new, keep_deployed_versions(deployed, written)),
    )
    if filters:
        before, after = filters.applied(before), filters.applied(after)
    found = compare_findings(before.findings, after.findings)
    told = [tuple(map(report.explanation, report.cases)) for report in (before, after)]
    costs = tuple(map(pool_costs, told))
    return Review(
        control_planes=cluster_changes(_clusters(before), _clusters(after)),
        pools=tuple(with_evicted(each, costs[0], *told) for each in pool_changes(deployed, written)),
        changes=resource_changes(old, new),
        moves=_moves(before, after),
        before=_ceiling(before),
        after=_ceiling(after),
        fates=_fates(told[0], told[1], _accepted(after)),
        new=found[0],
        fixed=found[1],
        standing=found[2],
        explained_before=told[0],
        explained_after=told[1],
        selected=after.selected,
        unselected=after.unselected,
        costs_before=costs[0],
        costs_after=costs[1],
        uncounted=uncounted_workloads(told[1]),
        unread=after.unread,
        skipped=after.skipped,
        unused=after.unused,
        mistaken=after.mistaken,
    )


def _clusters(report: Report) -> list[Cluster]:
    return [case.cluster for case in report.cases]


def _ceiling(report: Report) -> Ceiling:
    return ceiling(
        (pool, case.nodes(pool), pool_region(pool, case.cluster)) for case in report.cases for pool in case.gpu_pools
    )


def compare_findings(
    before: Iterable[Finding], after: Iterable[Finding]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...], tuple[Finding, ...]]:
    """Return the findings that are new, fixed and the same.

    Findings match by rule, resource and kind: certain, possible or accepted. Their text and the file don't matter. If a
    rule has several findings at a resource, those with the same text are matched first, and then as many as there are.
    """
    left: dict[_Kind, list[Finding]] = {}
    for each in before:
        left.setdefault(_kind(each), []).append(each)
    listed, same = list(after), set[int]()
    for has_same_text in (True, False):
        for index, each in enumerate(listed):
            rest = left.get(_kind(each), []) if index not in same else []
            text = each.problem.message
            place = next((at for at, one in enumerate(rest) if not has_same_text or one.problem.message == text), None)
            if place is not None:
                del rest[place]
                same.add(index)
    new = tuple(each for index, each in enumerate(listed) if index not in same)
    fixed = tuple(each for rest in left.values() for each in rest)
    return new, fixed, tuple(each for index, each in enumerate(listed) if index in same)


def _kind(finding: Finding) -> _Kind:
    return finding.rule.id, finding.problem.origin.path, finding.problem.unknown, finding.acknowledged is not None


def _moves(old: Report, new: Report) -> tuple[Move, ...]:
    before, after = _versions(_clusters(old)), _versions(_clusters(new))
    return tuple(
        Move(what, before.get(what), after.get(what))
        for what in dict.fromkeys((*before, *after))
        if before.get(what) != after.get(what) and _lasts(what, old, new)
    )


def _lasts(what: str, old: Report, new: Report) -> bool:
    """Whether a version belongs to something that is not merely added or removed with its pool."""
    return not what.startswith("pool ") or what in _versions(_clusters(old)).keys() & _versions(_clusters(new)).keys()


def _versions(told: Iterable[Cluster]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    listed = list(told)
    for cluster in listed:
        found[f"Kubernetes of {cluster.title}"] = cluster.version
        found |= {f"chart {each.name}": each.version for each in cluster.charts}
        found |= {f"add-on {each.name}": each.version or "default" for each in cluster.addons}
        place = f" in {cluster.title}" if len(listed) > 1 else ""
        found |= {f"image of {name}{place}": tag for name, tag in _images(cluster).items()}
        for pool in cluster.pools:
            release = known_text(pool.properties.get("ReleaseVersion")) or ami_alias(pool)
            image = pool.launch.image
            found[f"pool {pool.name}: image"] = release or (str(image) if image is not None else "newest")
    return found


def _images(cluster: Cluster) -> dict[str, str]:
    pods = [(each.name, each.pod) for each in cluster.daemon_sets]
    pods += [(each.kind, each.pod) for each in cluster.autoscalers]
    return {
        name if len(pod.containers or ()) == 1 else f"{name} container {container.name}": tag
        for name, pod in pods
        for container in pod.containers or ()
        if (tag := _tag(container.image)) is not None
    }


def _tag(image: Any) -> str | None:
    """Return the tag of an image, ``latest`` where it has none; ``None`` of one with a digest alone."""
    written, at, _ = str(image).partition("@")
    if image is None or not written:
        return None
    _, colon, tag = written.rpartition("/")[2].partition(":")
    return tag if colon else None if at else "latest"


def _fates(old: Sequence[Explanation], new: Sequence[Explanation], accepted: set[_FindingKey]) -> tuple[Fate, ...]:
    before, after = _verdicts(old), _verdicts(new)
    found = []
    for key in dict.fromkeys((*before, *after)):
        was, now = before.get(key), after.get(key)
        answers = was.answer if was else None, now.answer if now else None
        if answers[0] is not answers[1]:
            name = ": ".join(each for each in key if each)
            results = was.result if was else None, now.result if now else None
            found.append(Fate(name, *answers, *results, _nearest(now), key in accepted))
    return tuple(found)


def _verdicts(told: Sequence[Explanation]) -> Mapping[_FindingKey, Verdict]:
    several = len(told) > 1
    return {_key(several, one.case.cluster.title, each.workload): each for one in told for each in one.verdicts}


def _accepted(report: Report) -> set[_FindingKey]:
    """Return the workloads in which somebody accepts an error, which says that a pod cannot run."""
    several = len(report.cases) > 1
    waived = {
        _key(several, case.cluster.title, each.workload)
        for case, each in report.pending_by_case()
        if (case.cluster.title, each.workload.origin) in report.waived
    }
    return waived | {
        _key(several, each.cluster, each.problem.subject)
        for each in report.findings
        if each.acknowledged is not None
        and each.rule.severity == "error"
        and not each.problem.unknown
        and isinstance(each.problem.subject, Workload)
    }


def _key(several: bool, cluster: str, workload: Workload) -> _FindingKey:
    """Return what a workload is told by; a cluster that is alone may be called otherwise in the other input."""
    return cluster if several else "", workload.name


def _nearest(verdict: Verdict | None) -> str | None:
    if verdict is None or verdict.answer is Answer.YES:
        return None
    if verdict.reasons:
        return verdict.reasons[0].text
    if not verdict.pools:
        return "there is no pool"
    nearest = verdict.pools[0]
    return f"{nearest.pool.name}: {nearest.reasons[0].text}" if nearest.reasons else None
