"""How many pods a node takes, how many nodes a pool may have, and which limit stops first."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_constructs.facts.quantities import MIB, show
from gpu_constructs.facts.resources import GPU
from gpu_constructs.preflight.model.cluster import Pool
from gpu_constructs.preflight.node.nodes import NodeToBe
from gpu_constructs.preflight.scheduling.demand import Demand


def pods_per_node(wanted: Demand, node: NodeToBe, *, at_most: bool = False) -> int:
    """Return how many such pods a fresh node takes for sure, or at most."""
    if wanted.pod.host_ports or wanted.topology.one_per_node:
        return 1
    have = node.most if at_most else node.least
    counts = [
        have[name] // asked
        for name, asked in wanted.requests.items()
        if asked > 0 and name not in node.unsaid and name in have
    ]
    return max(min(counts, default=1), 1)


def room(wanted: Demand, pool: Pool, taking: list[NodeToBe]) -> tuple[int | None, int | None]:
    """Return for how many such pods a pool surely has room, and at most; ``None`` without bound."""
    limits = [node_limit(pool, node) for node in taking]
    if None in limits:
        return None, None
    bounded = [(node, limit) for node, limit in zip(taking, limits, strict=True) if limit is not None]
    sure = [pods_per_node(wanted, node) * limit for node, limit in bounded]
    # EC2 chooses among the types of a group, Karpenter takes the one that suits.
    surely = min(sure) if pool.is_group else max(sure)
    if any(node.row is None for node in taking):
        return surely, None  # Of a type that is not known nobody can say how many pods fit.
    return surely, max(pods_per_node(wanted, node, at_most=True) * limit for node, limit in bounded)


def nodes_needed(replicas: int, per_node: int) -> int:
    """Return how many nodes so many pods need."""
    return -(-replicas // per_node)


def node_limit(pool: Pool, node: NodeToBe) -> int | None:
    """Return how many nodes of a kind a pool may have, ``None`` without a bound."""
    bounds = [] if pool.max_nodes is None else [pool.max_nodes]
    bounds += [limit // size for name, limit in pool.limits.items() if (size := _capacity(name, node))]
    return min(bounds, default=None)


def binding_limit(pool: Pool, taking: list[NodeToBe], nodes: int) -> str | None:
    """Return the limit of the pool that leaves replicas without a node, the tightest first."""
    bounds: list[tuple[int, str]] = []
    if pool.max_nodes is not None:
        bounds.append((pool.max_nodes, f"the pool has at most {pool.max_nodes} nodes, {nodes} are needed"))
    for name, limit in pool.limits.items():
        smallest = min((_capacity(name, node) for node in taking), default=0)
        if smallest > 0:
            most = limit // smallest
            shown = f"limit {show(name, limit)} {name} of the NodePool allows {most} nodes, {nodes} are needed"
            bounds.append((most, shown if most else f"no node fits limit {show(name, limit)} {name} of the NodePool"))
    tightest = min(bounds, default=None)
    return tightest[1] if tightest is not None and tightest[0] < nodes else None


def _capacity(name: str, node: NodeToBe) -> int:
    """Return what one node counts against a limit of its NodePool."""
    row = node.row
    if row is None:
        return 0
    figures: Mapping[str, int | None] = {
        GPU: row.ec2_gpus,
        "cpu": row.vcpus * 1000 if row.vcpus is not None else None,
        "memory": row.memory_mib * MIB if row.memory_mib is not None else None,
    }
    # What a NodeOverlay adds counts as well, e.g. shares of GPUs.
    return figures.get(name) or node.believed.get(name, 0)
