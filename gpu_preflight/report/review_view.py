"""What `review` reports: a change, with the clusters before and after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Generic, Literal, TypeVar

from gpu_facts.hardware.regions import HOURS_PER_MONTH, QUOTAS
from gpu_facts.light import dataclass
from gpu_preflight.judging.changes import ResourceChange
from gpu_preflight.judging.cluster_changes import ClusterChange
from gpu_preflight.judging.pool_changes import PoolChange
from gpu_preflight.judging.pool_costs import (
    Figure,
    PoolCost,
    QuotaIncrease,
    known_part,
    quota_increases,
    total,
    unpriced_types,
)
from gpu_preflight.judging.review import Fate, LimitResult, Move, Review, ReviewLimits, limit_results
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.folder_files import Skipped
from gpu_preflight.report.cluster_view import ClusterView, cluster_views
from gpu_preflight.report.finding_view import (
    SHOWN,
    Counts,
    FindingOrigin,
    FindingView,
    Hidden,
    Lines,
    LocatedUnread,
    OutcomeView,
    RuleSelection,
    counts,
    finding_views,
    hidden,
    outcome,
    rule_selection,
)
from gpu_preflight.report.review_headline import needs_attention, review_headline

SHOWN[Fate] = ("name", "before", "after", "before_result", "after_result", "reason")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LocatedChange(ResourceChange):
    """The change of a resource or of an object, with its line."""

    origin: FindingOrigin | None = None


SHOWN[LocatedChange] = ("what", "change", "change_class", "detail", "origin")


@dataclass(frozen=True, slots=True)
class Sides(Generic[T]):
    """Something before and after a change."""

    before: T
    after: T


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """vCPUs that pools need of a quota.

    Attributes:
        quota: Code of the EC2 quota.
    """

    quota: str
    name: str
    vcpus: int


@dataclass(frozen=True, slots=True)
class CeilingView:
    """The max size of all GPU pools with a known bound.

    Attributes:
        usd_per_hour: On-demand list price: GovCloud's own there, otherwise us-east-1's.
    """

    gpus: int
    usd_per_hour: float
    vcpus: tuple[QuotaUse, ...]
    unbounded_pools: tuple[str, ...]
    unpriced_instance_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UsdView:
    """A cost in US dollars by the on-demand list price; ``None`` if a pool's price isn't known."""

    per_hour: float | None
    per_month: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CostView:
    """Costs of all GPU pools.

    Attributes:
        min: Cost of the nodes that always run.
        requested: Cost of the nodes that the workloads of the input request.
        max: Cost of the max number of nodes.
    """

    min: UsdView
    requested: UsdView
    max: UsdView
    pools: tuple[PoolCost, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotaIncreaseView(QuotaIncrease):
    """An EC2 quota of which the pools need more than before.

    Attributes:
        name: Name of the quota.
    """

    name: str


@dataclass(frozen=True, slots=True)
class ReviewCounts:
    """Number of new, fixed and remaining findings."""

    new: Counts
    fixed: Counts
    standing: Counts


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewView(OutcomeView):
    """Effects of a change.

    Attributes:
        headline: The change in one sentence, the worst first.
        needs_attention: Whether nodes are drained, or something is removed, lost or not known, although it may pass.
        control_planes: Clusters that are replaced, whose version EKS does not go to, or not yet.
        changes: Effects of the deployment on each resource and object that differs, from losses to additions.
        workloads: Those whose verdict changes; ``None`` where there is none.
        limits: Whether the change keeps each limit that an option sets.
        quotas: EC2 quotas of which the pools need more than before.
        uncounted_workloads: Workloads that the requested cost leaves out, because their result isn't known.
        unread: Parts of either version that can't be read before deployment.
        skipped: Parts of the new version's folders that weren't read.
        hints: How to get lines of the app's own code.
        hidden: Findings of the new version that don't count, by where that is set.
        rule_selection: How many rules are selected; ``None`` if all are.
    """

    command: Literal["review"] = "review"
    headline: str
    needs_attention: bool
    control_planes: tuple[ClusterChange, ...]
    pools: tuple[PoolChange, ...]
    changes: tuple[LocatedChange, ...]
    versions: tuple[Move, ...]
    ceiling: Sides[CeilingView]
    cost: Sides[CostView]
    limits: tuple[LimitResult, ...]
    quotas: tuple[QuotaIncreaseView, ...]
    uncounted_workloads: tuple[str, ...]
    workloads: tuple[Fate, ...]
    counts: ReviewCounts
    hidden: tuple[Hidden, ...]
    rule_selection: RuleSelection | None
    new: tuple[FindingView, ...]
    fixed: tuple[FindingView, ...]
    standing: tuple[FindingView, ...]
    unread: tuple[LocatedUnread, ...]
    skipped: tuple[Skipped, ...]
    hints: tuple[str, ...]
    clusters: Sides[tuple[ClusterView, ...]]

    @property
    def warnings(self) -> int:
        """Number of certain warnings of the new version that aren't acknowledged."""
        return self.counts.new.warnings + self.counts.standing.warnings


