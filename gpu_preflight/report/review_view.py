"""What `review` reports: a change, with the clusters before and after it."""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

from gpu_facts.light import dataclass
from gpu_preflight.judging.changes import ResourceChange
from gpu_preflight.judging.cluster_changes import ClusterChange
from gpu_preflight.judging.review import Fate, Move, PoolChange, Review
from gpu_preflight.model.answer import Answer
from gpu_preflight.report.cluster_view import ClusterView, cluster_views
from gpu_preflight.report.finding_view import (
    SHOWN,
    Counts,
    FindingOrigin,
    FindingView,
    Hidden,
    Lines,
    OutcomeView,
    RuleSelection,
    counts,
    finding_views,
    hidden,
    outcome,
    rule_selection,
)
from gpu_preflight.scheduling.pool_limits import Ceiling

SHOWN[Fate] = ("name", "before", "after", "before_result", "after_result", "reason")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LocatedChange(ResourceChange):
    """What becomes of a resource or of an object, with its line."""

    origin: FindingOrigin | None = None


SHOWN[LocatedChange] = ("what", "change", "detail", "origin")


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
    """The most that all GPU pools with a bound come to.

    Attributes:
        usd_per_hour: On-demand list price, in GovCloud its own, elsewhere that of us-east-1.
    """

    gpus: int
    usd_per_hour: float
    vcpus: tuple[QuotaUse, ...]
    unbounded_pools: tuple[str, ...]
    unpriced_instance_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReviewCounts:
    """Number of new, fixed and remaining findings."""

    new: Counts
    fixed: Counts
    standing: Counts


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewView(OutcomeView):
    """What a change means.

    Attributes:
        control_planes: Clusters that are replaced, whose version EKS does not go to, or not yet.
        changes: What the deployment does to each resource and object that differs, from what is lost to what is added.
        workloads: Those whose verdict changes; ``None`` where there is none.
        hints: How to get lines of the app's own code.
        hidden: Findings of the new version that don't count, by where that is set.
        rule_selection: How many rules are selected; ``None`` if all are.
    """

    command: Literal["review"] = "review"
    control_planes: tuple[ClusterChange, ...]
    pools: tuple[PoolChange, ...]
    changes: tuple[LocatedChange, ...]
    versions: tuple[Move, ...]
    ceiling: Sides[CeilingView]
    workloads: tuple[Fate, ...]
    counts: ReviewCounts
    hidden: tuple[Hidden, ...]
    rule_selection: RuleSelection | None
    new: tuple[FindingView, ...]
    fixed: tuple[FindingView, ...]
    standing: tuple[FindingView, ...]
    hints: tuple[str, ...]
    clusters: Sides[tuple[ClusterView, ...]]

    @property
    def warnings(self) -> int:
        """Number of certain warnings of the new version that aren't acknowledged."""
        return self.counts.new.warnings + self.counts.standing.warnings


def review_view(review: Review) -> ReviewView:
    """Return what a change means, with the clusters before and after it."""
    remaining = (*review.new, *review.standing)
    lines = Lines()
    new, fixed, standing = (finding_views(lines, each) for each in (review.new, review.fixed, review.standing))
    unknown = any(each.problem.unknown for each in remaining if each.acknowledged is None)
    unknown = unknown or any(each.after is Answer.UNKNOWN for each in review.fates)
    return ReviewView(
        outcome=outcome(fails=review.fails, unknown=unknown),
        control_planes=review.control_planes,
        pools=review.pools,
        changes=tuple(_located(each, lines) for each in review.changes),
        versions=review.moves,
        ceiling=Sides(_ceiling(review.before), _ceiling(review.after)),
        workloads=review.fates,
        counts=ReviewCounts(counts(review.new), counts(review.fixed), counts(review.standing)),
        hidden=hidden(remaining, review.unselected),
        rule_selection=rule_selection(review.selected),
        new=new,
        fixed=fixed,
        standing=standing,
        hints=lines.hints,
        clusters=Sides(
            cluster_views(review.explained_before, most_pools=1), cluster_views(review.explained_after, most_pools=1)
        ),
    )


def _located(change: ResourceChange, lines: Lines) -> LocatedChange:
    origin = lines.locate(change.origin) if change.origin else None
    return LocatedChange(change.what, change.change, change.detail, origin, change.effect)


def _ceiling(ceiling: Ceiling) -> CeilingView:
    return CeilingView(
        ceiling.gpus,
        round(ceiling.usd_per_hour, 2),
        tuple(QuotaUse(code, name, count) for code, (name, count) in ceiling.vcpus.items()),
        ceiling.unbounded,
        ceiling.unpriced,
    )
