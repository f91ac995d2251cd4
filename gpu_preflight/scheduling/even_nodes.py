"""How many pods a node may have where they are spread evenly over nodes: the emptiest node holds the others back.

Every node counts that the pods' node selector takes, one without GPUs too, unless they honor taints.
Source: kubernetes/kubernetes v1.36.1 pkg/scheduler/framework/plugins/podtopologyspread/{common,filtering}.go
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gpu_preflight.model.answer import Answer, all_of, yes_if
from gpu_preflight.model.taints import untolerated
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.scheduling.demand import Demand
from gpu_preflight.scheduling.pool_limits import pods_per_node, room
from gpu_preflight.scheduling.topology import Evenly
from gpu_preflight.scheduling.verdict import PoolVerdict


def counts(wanted: Demand, node: NodeToBe, spread: Evenly) -> Answer:
    """Say whether a node counts among those that pods are spread over."""
    chosen = wanted.pod.selection.takes(node.labels) if spread.honors_labels else Answer.YES
    taints = [answer for _, answer in untolerated(wanted.pod.tolerations, node.taints)] if spread.honors_taints else []
    return all_of((chosen, yes_if(Answer.NO not in taints), *(each for each in taints if each is Answer.UNKNOWN)))


def pods_on_a_node(
    wanted: Demand, spread: Evenly, taking: Sequence[PoolVerdict], refusing: Sequence[PoolVerdict]
) -> tuple[float, float]:
    """Return how many of the pods any node may have for sure, and at most.

    Args:
        wanted: The pods.
        spread: How evenly they are spread over nodes.
        taking: The pools that take one of them.
        refusing: The other pools, with a fresh node of each of their types.
    """
    emptiest = min((least for each in taking for least, _ in _held(wanted, each)), default=math.inf)
    fullest = min((max(_held(wanted, each))[1] for each in taking if each.pool.min_nodes), default=math.inf)
    there = sum(each.pool.min_nodes or 0 for each in taking)
    for each in refusing:
        answer = all_of(counts(wanted, node, spread) for node in each.nodes_refusing)
        if not each.nodes_refusing or answer is Answer.NO or each.pool.max_nodes == 0:
            continue
        emptiest = 0
        if answer is Answer.YES and each.pool.min_nodes:
            fullest, there = 0, there + each.pool.min_nodes
    if there < spread.domains:
        emptiest = 0
    return emptiest + spread.skew, fullest + spread.skew


def _held(wanted: Demand, judged: PoolVerdict) -> list[tuple[int, int]]:
    """Return how many pods each node of a pool has room for, and at most."""
    return [(pods_per_node(wanted, each), pods_per_node(wanted, each, at_most=True)) for each in judged.nodes_taking]


def room_below(wanted: Demand, judged: PoolVerdict, caps: tuple[float, float]) -> tuple[int | None, int | None]:
    """Return for how many pods a pool surely has room, and at most, where no node has more than some."""
    return room(wanted, judged.pool, judged.nodes_taking, judged.growth, caps)


def kept_even(wanted: Demand, taking: Iterable[PoolVerdict]) -> str:
    """Return what keeps nodes from being filled, where that is what the pods ask."""
    spread = wanted.topology.over_nodes
    if spread is None or all(least <= spread.skew for each in taking for least, _ in _held(wanted, each)):
        return ""
    return f", as no node may have over {spread.skew} more than the emptiest one"