def review_view(review: Review, limits: ReviewLimits | None = None) -> ReviewView:
    """Return what a change means, with the clusters before and after it.

    Args:
        review: The change.
        limits: Limits that it must keep.
    """
    remaining = (*review.new, *review.standing)
    lines = Lines()
    # A cluster of the new version comes last, so that it counts for findings of both versions.
    cases = [each.case for each in (*review.explained_before, *review.explained_after)]
    new, fixed, standing = (finding_views(lines, each, cases) for each in (review.new, review.fixed, review.standing))
    # The fates don't contain a workload whose result stays unknown.
    unknown = bool(review.unread or review.uncounted)
    unknown = unknown or any(each.after is Answer.UNKNOWN for each in review.fates)
    unknown = unknown or any(each.problem.unknown for each in remaining if each.acknowledged is None)
    results = limit_results(review, limits or ReviewLimits())
    return ReviewView(
        headline=review_headline(review, results),
        needs_attention=needs_attention(review),
        outcome=outcome(fails=review.fails or any(each.result != "kept" for each in results), unknown=unknown),
        control_planes=review.control_planes,
        pools=review.pools,
        changes=tuple(_located(each, lines) for each in review.changes),
        versions=review.moves,
        ceiling=Sides(_ceiling(review.costs_before), _ceiling(review.costs_after)),
        cost=Sides(_cost(review.costs_before), _cost(review.costs_after)),
        limits=results,
        quotas=tuple(map(_quota, quota_increases(review.costs_before, review.costs_after))),
        uncounted_workloads=review.uncounted,
        workloads=review.fates,
        counts=ReviewCounts(counts(review.new), counts(review.fixed), counts(review.standing)),
        hidden=hidden(remaining, review.unselected),
        rule_selection=rule_selection(review.selected),
        new=new,
        fixed=fixed,
        standing=standing,
        unread=lines.locate_unread(review.unread),
        skipped=review.skipped,
        hints=lines.hints,
        clusters=Sides(
            cluster_views(review.explained_before, most_pools=1), cluster_views(review.explained_after, most_pools=1)
        ),
    )


def _located(change: ResourceChange, lines: Lines) -> LocatedChange:
    origin = lines.locate(change.origin) if change.origin else None
    return LocatedChange(change.what, change.change, change.detail, origin, change.effect)


def _cost(costs: tuple[PoolCost, ...]) -> CostView:
    return CostView(min=_usd(costs, "min"), requested=_usd(costs, "requested"), max=_usd(costs, "max"), pools=costs)


def _usd(costs: Iterable[PoolCost], figure: Figure) -> UsdView:
    per_hour = total(costs, figure)
    return (
        UsdView(None, None) if per_hour is None else UsdView(round(per_hour, 2), round(per_hour * HOURS_PER_MONTH, 2))
    )


def _quota(increase: QuotaIncrease) -> QuotaIncreaseView:
    return QuotaIncreaseView(
        name=_quota_name(increase.quota),
        quota=increase.quota,
        region=increase.region,
        account=increase.account,
        before=increase.before,
        after=increase.after,
    )


def _quota_name(code: str) -> str:
    return next((each.name for each in QUOTAS if each.code == code), code)


def _ceiling(costs: tuple[PoolCost, ...]) -> CeilingView:
    vcpus = Counter[str]()
    for each in costs:
        vcpus.update(each.vcpus)
    return CeilingView(
        sum(each.max_gpus or 0 for each in costs),
        round(known_part(costs, "max"), 2),
        tuple(QuotaUse(code, _quota_name(code), count) for code, count in sorted(vcpus.items())),
        tuple(each.pool for each in costs if each.max_gpus is None),
        unpriced_types(costs),
    )
