"""How many pods a node holds, how many nodes a pool may have, which limit applies first, and Karpenter's minValues.

Source of minValues: sigs.k8s.io/karpenter v1.14.1 pkg/cloudprovider/types.go SatisfiesMinValues, over the types that
meet a pod's requirements and requests; pkg/controllers/provisioning/scheduling/nodeclaim.go
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpu_facts.light import dataclass
from gpu_facts.quantities import MIB, count, show
from gpu_facts.resources import GPU
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.label_values import LabelValues
from gpu_preflight.node.autoscaler_view import option
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.reading.unknown import Unknown, dig, known_number, known_text, mappings
from gpu_preflight.scheduling.demand import Demand

_POLICY = "minValuesPolicy"


@dataclass(frozen=True, slots=True)
class Growth:
    """How a pool gets more nodes than the nodes that always run.

    Attributes:
        answer: Whether an autoscaler adds nodes for pending pods.
        running: Number of nodes that always run.
        counted: Whether the pool has no more nodes than these without an autoscaler.
        why: Reasons why the pool doesn't grow, or why that isn't known.
    """

    answer: Answer = Answer.YES
    running: int = 0
    counted: bool = True
    why: str = ""

    @property
    def sure(self) -> int | None:
        """Number of nodes that the pool can certainly have; ``None`` if only its limits decide."""
        return None if self.answer is Answer.YES else self.running

    @property
    def most(self) -> int | None:
        """Max number of nodes that the pool can have; ``None`` if only its limits decide."""
        return self.running if self.answer is Answer.NO and self.counted else None


GROWS = Growth()


def pods_per_node(wanted: Demand, node: NodeToBe, *, at_most: bool = False) -> int:
    """Return the min or max number of such pods that fit on a fresh node."""
    claims_all = wanted.claimed is not None and wanted.claimed.own is None
    if wanted.pod.host_ports or wanted.topology.one_per_node or claims_all:
        return 1
    have = node.most if at_most else node.least
    requested = {name: asked for name, asked in wanted.requests.items() if asked > 0}
    counts = [have[name] // asked for name, asked in requested.items() if name not in node.unsaid and name in have]
    counts += [most // asked for name, asked in requested.items() if (most := node.devices_max(name)) is not None]
    return max(min(counts, default=1), 1)


def room(
    wanted: Demand,
    pool: Pool,
    taking: Sequence[NodeToBe],
    growth: Growth = GROWS,
    caps: tuple[float, float] = (math.inf, math.inf),
) -> tuple[int | None, int | None]:
    """Return the min and max number of such pods that a pool has room for. ``None`` means without limit.

    Args:
        wanted: The pods.
        pool: The pool.
        taking: A fresh node of each type that accepts one of the pods.
        growth: How the pool gets more nodes than the nodes that always run.
        caps: Min and max number of pods that a node may have, even if it has room for more.
    """
    surely, most = [_within(pool, taking, bound) for bound in (growth.sure, growth.most)]
    sure = [int(min(pods_per_node(wanted, node), caps[0])) * limit for node, limit in zip(taking, surely, strict=False)]
    may = [
        int(min(pods_per_node(wanted, node, at_most=True), caps[1])) * limit
        for node, limit in zip(taking, most, strict=False)
    ]
    # EC2 chooses among the types of a group. Karpenter chooses the type that fits.
    holds = (min if pool.is_group else max)(sure, default=None)
    # If a type isn't known, it isn't known how many pods fit on its nodes.
    return holds, None if any(node.row is None for node in taking) else max(may, default=None)


def _within(pool: Pool, taking: Sequence[NodeToBe], bound: int | None) -> list[int]:
    """Return how many nodes of each kind a pool may have within a limit, or nothing if a kind has no limit."""
    limits = [node_limit(pool, node, bound) for node in taking]
    return [] if None in limits else [each for each in limits if each is not None]


def nodes_needed(replicas: int, per_node: int) -> int:
    """Return how many nodes that number of pods needs."""
    return -(-replicas // per_node)


def node_limit(pool: Pool, node: NodeToBe, bound: int | None = None) -> int | None:
    """Return how many nodes of a kind a pool may have within its growth limit, or ``None`` without a limit."""
    most = None if pool.max_nodes is None else _left("nodes", pool.max_nodes, pool)
    bounds = [each for each in (most, bound) if each is not None]
    bounds += [
        _left(name, limit, pool) // size for name, limit in pool.limits.items() if (size := node_capacity(name, node))
    ]
    return min(bounds, default=None)


def binding_limit(pool: Pool, taking: Sequence[NodeToBe], nodes: int, growth: Growth = GROWS) -> str | None:
    """Return the tightest limit of the pool that leaves replicas without a node."""
    bounds: list[tuple[int, str]] = []
    if growth.sure is not None:
        run = "1 node runs" if growth.running == 1 else f"{growth.running} nodes run"
        bounds.append((growth.sure, f"{run}, but {growth.why}"))
    if pool.max_nodes is not None:
        running = f", of which {pool.in_use['nodes']} run" if pool.in_use.get("nodes") else ""
        text = f"its maximum is {count(pool.max_nodes, 'node')}{running}, but the pods need {nodes}"
        bounds.append((_left("nodes", pool.max_nodes, pool), text))
    for name, limit in pool.limits.items():
        smallest = min((node_capacity(name, node) for node in taking), default=0)
        if smallest > 0:
            most = _left(name, limit, pool) // smallest
            bounds.append((most, _limit_text(name, limit, most, nodes, pool)))
    tightest = min(bounds, default=None)
    return tightest[1] if tightest is not None and tightest[0] < nodes else None


def _left(name: str, limit: int, pool: Pool) -> int:
    """Return the part of a limit that running nodes don't use."""
    return max(limit - pool.in_use.get(name, 0), 0)


