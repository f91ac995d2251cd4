"""The headline of a review: the consequence in one sentence, and whether it needs attention although it passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from gpu_facts.hardware.regions import HOURS_PER_MONTH
from gpu_facts.quantities import count
from gpu_preflight.judging.pool_costs import Figure, PoolCost, added, added_gpus, unknown_costs
from gpu_preflight.judging.review import LimitResult, Review
from gpu_preflight.model.answer import Answer

# Classes of resources that a reader has to see first: something is rejected, lost, left, or not known.
SEVERE = ("destructive", "fails", "left behind", "unknown")
UNKNOWN = "unknown"
_BOUGHT = {"spot": "Spot", "capacity-block": "Capacity Block"}
_CLUSTERS = {
    "replaced": "replaced",
    "renamed": "created under another name",
    "rolled back": "rolled back",
    "too early": "upgraded too early",
}
_FIGURES: tuple[Figure, ...] = ("min", "requested", "max")
# From here on, cents say nothing.
_WHOLE = 100
_MOST_REASONS = 2


def review_headline(review: Review, limits: Iterable[LimitResult] = ()) -> str:
    """Return what a change means in one sentence, the worst first."""
    parts = _rejected, _versions, _drained, _workloads, _gpus, _money
    sentences = [text for part in parts for text in part(review)]
    sentences += [*_limits(limits), *_findings(review), *_unread(review)]
    if sentences:
        return f"GPU review: {', '.join(sentences)}"
    classes = Counter[str](each.change_class for each in review.changes)
    others = ", ".join(f"{number} {name}" for name, number in classes.items())
    return f"GPU review: no change for GPUs{f' ({others})' if others else ''}"


def needs_attention(review: Review) -> bool:
    """Whether something is interrupted, lost or not known, although the change may pass."""
    return (
        bool(review.control_planes or review.unread)
        or any(each.drains or each.change == "removed" for each in review.pools)
        or any(each.change in SEVERE for each in review.changes)
        or any(each.after is not Answer.YES and each.after is not None for each in review.fates)
        or any(each.kind == "possible error" and each.acknowledged is None for each in review.new)
        or added(review.costs_before, review.costs_after, "max") is None
        or added_gpus(review.costs_before, review.costs_after) is None
    )


def _rejected(review: Review) -> Iterator[str]:
    """Yield what is rejected or lost."""
    classes = Counter(each.change for each in review.changes)
    clusters = Counter(each.change for each in review.control_planes)
    pools = sum(each.change == "refused" for each in review.pools)
    if rejected := max(classes["fails"], clusters["refused"], pools):
        yield count(rejected, "rejected change")
    for change, text in _CLUSTERS.items():
        if number := clusters[change]:  # type: ignore[index]
            yield f"{count(number, 'cluster')} {text}"
    if lost := classes["destructive"]:
        yield count(lost, "destructive change")
    if left := classes["left behind"]:
        yield f"{count(left, 'object')} left behind"
    if unclear := classes["unknown"]:
        yield count(unclear, "unknown change")


def _versions(review: Review) -> Iterator[str]:
    """Yield versions of control planes that change."""
    for each in review.moves:
        if each.what.startswith("Kubernetes of ") and each.before and each.after:
            yield f"Kubernetes {each.before} -> {each.after}"


def _drained(review: Review) -> Iterator[str]:
    changes = Counter((each.change, each.drains) for each in review.pools)
    drained = " (every node is drained)"
    if number := changes["replaced", True]:
        yield f"{count(number, 'pool')} replaced{drained}"
    for drains in (True, False):
        if number := changes["removed", drains]:
            yield f"{count(number, 'pool')} removed{drained if drains else ''}"
    if number := changes["changed", True]:
        yield f"all nodes of {count(number, 'pool')} replaced"
    evicted = {each.workload: each.pods is None for pool in review.pools for each in pool.evicted}
    evicted |= {each.workload: False for pool in review.pools for each in pool.evicted if each.pods is not None}
    for may, text in ((False, "evicted"), (True, "that may be evicted")):
        if number := sum(each is may for each in evicted.values()):
            yield f"{count(number, 'workload')} {text}"
    if number := changes["added", False]:
        yield f"{count(number, 'pool')} added"
    if number := changes["changed", False]:
        yield f"{count(number, 'pool')} changed in place"


def _workloads(review: Review) -> Iterator[str]:
    """Yield how many workloads have another result, and how many restart."""
    results = Counter[tuple[bool, str | None]]((each.before is not None, each.after_result) for each in review.fates)
    texts = {"pending": "would stay Pending", "failsAtStart": "would start and fail", "unknown": "may not run"}
    for result, text in texts.items():
        if number := results[True, result] + results[False, result]:
            yield f"{count(number, 'workload')} {text}"
    if number := sum(each.effect == "pods restart" for each in review.changes):
        yield f"pods of {count(number, 'workload')} restart"
    for key, text in {(True, "runs"): "more can run", (True, None): "removed", (False, "runs"): "added"}.items():
        if number := results[key]:
            yield f"{count(number, 'workload')} {text}"


def _gpus(review: Review) -> Iterator[str]:
    change = added_gpus(review.costs_before, review.costs_after)
    if change:
        yield f"{change:+,} {'GPU' if abs(change) == 1 else 'GPUs'}"


def _money(review: Review) -> Iterator[str]:
    """Yield how much a change adds a month and an hour: from the least to the most, and for the workloads now."""
    least, now, most = (added(review.costs_before, review.costs_after, figure) for figure in _FIGURES)
    costs = _changed_costs(review)
    prices = price_note(costs)
    if least is None or most is None:
        yield f"cost unknown ({'; '.join(unknown_costs(costs))})"
    elif least or most:
        yield f"{_span(least, most, HOURS_PER_MONTH)} a month ({_span(least, most, 1)} an hour; {prices})"
    if now and now not in (least, most):
        note = "" if least or most else f"; {prices}"
        yield f"{usd(now * HOURS_PER_MONTH, sign=True)} a month now ({usd(now, sign=True)} an hour{note})"
    if least == now == most == 0 and (bought := _other_purchase(review)):
        yield f"cost unknown ({bought})"


def _span(least: float, most: float, hours: int) -> str:
    """Return a range, e.g. ``$0 to +$6,169``."""
    texts = [usd(each * hours, sign=True) for each in (least, most)]
    if least == most:
        return texts[0]
    return f"{texts[0]} at least and {texts[1]} at most" if least * most < 0 else " to ".join(texts)


def _other_purchase(review: Review) -> str:
    """Return how a pool buys nodes otherwise than before, where no price shows the difference; empty if none does."""
    before = {(each.cluster, each.pool): each.capacity_types for each in review.costs_before}
    for each in review.costs_after:
        old = before.get((each.cluster, each.pool), each.capacity_types)
        if old != each.capacity_types:
            ways = [" or ".join(_BOUGHT.get(one, one) for one in side) for side in (old, each.capacity_types)]
            return f"pool {each.pool}: {' -> '.join(ways)}; only on-demand prices are known"
    return ""


def _changed_costs(review: Review) -> list[PoolCost]:
    sides = review.costs_before, review.costs_after
    return [each for side, other in (sides, sides[::-1]) for each in side if each not in other]


def price_note(costs: Iterable[PoolCost]) -> str:
    """Return which prices the figures are; empty if none is known.

    ``on-demand list prices of us-east-1, not Spot prices of eu-west-1`` says that no price of that kind or place is
    known, so that another one is used.
    """
    priced = [each for each in costs if any(map(each.figure, _FIGURES))]
    lists = list(dict.fromkeys(each.price_list for each in priced))
    if not lists:
        return ""
    kinds = [name for key, name in _BOUGHT.items() if any(key in each.capacity_types for each in priced)]
    places = [each.region for each in priced if each.region and each.region != each.price_list]
    text = f"on-demand list prices of {' and '.join(lists)}"
    where = f"of {' and '.join(dict.fromkeys(places))}" if places else ""
    how = f"{' or '.join(kinds)} prices" if kinds else ""
    text += f", not {' '.join(filter(None, (how, where)))}" if how or where else ""
    return text if all(each.region for each in priced) else f"{text}; the region isn't known"


def _limits(limits: Iterable[LimitResult]) -> Iterator[str]:
    for each in limits:
        if each.result != "kept":
            yield f"{limit_name(each).lower()} {limit_outcome(each)}"


def _findings(review: Review) -> Iterator[str]:
    """Yield how many errors and warnings are new, and how many errors stay that make the check fail."""
    kinds = Counter(each.kind for each in review.new if each.acknowledged is None)
    for kind in ("error", "possible error", "warning"):
        if number := kinds[kind]:
            yield f"{number} new {kind}{'' if number == 1 else 's'}"
    if number := sum(each.counts for each in review.standing):
        yield f"{count(number, 'error')} {'stays' if number == 1 else 'stay'}"
    if number := sum(each.counts for each in review.fixed):
        yield f"{count(number, 'error')} fixed"


def _unread(review: Review) -> Iterator[str]:
    if review.unread:
        yield f"{count(len(review.unread), 'part')} not read"


def usd(amount: float | None, *, sign: bool = False) -> str:
    """Return US dollars, e.g. ``$1,234`` or ``+$8.45``."""
    if amount is None:
        return UNKNOWN
    rounded = f"{abs(amount):,.0f}" if abs(amount) >= _WHOLE or not amount else f"{abs(amount):,.2f}"
    before = "-" if amount < 0 else "+" if sign and amount else ""
    return f"{before}${rounded}"


def limit_name(limit: LimitResult) -> str:
    """Return a limit, e.g. ``Limit $40,000 a month``."""
    if limit.option == "--fail-on-replace":
        return "Limit 0 drained pools"
    return f"Limit {limit_value(limit, limit.limit, sign='added' in limit.option)}"


def limit_value(limit: LimitResult, value: float, *, sign: bool = False) -> str:
    """Return a figure of a limit, e.g. ``$40,000 a month`` or ``+8 GPUs``."""
    if "usd" in limit.option:
        return f"{usd(value, sign=sign)} a month"
    if limit.option == "--max-added-gpus":
        return f"{value:+,.0f} {'GPU' if abs(value) == 1 else 'GPUs'}"
    return f"{value:,.0f} drained"


def limit_outcome(limit: LimitResult) -> str:
    """Return whether a limit is kept, e.g. ``exceeded by $10,655``."""
    why = f" ({', '.join(limit.reasons[:_MOST_REASONS])})" if limit.reasons else ""
    if limit.result == "unknown" or limit.value is None:
        return f"fails, as the value is unknown{why}"
    if limit.result == "kept":
        return "kept"
    if limit.option == "--fail-on-replace":
        return f"exceeded{why}"
    over = limit.value - limit.limit
    return f"exceeded by {usd(over) if 'usd' in limit.option else f'{over:,.0f}'}"
