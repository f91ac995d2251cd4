"""The words of a review, which every rendering shares: interruptions, money, quotas and limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from gpu_facts.hardware.catalogue import columns
from gpu_facts.hardware.regions import HOURS_PER_MONTH, prices_read
from gpu_facts.light import regex
from gpu_preflight.judging.pool_costs import (
    Figure,
    PoolCost,
    added,
    added_gpus,
    known_part,
    total,
    unknown_costs,
    without_bound,
)
from gpu_preflight.report.review_headline import UNKNOWN, limit_name, limit_outcome, limit_value, price_note, usd
from gpu_preflight.report.wording import RESULTS, count, listed

if TYPE_CHECKING:
    from gpu_preflight.judging.changes import ResourceChange
    from gpu_preflight.judging.pool_changes import PoolChange
    from gpu_preflight.report.review_view import QuotaIncreaseView, ReviewView

Row = tuple[str, str, str, str]
# Changes of most resources in a deployment.
_QUIET = ("removed", "in place", "added")
# Kinds that run pods or scale them, whose removal a reader has to see. Pools have a list of their own.
_RUNNING = ("DaemonSet", "Deployment", "HorizontalPodAutoscaler", "LeaderWorkerSet", "ScaledObject", "StatefulSet")
_CHART_TYPE = "Custom::AWSCDK-EKS-HelmChart"
_COSTS: dict[Figure, str] = {
    "min": "Cost a month, min (nodes that always run)",
    "requested": "Cost a month, now (requested by workloads)",
    "max": "Cost a month, max",
}
_MOST_REASONS = 2
# Text that can be a part of a command. Names of an input may hold anything.
_PLAIN = regex(r"[a-z0-9-]{1,40}")


def cost_rows(view: ReviewView) -> Iterator[Row]:
    """Yield costs, GPUs, vCPUs of each quota and limits: before, after, and how much they change."""
    sides = view.cost.before.pools, view.cost.after.pools
    for figure, name in _COSTS.items():
        before, after = (_cost_cell(side, figure) for side in sides)
        change = added(*sides, figure)
        yield name, before, after, "=" if change == 0 else _cost_text(change, sign=True)
    gpus = [[each.max_gpus for each in side] for side in sides]
    before, after = (f"{sum(each or 0 for each in side):,}{' + unknown' if None in side else ''}" for side in gpus)
    more = added_gpus(*sides)
    yield "GPUs, max", before, after, UNKNOWN if more is None else f"{more:+,}" if more else "="
    yield from _vcpu_rows(view)
    for each in view.limits:
        value = UNKNOWN if each.value is None else limit_value(each, each.value)
        yield limit_name(each), "", value, limit_outcome(each)


def _vcpu_rows(view: ReviewView) -> Iterator[Row]:
    sides = view.ceiling.before.vcpus, view.ceiling.after.vcpus
    names = {each.quota: each.name for side in sides for each in side}
    vcpus = [{each.quota: each.vcpus for each in side} for side in sides]
    for quota, name in names.items():
        before, after = (each.get(quota, 0) for each in vcpus)
        unbounded = [without_bound(each.pools, quota) for each in (view.cost.before, view.cost.after)]
        change = UNKNOWN if unbounded[0] != unbounded[1] else f"{after - before:+,}" if before != after else "="
        cells = _vcpu_cell(before, unbounded[0]), _vcpu_cell(after, unbounded[1])
        yield f"vCPUs, max ({name}, {quota})", *cells, change


def _vcpu_cell(known: int, unbounded: Collection[object]) -> str:
    if not unbounded:
        return f"{known:,}"
    return f"{known:,} + unknown" if known else UNKNOWN


def _cost_cell(costs: Sequence[PoolCost], figure: Figure) -> str:
    if total(costs, figure) is not None:
        return _cost_text(total(costs, figure))
    known = known_part(costs, figure)
    return f"{_cost_text(known)} + unknown" if known else UNKNOWN


def _cost_text(usd_per_hour: float | None, *, sign: bool = False) -> str:
    if usd_per_hour is None:
        return UNKNOWN
    if not usd_per_hour:
        return "$0"
    return f"{usd(usd_per_hour * HOURS_PER_MONTH, sign=sign)} ({usd(usd_per_hour, sign=sign)}/h)"


def cost_notes(view: ReviewView) -> Iterator[str]:
    """Yield which prices the figures are, and which costs they leave out."""
    costs = [*view.cost.before.pools, *view.cost.after.pools]
    if prices := price_note(costs):
        dates = {columns()["usd_per_hour"]["as_of"], *([prices_read()["as_of"]] if "us-gov" in prices else [])}
        yield f"Prices of {' and '.join(sorted(dates))}: {prices}. A month has {HOURS_PER_MONTH} hours."
        yield "Not counted: pools without GPUs, control planes, volumes, load balancers, data transfer, discounts, tax."
    if unknown := unknown_costs(costs):
        yield f"Unknown: {'; '.join(unknown)}."
    if view.uncounted_workloads:
        names = listed(view.uncounted_workloads, "workload")
        yield f"Not in the cost now, as it isn't known whether they run: {names}."
    if any("capacity-block" in each.capacity_types for each in costs):
        yield "Capacity Blocks are paid when they are bought, at another price."


def drain_rows(view: ReviewView) -> Iterator[tuple[PoolChange, str, str]]:
    """Yield each pool whose nodes are drained, how and why, and the workloads on its nodes."""
    for each in view.pools:
        if each.drains:
            yield each, _drain(each), _evicted(each)


def pool_class(pool: PoolChange) -> str:
    """Return the class of docs/reference/changes.md of a pool whose nodes are drained."""
    return "nodes replaced" if pool.change == "changed" else pool.change


def _drain(pool: PoolChange) -> str:
    most = "" if pool.max_nodes is None else f" (at most {pool.max_nodes})"
    how = "replaced" if pool.change == "changed" else "drained"
    causes = [_without_effect(each) for each in pool.details if not each.endswith("(in place)")]
    why = f": {'; '.join(causes[:_MOST_REASONS])}" if pool.change != "removed" and causes else ""
    left = len(causes) - _MOST_REASONS
    return f"every node{most} is {how}{why}{f'; and {left} more' if why and left > 0 else ''}"


def _without_effect(detail: str) -> str:
    return detail.rpartition(" (")[0] if detail.endswith(")") else detail


def _evicted(pool: PoolChange) -> str:
    texts = []
    for each in pool.evicted:
        pods = "may run there" if each.pods is None else count(each.pods, "pod")
        texts.append(f"{each.workload} ({pods}; {f'after: {RESULTS[each.after]}' if each.after else 'removed'})")
    return listed(texts, "workload") or "no GPU workload of the input"


def restarts(view: ReviewView) -> str:
    """Return the workloads whose pods restart; empty if none do."""
    names = [each.what for each in view.changes if each.effect == "pods restart"]
    return f"Pods restart, as the update strategy says: {listed(names, 'workload')}" if names else ""


def quota_commands(view: ReviewView) -> Iterator[tuple[str, str]]:
    """Yield each quota to raise, and the command that asks for it."""
    for each in view.quotas:
        region = each.region if each.region and _PLAIN.fullmatch(each.region) else None
        account = f" in account {each.account}" if each.account and _PLAIN.fullmatch(each.account) else ""
        yield (
            f"{each.name}{account}: at most {each.before:,} vCPUs before, {each.after:,} after",
            _command(each, region),
        )


def _command(quota: QuotaIncreaseView, region: str | None) -> str:
    return (
        "aws service-quotas request-service-quota-increase --service-code ec2 "
        f"--quota-code {quota.quota} --desired-value {quota.after} --region {region or 'REGION'}"
    )


def listed_changes(view: ReviewView) -> list[ResourceChange]:
    """Return the resources and objects of a review that a reader has to see.

    Updates in place that leave nodes and pods running, additions, and removals of objects without pods are counted.
    """
    return [each for each in view.changes if not _is_quiet(each)]


def _is_quiet(change: ResourceChange) -> bool:
    if change.change == "removed":
        return change.what.partition(" ")[0] not in (*_RUNNING, _CHART_TYPE)
    return change.change_class in _QUIET


def other_changes(view: ReviewView) -> str:
    """Return how many other resources and objects there are of each class."""
    found = Counter[str](each.change for each in view.changes if _is_quiet(each))
    counted = ", ".join(f"{found[each]} {each}" for each in _QUIET if found[each])
    return f"Other resources and objects: {counted}." if counted else ""
