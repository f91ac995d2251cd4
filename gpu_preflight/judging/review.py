"""Compares two versions of an input: pools, workloads, resources, costs and findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from gpu_facts.hardware.regions import HOURS_PER_MONTH
from gpu_facts.light import dataclass
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.cluster.images import ami_alias, image_version, pool_image
from gpu_preflight.judging.acknowledgements import Acknowledgement
from gpu_preflight.judging.baseline import Filters
from gpu_preflight.judging.changes import ResourceChange, resource_changes
from gpu_preflight.judging.check import Report, check
from gpu_preflight.judging.cluster_changes import ClusterChange, cluster_changes
from gpu_preflight.judging.explain import Explanation
from gpu_preflight.judging.pool_changes import (
    PoolChange,
    pool_changes,
    pool_key,
    pools_by_key,
    properties_requiring_replacement,
    with_evicted,
)
from gpu_preflight.judging.pool_costs import (
    PoolCost,
    added,
    added_gpus,
    pool_costs,
    total,
    uncounted_workloads,
    unknown_costs,
)
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.pod import Workload
from gpu_preflight.reading.folder_files import Skipped
from gpu_preflight.reading.inputs import Input
from gpu_preflight.reading.objects import Unread
from gpu_preflight.reading.unknown import known_text
from gpu_preflight.rule import Finding
from gpu_preflight.scheduling.verdict import Result, Verdict

_VERSION = "Version"
_FindingKey = tuple[str, str]
_Kind = tuple[str, str, bool, bool]


def keep_deployed_versions(deployed: Iterable[Cluster], written: Iterable[Cluster]) -> tuple[Cluster, ...]:
    """Return clusters after a deployment: each node group without a version in the input keeps its deployed version.

    EKS gives a new node group the version of its cluster, and changes it only if an update contains a version.

    Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html (2026-11): without
    ``version`` the version of the node group does not change.

    Args:
        deployed: The deployed clusters.
        written: The clusters of the new version.
    """
    there = tuple(deployed)
    pools, versions = pools_by_key(there), {each.title: each.version for each in there}

    def keep_version(cluster: Cluster, pool: Pool) -> Pool:
        was = pools.get(pool_key(cluster, pool))
        version = image_version(was, versions[cluster.title]) if was and _asks_for_none(was, pool) else None
        # No source states how EKS reacts to a release of another version.
        stays = version is not None and image_version(pool, version) == version
        return replace(pool, properties={**pool.properties, _VERSION: version}) if stays else pool

    return tuple(replace(each, pools=tuple(keep_version(each, pool) for pool in each.pools)) for each in written)


def _asks_for_none(was: Pool, now: Pool) -> bool:
    """Whether EKS chose the version of a managed group, and the group isn't replaced."""
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
        what: The component.
        before: The version before; ``None`` if there was none.
        after: The version after; ``None`` if there is none.
    """

    what: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Fate:
    """A workload whose result changes.

    Attributes:
        name: Its name, after the name of its cluster if there are several clusters.
        before: The answer before; ``None`` if it is added.
        after: The answer after; ``None`` if it is removed.
        before_result: `Verdict.result` before.
        after_result: `Verdict.result` after.
        reason: The nearest reason for the answer after.
        accepted: Whether an acknowledgement accepts an error of the workload.
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
    """The effects of a change.

    Attributes:
        control_planes: Clusters that are replaced, or whose new version EKS rejects.
        pools: Pools that are added, removed, replaced or changed.
        changes: Resources and objects that differ, with the effect of the deployment on each.
        moves: Versions that change.
        fates: Workloads whose result changes.
        new: Findings of the new version only.
        fixed: Findings of the old version only.
        standing: Findings of both versions.
        explained_before: Results of the workloads of each cluster before.
        explained_after: Their results after.
        selected: Number of rules whose findings are reported; ``None`` for all.
        unselected: Findings of other rules in the new version.
        costs_before: Costs of each GPU pool before.
        costs_after: Their costs after.
        uncounted: Workloads whose nodes aren't counted after the change, because their result isn't known.
        unread: Parts of either version that can't be read before deployment.
        skipped: Parts of the new version's folders that weren't read.
        unused: Acknowledgements of the new version that accept nothing.
        mistaken: Errors in its acknowledgements in metadata, annotations and comments.
    """

    control_planes: tuple[ClusterChange, ...] = ()
    pools: tuple[PoolChange, ...] = ()
    changes: tuple[ResourceChange, ...] = ()
    moves: tuple[Move, ...] = ()
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
        """Whether the change is rejected, leaves an error that isn't accepted, or makes a pod Pending."""
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
        UnusableInput: An acknowledgement has no rule or no reason.
    """
    deployed, written = clusters(old), clusters(new)
    before, after = (
        check(old, keep_deployed_versions(deployed, deployed)),
        check(new, keep_deployed_versions(deployed, written)),
    )
    if filters:
        before, after = filters.applied(before), filters.applied(after)
    found = compare_findings(before.findings, after.findings)
    explained = [tuple(map(report.explanation, report.cases)) for report in (before, after)]
    costs = tuple(map(pool_costs, explained))
    return Review(
        control_planes=cluster_changes(_clusters(before), _clusters(after)),
        pools=tuple(with_evicted(each, costs[0], *explained) for each in pool_changes(deployed, written)),
        changes=resource_changes(old, new),
        moves=_moves(before, after),
        fates=_fates(explained[0], explained[1], _accepted(after)),
        new=found[0],
        fixed=found[1],
        standing=found[2],
        explained_before=explained[0],
        explained_after=explained[1],
        selected=after.selected,
        unselected=after.unselected,
        costs_before=costs[0],
        costs_after=costs[1],
        uncounted=uncounted_workloads(explained[1]),
        unread=tuple(dict.fromkeys((*before.unread, *after.unread))),
        skipped=after.skipped,
        unused=after.unused,
        mistaken=after.mistaken,
    )


def _clusters(report: Report) -> list[Cluster]:
    return [case.cluster for case in report.cases]


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
    """Whether a version belongs to a component that both versions have. Pools come with their images."""
    return not what.startswith("pool ") or what in _versions(_clusters(old)).keys() & _versions(_clusters(new)).keys()


def _versions(side: Iterable[Cluster]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    listed = list(side)
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
    """Return the tag of an image, ``latest`` if it has none; ``None`` if it has only a digest."""
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


def _verdicts(explanations: Sequence[Explanation]) -> Mapping[_FindingKey, Verdict]:
    several = len(explanations) > 1
    return {_key(several, one.case.cluster.title, each.workload): each for one in explanations for each in one.verdicts}


def _accepted(report: Report) -> set[_FindingKey]:
    """Return the workloads with an accepted error, which states that a pod can't run."""
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
    """Return the key of a workload. A single cluster may have another name in the other input."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewLimits:
    """Limits of a review; ``None`` for no limit.

    Attributes:
        max_usd_per_month: Most US dollars a month (730 hours) that the pools may cost at most after the change.
        max_added_usd_per_month: Most US dollars a month that the change may add to the most that the pools can cost.
        max_added_gpus: Most GPUs that the change may add to the most that the pools can have.
        fail_on_replace: Whether no pool may be replaced, removed or have its nodes drained, and no cluster replaced.
    """

    max_usd_per_month: float | None = None
    max_added_usd_per_month: float | None = None
    max_added_gpus: float | None = None
    fail_on_replace: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitResult:
    """Whether a change keeps one limit.

    Attributes:
        option: The option that sets it, such as ``--max-usd-per-month``.
        limit: The limit: US dollars a month, GPUs or pools.
        value: The value after the change, or the added one; ``None`` if it isn't known.
        result: ``kept``, ``exceeded``, or ``unknown``, which fails the review, too.
        reasons: Why it isn't known, or which pools exceed it.
    """

    option: str
    limit: float
    value: float | None
    result: Literal["kept", "exceeded", "unknown"]
    reasons: tuple[str, ...] = ()


def limit_results(review: Review, limits: ReviewLimits) -> tuple[LimitResult, ...]:
    """Return whether a change keeps each limit that is set."""
    return tuple(_results(review, limits))


def _results(review: Review, limits: ReviewLimits) -> Iterator[LimitResult]:
    before, after = review.costs_before, review.costs_after
    unknown = unknown_costs(after)
    if limits.max_usd_per_month is not None:
        yield _result("--max-usd-per-month", limits.max_usd_per_month, _monthly(total(after, "max")), unknown)
    both = unknown_costs((*before, *after))
    if limits.max_added_usd_per_month is not None:
        change = _monthly(added(before, after, "max"))
        yield _result("--max-added-usd-per-month", limits.max_added_usd_per_month, change, both)
    if limits.max_added_gpus is not None:
        yield _result("--max-added-gpus", limits.max_added_gpus, added_gpus(before, after), both)
    if limits.fail_on_replace:
        drained = [f"pool {each.name} of {each.cluster}" for each in review.pools if each.drains]
        drained += [f"cluster {each.cluster}" for each in review.control_planes if each.change == "replaced"]
        yield _result("--fail-on-replace", 0, len(drained), tuple(drained))


def _monthly(usd_per_hour: float | None) -> float | None:
    return None if usd_per_hour is None else round(usd_per_hour * HOURS_PER_MONTH, 2)


def _result(option: str, limit: float, value: float | None, reasons: tuple[str, ...]) -> LimitResult:
    if value is None:
        return LimitResult(option=option, limit=limit, value=None, result="unknown", reasons=reasons)
    if value > limit:
        told = reasons if option == "--fail-on-replace" else ()
        return LimitResult(option=option, limit=limit, value=value, result="exceeded", reasons=told)
    return LimitResult(option=option, limit=limit, value=value, result="kept")
