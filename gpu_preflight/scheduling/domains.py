"""Whether there is a topology domain for each group of pods that wants one to itself, and room in it for the group.

The first pod of a group keeps off domains of other groups, and the others follow it by node selector or affinity.
Sources: kubernetes-sigs/jobset pkg/webhooks/pod_mutating_webhook.go, kubernetes-sigs/lws pkg/webhooks/pod_webhook.go
(2026-11)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from gpu_facts.labels import HOSTNAME, NODE_GROUP
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.exclusive import Exclusive
from gpu_preflight.model.label_values import LabelValues
from gpu_preflight.model.reason import Reason
from gpu_preflight.reading.unknown import known_text
from gpu_preflight.scheduling.demand import Demand
from gpu_preflight.scheduling.pool_limits import node_limit, pods_per_node
from gpu_preflight.scheduling.verdict import PoolVerdict

# A domain, and for how many pods it surely has room, and at most.
_Domain = tuple[object, float, float]


def too_few_domains(wanted: Demand, taking: Sequence[PoolVerdict]) -> Reason | None:
    """Return why some groups find no domain to themselves, or may find none.

    Args:
        wanted: What one pod asks for.
        taking: The pools that take one of them, or may.
    """
    groups = wanted.workload.exclusive
    if groups is None or groups.groups == 0:
        return None
    key = known_text(groups.key)
    if key is None or groups.labelled or groups.groups is None or groups.size is None:
        return Reason(Answer.UNKNOWN, "topology", _not_known("domain", None))
    sure, most = _domains(wanted, key, groups.size, taking)
    where = "node" if key == HOSTNAME else key
    if most < groups.groups:
        pods = f" with room for {groups.size} pods" if groups.size > 1 else ""
        text = f"wants a {where} to itself for each of {groups.groups} groups, and there are {int(most)}{pods}"
        return Reason(Answer.NO, "topology", f"{text}; raise the maximum of a pool, or make the groups smaller")
    if groups.shared or groups.beside is None or sure < groups.groups + groups.beside:
        return Reason(Answer.UNKNOWN, "topology", _not_known(where, groups))
    return None


def _not_known(where: str, groups: Exclusive | None) -> str:
    count = f"each of {groups.groups} groups" if groups else "each group"
    return f"whether {count} finds a {where} to itself, with room for all of its pods, is not known"


def _domains(wanted: Demand, key: str, size: int, taking: Sequence[PoolVerdict]) -> tuple[float, float]:
    """Return how many domains surely have room for a group, and how many at most."""
    if key == HOSTNAME:
        return _nodes(wanted, size, taking)
    rooms: dict[object, tuple[float, float]] = {}
    for each in taking:
        for domain, sure, most in _of_pool(key, each):
            known = rooms.get(domain, (0, 0))
            rooms[domain] = known[0] + sure, known[1] + most
    unknown = rooms.pop(None, None)
    sure_ones = sum(sure >= size for sure, _ in rooms.values())
    return sure_ones, math.inf if unknown else sum(most >= size for _, most in rooms.values())


def _nodes(wanted: Demand, size: int, taking: Sequence[PoolVerdict]) -> tuple[float, float]:
    """Return how many nodes surely have room for a group, and how many at most."""
    sure, most = 0.0, 0.0
    for each in taking:
        least = [pods_per_node(wanted, node) for node in each.nodes_taking]
        if each.answer is Answer.YES and min(least, default=0) >= size:
            sure += min(_limits(each, each.growth.sure))
        full = [pods_per_node(wanted, node, at_most=True) for node in each.nodes_taking]
        if max(full, default=0) >= size or any(node.row is None for node in each.nodes_taking):
            most += max(_limits(each, each.growth.most))
    return sure, most


def _limits(judged: PoolVerdict, bound: int | None) -> list[float]:
    limits = [node_limit(judged.pool, node, bound) for node in judged.nodes_taking]
    return [math.inf if each is None else each for each in limits]


def _of_pool(key: str, judged: PoolVerdict) -> Iterator[_Domain]:
    """Yield the domains in which a pool makes nodes, ``None`` for one that is not known."""
    most = math.inf if judged.may_hold is None else judged.may_hold
    values = list(_values(key, judged))
    for each in values:
        # Where a node of several domains comes up is not for the pods to say, except under Karpenter.
        steered = len(values) == 1 or (not judged.pool.is_group and judged.holds is None)
        holds = math.inf if judged.holds is None else judged.holds
        yield each, holds if steered and each is not None and judged.answer is Answer.YES else 0, most


def _values(key: str, judged: PoolVerdict) -> Iterable[object]:
    pool = judged.pool
    if key == NODE_GROUP and pool.kind == "managed":
        return [(key, id(pool))]
    # Which pools come into one is not known of other labels that only a running node has.
    value = judged.nodes_taking[0].labels.get(key) if judged.nodes_taking else None
    return sorted(value.values) if isinstance(value, LabelValues) and not value.all_but else [None]