def _limit_text(name: str, limit: int, most: int, nodes: int, pool: Pool) -> str:
    of_pool = f"its limit of {show(name, limit)} {name}"
    if used := pool.in_use.get(name, 0):
        whole = f"running nodes use {show(name, used)} of {of_pool}"
        return f"{whole}, which leaves room for {count(most, 'node')}, but the pods need {nodes} more"
    if not most:
        return f"{of_pool} allows no node"
    return f"{of_pool} allows {count(most, 'node')}, but the pods need {nodes}"


def node_capacity(name: str, node: NodeToBe) -> int:
    """Return the amount that one node counts against a limit of its NodePool."""
    row = node.row
    if row is None:
        return 0
    figures: Mapping[str, int | None] = {
        GPU: row.ec2_gpus,
        "cpu": row.vcpus * 1000 if row.vcpus is not None else None,
        "memory": row.memory_mib * MIB if row.memory_mib is not None else None,
    }
    # Capacity that a NodeOverlay adds, such as shares of GPUs, counts too.
    return figures.get(name) or node.believed.get(name, 0)


def too_few_values(pool: Pool, taking: Iterable[NodeToBe], cluster: Cluster) -> Iterator[Reason]:
    """Yield each NodePool requirement for which the nodes that accept a pod have fewer values than its minValues."""
    if pool.kind != "karpenter":
        return
    nodes = list(taking)
    for key, least in least_values(pool):
        values = _values(key, nodes)
        if values is None or len(values) >= least:
            continue
        policy = option(cluster, _POLICY)
        if policy == "BestEffort":
            return
        fitting = f"only {count(len(values), 'value')} of it fit{'s' if len(values) == 1 else ''} the pod"
        text = f"minValues of {key} is {least}, but {fitting}: {', '.join(sorted(values))}"
        if isinstance(policy, Unknown):
            yield Reason(Answer.UNKNOWN, "label", f"{text}; it is unknown whether settings.{_POLICY} is BestEffort")
        else:
            yield Reason(Answer.NO, "label", f"{text}; lower minValues, or set settings.{_POLICY} to BestEffort")


def least_values(pool: Pool) -> Iterator[tuple[str, int]]:
    """Yield each label for which a NodePool sets minValues, and that number."""
    for each in mappings(dig(pool.properties, "template", "spec", "requirements")):
        key, least = known_text(each.get("key")), known_number(each.get("minValues"))
        if key and least:
            yield key, least


def _values(key: str, nodes: Iterable[NodeToBe]) -> set[str] | None:
    """Return the values that a label has on some nodes, or ``None`` if a node may have other values."""
    found: set[str] = set()
    for each in nodes:
        value = each.believed_labels.get(key)
        if not isinstance(value, LabelValues) or value.all_but:
            return None
        found |= value.values
    return found
