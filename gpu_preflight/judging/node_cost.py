"""Cost of the nodes that a workload uses."""

from __future__ import annotations

from gpu_facts.hardware.regions import HOURS_PER_MONTH, price_list, usd_per_hour
from gpu_facts.light import dataclass
from gpu_preflight.case import Case
from gpu_preflight.cluster.network import pool_region
from gpu_preflight.model.answer import Answer
from gpu_preflight.scheduling.pool_limits import nodes_needed, pods_per_node
from gpu_preflight.scheduling.verdict import PoolVerdict, Verdict


@dataclass(frozen=True, slots=True)
class NodeCost:
    """The nodes of one pool that all replicas of a workload need, as if they ran alone.

    Attributes:
        pool: Name of the pool.
        instance_type: Their type. For a NodePool the cheapest type for all replicas, for a group the most expensive
            one, because EC2 chooses.
        nodes: Number of nodes.
        capacity_types: Purchase options of the pool: ``on-demand``, ``spot``, ``reserved``, ``capacity-block``.
        usd_per_hour: On-demand list price of all of them, US dollars an hour; ``None`` if there is none.
        usd_per_month: The same for 730 hours.
        region: Region of the pool; ``None`` if it isn't known.
        price_list: The region whose list has the price; ``None`` if there is none.
    """

    pool: str
    instance_type: str
    nodes: int
    capacity_types: tuple[str, ...]
    usd_per_hour: float | None
    usd_per_month: float | None
    region: str | None
    price_list: str | None


def node_cost(case: Case, verdict: Verdict) -> NodeCost | None:
    """Return the cost of the nodes in the nearest pool that accepts a workload; ``None`` if no type is known."""
    runs = verdict.answer is Answer.YES or bool(verdict.runs_if)
    if not runs or verdict.workload.is_placed or verdict.workload.is_daemon_set:
        return None
    taking = (each for each in verdict.pools if each.answer is not Answer.NO and each.nodes)
    return next((cost for each in taking if (cost := _pool_cost(case, verdict, each)) is not None), None)


def _pool_cost(case: Case, verdict: Verdict, judged: PoolVerdict) -> NodeCost | None:
    pool, region, replicas = judged.pool, pool_region(judged.pool, case.cluster), verdict.workload.replicas or 1
    options: list[tuple[float, NodeCost]] = []
    for node in judged.nodes_taking:
        if node.row is None:
            return None
        nodes = nodes_needed(replicas, pods_per_node(verdict.demand, node))
        price = usd_per_hour(node.row, region)
        whole = None if price is None else round(price * nodes, 4)
        cost = NodeCost(
            pool.name,
            node.row.name,
            nodes,
            pool.capacity_types,
            usd_per_hour=whole,
            usd_per_month=None if whole is None else round(whole * HOURS_PER_MONTH, 2),
            region=region,
            price_list=None if whole is None else price_list(region),
        )
        # A type without a price doesn't count as the cheapest one.
        options.append((float("inf") if whole is None else whole, cost))
    choose = max if pool.is_group else min
    return choose(options, key=lambda each: each[0])[1] if options else None
