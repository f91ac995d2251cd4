"""Limits that a change must keep: money, GPUs, and pools whose nodes stay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from gpu_facts.hardware.regions import HOURS_PER_MONTH
from gpu_facts.light import dataclass
from gpu_preflight.judging.pool_costs import added, added_gpus, total, unknown_costs
from gpu_preflight.judging.review import Review


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
