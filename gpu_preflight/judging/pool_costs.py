"""Costs of the GPU pools of an input, the quotas that they need, and how much a change adds.

A cost is the on-demand list price of nodes. It has three figures: of the nodes that always run, of the nodes
that the workloads of the input request, and of the most nodes that the pools can have. Not counted are pools without
GPUs, volumes, load balancers, data transfer and control planes.

Example: a pool of 0 to 8 g6.xlarge (0.8048 USD an hour) with a workload of 3 pods that request a GPU each costs 0.00,
2.41 and 6.44 USD an hour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Literal

from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.hardware.regions import find_quota, price_list, usd_per_hour
from gpu_facts.light import dataclass
from gpu_preflight.cluster.network import pool_region
from gpu_preflight.judging.explain import Explanation
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.node.gpu_pools import pools_of_unknown_types
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.reading.unknown import Unknown, items
from gpu_preflight.scheduling.packing import PoolUse
from gpu_preflight.scheduling.pool_limits import node_limit

Figure = Literal["min", "requested", "max"]
_Prices = Mapping[str, "float | None"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolCost:
    """Cost of the nodes of one pool, in US dollars an hour by the on-demand list price.

    Attributes:
        cluster: Name of the cluster.
        pool: Name of the pool.
        instance_types: Types that its nodes can have, as expressions where only deployment tells.
        capacity_types: How the pool buys nodes: ``on-demand``, ``spot``, ``reserved``, ``capacity-block``.
        region: Its region; ``None`` if it isn't known.
        price_list: The region whose list has the prices.
        min_nodes: Nodes that always run; ``None`` if the number isn't known.
        requested_nodes: Nodes that the workloads of the input request, at least those that always run.
        max_nodes: Most nodes; ``None`` without a known bound.
        max_gpus: Most GPUs; ``None`` without a known bound.
        limits: Limits of a NodePool, in base units.
        min_usd_per_hour: Cost of the nodes that always run; ``None`` if it isn't known.
        requested_usd_per_hour: Cost of the requested nodes; ``None`` if it isn't known.
        max_usd_per_hour: Cost of the most nodes; ``None`` if it isn't known.
        unknown: Why a figure isn't known; empty if all are.
        vcpus: Most vCPUs of each quota that it needs, by quota code.
        account: AWS account; ``None`` if it isn't known.
    """

    cluster: str
    pool: str
    instance_types: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = ()
    region: str | None = None
    price_list: str = ""
    min_nodes: int | None = 0
    requested_nodes: int | None = 0
    max_nodes: int | None = 0
    max_gpus: int | None = 0
    limits: Mapping[str, int] = field(default_factory=dict)
    min_usd_per_hour: float | None = 0.0
    requested_usd_per_hour: float | None = 0.0
    max_usd_per_hour: float | None = 0.0
    unknown: str = ""
    vcpus: Mapping[str, int] = field(default_factory=dict)
    account: str | None = None

    def figure(self, figure: Figure) -> float | None:
        """Return one of the three costs."""
        costs = {"min": self.min_usd_per_hour, "requested": self.requested_usd_per_hour, "max": self.max_usd_per_hour}
        return costs[figure]


def pool_costs(explanations: Iterable[Explanation]) -> tuple[PoolCost, ...]:
    """Return what each pool of some clusters costs that has GPUs, or may have them as its types aren't known."""
    return tuple(
        _pool_cost(pool, one.case.nodes(pool), one.case.cluster, _use(pool, one))
        for one in explanations
        for pool in (*one.case.gpu_pools, *pools_of_unknown_types(one.case.cluster))
    )


def uncounted_workloads(explanations: Iterable[Explanation]) -> tuple[str, ...]:
    """Return the workloads with pods whose nodes aren't counted, because their result isn't known."""
    return tuple(
        each.workload.name
        for one in explanations
        for each in one.verdicts
        if each.answer is Answer.UNKNOWN and each.workload.replicas != 0
    )


def _use(pool: Pool, explanation: Explanation) -> PoolUse:
    uses = (each for each in explanation.packing.uses if each.pool is pool)
    return next(uses, PoolUse(pool, 0, 0, {}))


