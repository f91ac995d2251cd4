"""All workloads on all pools together: how many nodes each pool needs, and which replicas stay without a node.

The pods that request the most GPUs are placed first. Each pod goes to the first node that has room for it, otherwise to
a new node of the nearest pool in its result. Karpenter and Cluster Autoscaler sort by CPU and memory instead, so the
number of unplaced replicas is a bound, not a forecast.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpu_facts.quantities import Resources
from gpu_facts.resources import GPU
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.container import HostPort, ports_clash
from gpu_preflight.model.pod import Workload
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.scheduling.demand import Demand
from gpu_preflight.scheduling.pool_limits import node_limit, pods_per_node
from gpu_preflight.scheduling.verdict import PoolVerdict, Verdict

# Max number of existing nodes that a group of pods tries before it opens a new one.
_LOOKED_INTO = 64


@dataclass(slots=True)
class _Open:
    """Nodes of one pool that hold the same pods and have the same host ports in use."""

    node: NodeToBe
    free: dict[str, int]
    count: int
    ports: frozenset[HostPort] = frozenset()

    def room(self, wanted: Demand) -> int:
        """Return how many such pods fit on each of the nodes."""
        taken = bool(self.ports) and ports_clash(wanted.pod.host_ports, self.ports)
        room = 0 if taken else _times(wanted.requests, self.free)
        alone = wanted.topology.one_per_node or wanted.pod.host_ports
        return min(room, 1) if alone else room


@dataclass(frozen=True, slots=True)
class PoolUse:
    """The load of one pool.

    Attributes:
        pool: The pool.
        nodes: Nodes in use.
        gpus: GPUs of those nodes.
        pods: Pods on them, by workload.
        types: Number of nodes of each known instance type.
    """

    pool: Pool
    nodes: int
    gpus: int
    pods: Mapping[str, int]
    types: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Filling:
    """A pool while pods are placed onto its nodes, and the nodes that still have room."""

    pool: Pool
    nodes: int = 0
    gpus: int = 0
    pods: dict[str, int] = field(default_factory=dict)
    open: list[_Open] = field(default_factory=list)
    types: dict[str, int] = field(default_factory=dict)

    def copy(self) -> _Filling:
        """Return a copy of the pool and its load."""
        open_ = [_Open(each.node, each.free, each.count, each.ports) for each in self.open]
        return _Filling(self.pool, self.nodes, self.gpus, dict(self.pods), open_, dict(self.types))


@dataclass(frozen=True, slots=True)
class Packing:
    """The load of all pools when several workloads run at the same time.

    Attributes:
        uses: The load of each pool.
        left: Replicas without a node, by workload.
    """

    uses: tuple[PoolUse, ...]
    left: tuple[tuple[Workload, int], ...]


class Filled:
    """Nodes of pools, onto which workloads are placed one after another."""

    def __init__(self, uses: Mapping[int, _Filling] | None = None) -> None:
        """Start with nodes that are already in use, or with none."""
        self._uses: dict[int, _Filling] = dict(uses or {})

    def copy(self) -> Filled:
        """Return a copy with the same load, onto which other pods can be placed."""
        return Filled({pool: use.copy() for pool, use in self._uses.items()})

    def place_pods(self, verdicts: Iterable[Verdict]) -> list[tuple[Workload, int]]:
        """Place the pods of workloads onto nodes, and return the replicas without a node, by workload."""
        alike: dict[tuple[int, int | None], list[Verdict]] = {}
        for each in verdicts:
            if not each.workload.is_daemon_set:
                alike.setdefault((id(each.pools), each.workload.priority), []).append(each)
        left: list[tuple[Workload, int]] = []
        for group in sorted(alike.values(), key=lambda each: _gpus_first(each[0])):
            usable = [each for each in group[0].pools if each.answer is not Answer.NO]
            if usable:
                left += _place_all(group, usable, self._uses)
        return left

    def spread(self, verdicts: Iterable[Verdict]) -> None:
        """Place the pods of workloads as evenly as possible onto all nodes that can exist.

        kube-scheduler spreads pods over running nodes in this way: it prefers the node with the most free resources.
        Source: kubernetes v1.36.1 pkg/scheduler/framework/plugins/noderesources/least_allocated.go
        """
        for verdict in verdicts:
            usable = [each for each in verdict.pools if each.answer is not Answer.NO and each.nodes_taking]
            for each in usable:
                _open_all(each, self._uses.setdefault(id(each.pool), _Filling(each.pool)))
            _spread(verdict.demand, _replicas(verdict.workload), [self._uses[id(each.pool)] for each in usable])

    @property
    def uses(self) -> tuple[PoolUse, ...]:
        """The load of each pool."""
        return tuple(PoolUse(each.pool, each.nodes, each.gpus, each.pods, each.types) for each in self._uses.values())


def pack(*verdicts: Iterable[Verdict]) -> Packing:
    """Place the pods of workloads onto the nodes of pools, one list of workloads after the other."""
    filled = Filled()
    left = [each for lot in verdicts for each in filled.place_pods(lot)]
    return Packing(filled.uses, tuple(left))


def _place_all(
    group: list[Verdict], usable: list[PoolVerdict], uses: dict[int, _Filling]
) -> list[tuple[Workload, int]]:
    """Place the replicas of workloads that are alike, and return the replicas without a node."""
    waiting = [(each.workload, _replicas(each.workload)) for each in reversed(group)]
    remaining = sum(count for _, count in waiting)
    for verdict in usable:
        if not remaining:
            break
        use = uses.setdefault(id(verdict.pool), _Filling(verdict.pool))
        placed = _place(group[0].demand, verdict, use, remaining)
        remaining -= placed
        _attribute(placed, waiting, use)
    return [each for each in waiting if each[1]]


def _replicas(workload: Workload) -> int:
    return 1 if workload.replicas is None else workload.replicas


def _attribute(placed: int, waiting: list[tuple[Workload, int]], use: _Filling) -> None:
    while placed and waiting:
        workload, count = waiting.pop()
        taken = min(placed, count)
        use.pods[workload.name] = use.pods.get(workload.name, 0) + taken
        placed -= taken
        if count > taken:
            waiting.append((workload, count - taken))


def _gpus_first(verdict: Verdict) -> tuple[int, int, int, int]:
    priority, requests = verdict.workload.priority or 0, verdict.demand.requests
    return -priority, -verdict.demand.gpus, -requests.get("cpu", 0), -requests.get("memory", 0)


def _place(wanted: Demand, verdict: PoolVerdict, use: _Filling, remaining: int) -> int:
    placed = _into_open(wanted, use, remaining)
    if placed < remaining and verdict.nodes_taking:
        node = min(verdict.nodes_taking, key=_size)
        placed += _into_new(wanted, node, use, remaining - placed, verdict.growth.sure)
    return placed


def _open_all(verdict: PoolVerdict, use: _Filling) -> None:
    """Open every node that a pool can have, if that number is limited."""
    node = min(verdict.nodes_taking, key=_size)
    more = (node_limit(use.pool, node, verdict.growth.sure) or 0) - use.nodes
    if more > 0:
        use.nodes += more
        use.open.append(_Open(node, dict(node.most), more))


def _spread(wanted: Demand, remaining: int, uses: Iterable[_Filling]) -> None:
    rooms = [(use, each, room) for use in uses for each in use.open if (room := each.room(wanted))]
    nodes = sum(each.count for _, each, _ in rooms)
    for use, each, room in rooms:
        pods = min(-(-remaining * each.count // nodes), room * each.count, remaining)
        nodes -= each.count
        remaining -= pods
        if pods:
            _split(use, each, min(each.count, pods), wanted, pods)


def _size(node: NodeToBe) -> tuple[int, int]:
    return node.most.get(GPU, 0), node.most.get("cpu", 0)


def _into_open(wanted: Demand, use: _Filling, remaining: int) -> int:
    placed = 0
    for each in use.open[-_LOOKED_INTO:]:
        room = each.room(wanted)
        if room and placed < remaining:
            nodes = min(each.count, -(-(remaining - placed) // room))
            pods = min(nodes * room, remaining - placed)
            placed += pods
            _split(use, each, nodes, wanted, pods)
    return placed


def _split(use: _Filling, each: _Open, nodes: int, wanted: Demand, pods: int) -> None:
    each.count -= nodes
    full, over = divmod(pods, nodes)
    for count, held in ((nodes - over, full), (over, full + 1)):
        if count:
            ports = each.ports | wanted.pod.host_ports if held else each.ports
            use.open.append(_Open(each.node, _less(each.free, wanted.requests, held), count, ports))
    if not each.count:
        use.open.remove(each)


def _into_new(wanted: Demand, node: NodeToBe, use: _Filling, remaining: int, bound: int | None) -> int:
    per_node = pods_per_node(wanted, node)
    allowed = node_limit(use.pool, node, bound)
    nodes = -(-remaining // per_node)
    if allowed is not None:
        nodes = min(nodes, max(allowed - use.nodes, 0))
    placed = min(nodes * per_node, remaining)
    if not placed:
        return 0
    use.nodes += nodes
    if node.row is not None:
        use.gpus += nodes * node.row.gpus
        use.types[node.row.name] = use.types.get(node.row.name, 0) + nodes
    full, over = divmod(placed, nodes)
    for count, held in ((nodes - over, full), (over, full + 1)):
        if count and held:
            use.open.append(_Open(node, _less(node.most, wanted.requests, held), count, wanted.pod.host_ports))
    return placed


def _times(requests: Resources, free: Resources) -> int:
    counts = [free.get(name, 0) // asked for name, asked in requests.items() if asked > 0]
    return max(min(counts, default=0), 0)


def _less(free: Resources, requests: Resources, times: int) -> dict[str, int]:
    return {name: amount - requests.get(name, 0) * times for name, amount in free.items()}