def _pool_cost(pool: Pool, nodes: Sequence[NodeToBe], cluster: Cluster, use: PoolUse) -> PoolCost:
    region = pool_region(pool, cluster)
    rows = [each.row for each in nodes if each.row is not None]
    prices = {row.name: usd_per_hour(row, region) for row in rows}
    limits = [node_limit(pool, each) for each in nodes]
    unknown_types = _unknown_types(pool)
    are_known = bool(rows) and len(rows) == len(nodes) and not unknown_types
    known_limits = [each for each in limits if each is not None]
    has_bound = len(known_limits) == len(limits)
    bounded = are_known and has_bound
    counted = list(zip(rows, known_limits, strict=True)) if bounded else []
    requested = None if pool.min_nodes is None else max(use.nodes, pool.min_nodes)
    return PoolCost(
        cluster=cluster.title,
        pool=pool.name,
        instance_types=(*(each.instance_type for each in nodes if each.instance_type), *unknown_types),
        capacity_types=pool.capacity_types,
        region=region,
        price_list=price_list(region),
        min_nodes=pool.min_nodes,
        requested_nodes=requested,
        max_nodes=max(known_limits, default=0) if has_bound else None,
        max_gpus=max((row.gpus * most for row, most in counted), default=0) if bounded else None,
        limits=pool.limits,
        min_usd_per_hour=_nodes_cost(pool.min_nodes, prices, min) if are_known else _nothing(pool.min_nodes),
        requested_usd_per_hour=_requested(pool, requested, prices, use) if are_known else _nothing(requested),
        max_usd_per_hour=_max(counted, prices) if bounded else None,
        unknown=_unknown(pool, prices, are_known=are_known, bounded=bounded),
        vcpus=_vcpus(pool, counted),
        account=next((each.account for each in (pool.resource, cluster.resource) if each and each.account), None),
    )


def _unknown_types(pool: Pool) -> tuple[str, ...]:
    named = items(pool.properties.get("InstanceTypes"))
    return tuple(each.expression for each in named if isinstance(each, Unknown) and not each.choices)


def _nothing(nodes: int | None) -> float | None:
    """Return the cost of no nodes; ``None`` for other numbers of nodes whose type isn't known."""
    return 0.0 if nodes == 0 else None


def _nodes_cost(nodes: int | None, prices: _Prices, choose: Callable[[list[float]], float]) -> float | None:
    """Return what nodes of the cheapest or of the most expensive type cost."""
    known = [each for each in prices.values() if each is not None]
    return round(nodes * choose(known), 4) if nodes and len(known) == len(prices) else _nothing(nodes)


def _requested(pool: Pool, nodes: int | None, prices: _Prices, use: PoolUse) -> float | None:
    """Return what the requested nodes cost. EC2 chooses the types of a group: they may be the most expensive one."""
    if pool.is_group or nodes is None or sum(use.types.values()) < use.nodes:
        return _nodes_cost(nodes, prices, max)
    parts = [_nodes_cost(nodes - use.nodes, prices, min)]
    parts += [None if prices.get(name) is None else count * (prices[name] or 0) for name, count in use.types.items()]
    return None if None in parts else round(sum(each or 0 for each in parts), 4)


def _max(counted: Iterable[tuple[InstanceType, int]], prices: _Prices) -> float | None:
    costs = [None if prices[row.name] is None else most * (prices[row.name] or 0) for row, most in counted if most]
    return None if None in costs else round(max((each or 0 for each in costs), default=0.0), 4)


def _vcpus(pool: Pool, counted: Iterable[tuple[InstanceType, int]]) -> dict[str, int]:
    """Return the vCPUs that a pool needs of each quota, by quota code, for the max nodes of each type."""
    found: dict[str, int] = {}
    for row, most in counted:
        for capacity_type in pool.capacity_types:
            quota = find_quota(row, capacity_type)
            if quota is not None and row.vcpus is not None and most:
                found[quota.code] = max(row.vcpus * most, found.get(quota.code, 0))
    return found


def _unknown(pool: Pool, prices: _Prices, *, are_known: bool, bounded: bool) -> str:
    unpriced = [name for name, price in prices.items() if price is None]
    if not are_known:
        return "its instance types aren't known"
    if not bounded:
        return "it has no known bound"
    if unpriced:
        return f"{', '.join(unpriced)} has no list price in US dollars"
    return "its smallest number of nodes isn't known" if pool.min_nodes is None else ""


def unknown_costs(costs: Iterable[PoolCost]) -> tuple[str, ...]:
    """Return why costs are unknown, e.g. ``pool l4: it has no known bound``."""
    return tuple(dict.fromkeys(f"pool {each.pool}: {each.unknown}" for each in costs if each.unknown))


def unpriced_types(costs: Iterable[PoolCost]) -> tuple[str, ...]:
    """Return the instance types without a list price that pools with a known bound can have."""
    named = ((catalogue().get(name), each) for each in costs if each.max_nodes for name in each.instance_types)
    return tuple(sorted({row.name for row, each in named if row and usd_per_hour(row, each.region) is None}))


def total(costs: Iterable[PoolCost], figure: Figure) -> float | None:
    """Return what pools cost together, US dollars an hour; ``None`` if one cost isn't known."""
    found = [each.figure(figure) for each in costs]
    return None if None in found else sum(each or 0 for each in found)


def known_part(costs: Iterable[PoolCost], figure: Figure) -> float:
    """Return what those pools cost together whose cost is known, US dollars an hour."""
    return sum(each.figure(figure) or 0 for each in costs)


def added(before: Iterable[PoolCost], after: Iterable[PoolCost], figure: Figure) -> float | None:
    """Return how much a change adds to a cost, US dollars an hour; ``None`` if that isn't known.

    A pool whose cost isn't known and doesn't change adds nothing.
    """
    old, new = _changing(before, after, figure)
    sums = total(old, figure), total(new, figure)
    return None if sums[0] is None or sums[1] is None else round(sums[1] - sums[0], 4)


def added_gpus(before: Iterable[PoolCost], after: Iterable[PoolCost]) -> int | None:
    """Return how many GPUs a change adds to the most that the pools can have; ``None`` if that isn't known."""
    old, new = _changing(before, after, "max")
    sums = [[each.max_gpus for each in side] for side in (old, new)]
    return (
        None
        if None in (*sums[0], *sums[1])
        else sum(each or 0 for each in sums[1]) - sum(each or 0 for each in sums[0])
    )


def _changing(
    before: Iterable[PoolCost], after: Iterable[PoolCost], figure: Figure
) -> tuple[list[PoolCost], list[PoolCost]]:
    """Return the pools of both sides, without those whose cost isn't known and stays the same."""
    sides = list(before), list(after)
    alike = {_basis(each, figure) for each in sides[0]} & {_basis(each, figure) for each in sides[1]}
    old, new = (
        [each for each in side if each.figure(figure) is not None or _basis(each, figure) not in alike]
        for side in sides
    )
    return old, new


def _basis(cost: PoolCost, figure: Figure) -> tuple[object, ...]:
    """Return what a cost results from; two that aren't known are the same if it is the same."""
    nodes = {"min": cost.min_nodes, "requested": cost.requested_nodes, "max": cost.max_nodes}[figure]
    most = (cost.max_gpus, tuple(sorted(cost.limits.items()))) if figure == "max" else None
    return cost.cluster, cost.pool, cost.instance_types, cost.region, nodes, most


def without_bound(costs: Iterable[PoolCost], quota: str) -> frozenset[tuple[object, ...]]:
    """Return what the cost of each pool results from that may need any number of vCPUs of a quota."""
    return frozenset(_basis(each, "max") for each in costs if each.max_gpus is None and _may_need(each, quota))


def _may_need(cost: PoolCost, quota: str) -> bool:
    rows = [catalogue().get(each) for each in cost.instance_types]
    known = [find_quota(row, each) for row in rows if row for each in cost.capacity_types]
    return not known or None in rows or any(each and each.code == quota for each in known)


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotaIncrease:
    """vCPUs of an EC2 quota of which the pools need more than before.

    Attributes:
        quota: Code of the quota.
        region: Its region; ``None`` if it isn't known.
        account: AWS account; ``None`` if it isn't known.
        before: vCPUs that the pools needed at most.
        after: vCPUs that they need at most.
    """

    quota: str
    region: str | None
    account: str | None
    before: int
    after: int


def quota_increases(before: Iterable[PoolCost], after: Iterable[PoolCost]) -> tuple[QuotaIncrease, ...]:
    """Return the quotas of which pools need more than before. Each account has its own in each region.

    If a pool could need any number of a quota, and no longer does, the result isn't known.
    """
    sides = tuple(before), tuple(after)
    sums: list[dict[tuple[str | None, str | None, str], int]] = []
    for side in sides:
        found: dict[tuple[str | None, str | None, str], int] = {}
        for each in side:
            for code, count in each.vcpus.items():
                key = each.account, each.region, code
                found[key] = found.get(key, 0) + count
        sums.append(found)
    old, new = sums
    return tuple(
        QuotaIncrease(
            quota=code, region=region, account=account, before=old.get((account, region, code), 0), after=count
        )
        for (account, region, code), count in sorted(new.items(), key=str)
        if count > old.get((account, region, code), 0) and not _gets_bound(*sides, (account, region, code))
    )


def _gets_bound(before: Iterable[PoolCost], after: Iterable[PoolCost], key: tuple[str | None, str | None, str]) -> bool:
    """Whether a pool needed any number of vCPUs of a quota, and no longer does."""
    old, new = (
        without_bound([each for each in side if (each.account, each.region) == key[:2]], key[2])
        for side in (before, after)
    )
    return bool(old - new)
