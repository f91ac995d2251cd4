"""Anti-affinity between workloads. Required anti-affinity applies in both directions, in any order of start.

Source: kubernetes/kubernetes v1.36.1 pkg/scheduler/framework/plugins/interpodaffinity/filtering.go, where the
anti-affinity of running pods rejects a pod that it selects.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpu_facts.labels import HOSTNAME, ZONE
from gpu_facts.light import dataclass
from gpu_preflight.model.answer import Answer, Reason, all_yes
from gpu_preflight.model.pod import PodTerm
from gpu_preflight.reading.unknown import known_text
from gpu_preflight.scheduling.pool_limits import node_limit, nodes_needed, pods_per_node
from gpu_preflight.scheduling.topology import OF_ZONES, selected
from gpu_preflight.scheduling.verdict import PoolVerdict, Verdict

_RULE = "GPU374"


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two workloads that can't both have pods in one domain.

    Attributes:
        first: The workload that already has its place.
        second: The workload that needs a place next to it.
        key: The label that identifies domains.
        certain: Whether the anti-affinity certainly applies, and both workloads run alone.
    """

    first: Verdict
    second: Verdict
    key: str | None
    certain: bool


def anti_affinity_reasons(together: Sequence[Verdict], asked: Iterable[Verdict]) -> dict[int, Reason]:
    """Return why some of the `asked` workloads may find no place apart from others, by the id of the result.

    Args:
        together: Workloads that run at the same time.
        asked: The workloads among them that need a place.
    """
    wanted, found = {id(each) for each in asked}, dict[int, Reason]()
    for one, other, term, answer in _terms(together):
        first, second = _in_order(one, other, wanted)
        if id(second) not in wanted:
            continue
        certain = all_yes((answer, first.answer, second.answer)) is Answer.YES
        pair = _Pair(first, second, known_text(term.key), certain)
        reason = _reason(pair)
        if reason and (id(second) not in found or reason.answer is Answer.NO):
            found[id(second)] = reason
        if reason and reason.answer is Answer.UNKNOWN and id(first) in wanted:
            found.setdefault(id(first), _not_known(first, second, pair.key))
    return found


def service_anti_affinity_reasons(services: Sequence[Verdict], asked: Iterable[Verdict]) -> dict[int, Reason]:
    """Return why some of the `asked` workloads may find no place apart from services without GPUs, by the id.

    Args:
        services: The result for each service that requests no GPU.
        asked: The results for workloads that request GPUs.
    """
    every, near = list(asked), [each for each in services if each.workload.replicas != 0]
    keeping = [each for each in near if each.workload.pod.apart]
    found: dict[int, Reason] = {}
    for likes in _alike(each for each in every if near and (keeping or each.workload.pod.apart)):
        reasons = (_from(service, likes[0]) for service in (near if likes[0].workload.pod.apart else keeping))
        if reason := next((each for each in reasons if each is not None), None):
            found |= {id(each): reason for each in likes}
    return found


def _alike(verdicts: Iterable[Verdict]) -> list[list[Verdict]]:
    """Return one result for each group of workloads with the same anti-affinity."""
    alike: dict[tuple[object, ...], list[Verdict]] = {}
    for each in verdicts:
        pods = each.workload
        rank = pods.priority, pods.preempts
        key = id(each.pools), id(pods.pod), pods.namespace, repr(pods.labels), pods.replicas, rank
        alike.setdefault(key, []).append(each)
    return list(alike.values())


def _from(service: Verdict, asked: Verdict) -> Reason | None:
    """Return why it isn't known whether a workload finds a place next to a service, which stays where it is."""
    terms = [term for _, _, term, _ in _terms((service, asked))]
    if not terms or _puts_aside(asked, service):
        return None
    for key in {known_text(each.key) for each in terms}:
        first, second = _usable(service), _usable(asked)
        if key == HOSTNAME:
            free = _is_left_free(service, asked, first, second)
        else:
            free = _meet_in_domains(_Pair(service, asked, key, False), first, second) is Answer.YES
        if not free:
            return _not_known(asked, service, key)
    return None


def _puts_aside(one: Verdict, other: Verdict) -> bool:
    """Whether the pods of one workload preempt the pods of another."""
    ranks = one.workload.priority, other.workload.priority
    return one.workload.preempts and None not in ranks and (ranks[0] or 0) > (ranks[1] or 0)


def _is_left_free(
    service: Verdict, asked: Verdict, first: Iterable[PoolVerdict], second: Sequence[PoolVerdict]
) -> bool:
    """Whether nodes are left for a workload in every placement of a service's pods."""
    if {id(each.pool) for each in first}.isdisjoint(id(each.pool) for each in second):
        return True
    spread = math.inf if service.workload.replicas is None else service.workload.replicas
    return spread + _nodes(asked, second) <= sum(_sure_nodes(each) for each in second if each.answer is Answer.YES)


def _terms(together: Sequence[Verdict]) -> Iterator[tuple[Verdict, Verdict, PodTerm, Answer]]:
    """Yield each workload with anti-affinity to another, with the term, and whether it certainly applies."""
    for one in together:
        for term in one.workload.pod.apart:
            for other in together:
                if other is not one and (answer := _means(term, one, other)) is not Answer.NO:
                    yield one, other, term, answer


def _means(term: PodTerm, one: Verdict, other: Verdict) -> Answer:
    """Return whether a term of one workload selects the pods of another."""
    written = term.selector.get("matchLabels") if isinstance(term.selector, Mapping) else None
    if isinstance(written, Mapping) and any(
        _differs(other.workload.labels.get(key), each) for key, each in written.items()
    ):
        return Answer.NO
    answer = selected(term.selector, other.workload)
    if term.among(other.workload.namespace, one.workload.namespace):
        return answer
    return Answer.NO if answer is Answer.NO or term.namespaces is not None else Answer.UNKNOWN


def _differs(have: Any, wanted: Any) -> bool:
    return have is None or (isinstance(have, str) and isinstance(wanted, str) and have != wanted)


def _in_order(one: Verdict, other: Verdict, wanted: set[int]) -> tuple[Verdict, Verdict]:
    """Return two workloads in the order of placement: a service before a job, then the higher priority."""
    ranks = [(id(each) in wanted, each.workload.ends, -(each.workload.priority or 0)) for each in (one, other)]
    return (other, one) if ranks[1] < ranks[0] else (one, other)


def _reason(pair: _Pair) -> Reason | None:
    first, second = _usable(pair.first), _usable(pair.second)
    if 0 in (pair.first.workload.replicas, pair.second.workload.replicas):
        return None
    meet = _meet_on_nodes(pair, first, second) if pair.key == HOSTNAME else _meet_in_domains(pair, first, second)
    if meet is Answer.YES:
        return None
    if meet is Answer.NO and pair.certain:
        where = "node" if pair.key == HOSTNAME else "zone"
        text = f"has anti-affinity to {pair.first.workload.name}, which leaves no {where} for it"
        return Reason(Answer.NO, "topology", f"{text}; raise a pool's maximum, or remove the anti-affinity", rule=_RULE)
    return _not_known(pair.second, pair.first, pair.key)


def _not_known(verdict: Verdict, other: Verdict, key: str | None) -> Reason:
    where = {HOSTNAME: "node", ZONE: "zone"}.get(key or "", "domain")
    text = f"it is unknown whether a {where} is left without {other.workload.name}, to which it has anti-affinity"
    return Reason(Answer.UNKNOWN, "topology", text, rule=_RULE)


def _usable(verdict: Verdict) -> list[PoolVerdict]:
    return [each for each in verdict.pools if each.answer is not Answer.NO]


def _meet_on_nodes(pair: _Pair, first: Sequence[PoolVerdict], second: Sequence[PoolVerdict]) -> Answer:
    """Return whether two workloads find nodes apart from each other."""
    shared = {id(each.pool) for each in first} & {id(each.pool) for each in second}
    if not shared:
        return Answer.YES
    every = {id(each.pool): each for each in (*first, *second)}
    least = [_nodes(pair.first, first, at_most=True), _nodes(pair.second, second, at_most=True)]
    if sum(least) > sum(map(_most_nodes, every.values())):
        return Answer.NO
    # The workload that starts first may use one node for each of its pods.
    for one, other, pools in ((pair.first, pair.second, second), (pair.second, pair.first, first)):
        spread = math.inf if one.workload.replicas is None else one.workload.replicas
        if spread + _nodes(other, pools) > sum(_sure_nodes(each) for each in pools if each.answer is Answer.YES):
            return Answer.UNKNOWN
    return Answer.YES


def _nodes(verdict: Verdict, pools: Iterable[PoolVerdict], *, at_most: bool = False) -> float:
    """Return how many nodes the pods of a workload need, if each node holds the min, or with ``at_most`` the max."""
    replicas = verdict.workload.replicas
    counts = [pods_per_node(verdict.demand, node, at_most=at_most) for each in pools for node in each.nodes_taking]
    if replicas is None or not counts:
        return 0 if at_most else math.inf
    return nodes_needed(replicas, max(counts) if at_most else min(counts))


def _most_nodes(judged: PoolVerdict) -> float:
    limits = [node_limit(judged.pool, each, judged.growth.most) for each in judged.nodes_taking]
    return max((math.inf if each is None else each for each in limits), default=math.inf)


def _sure_nodes(judged: PoolVerdict) -> float:
    limits = [node_limit(judged.pool, each, judged.growth.sure) for each in judged.nodes_taking]
    return min((math.inf if each is None else each for each in limits), default=0)


def _meet_in_domains(pair: _Pair, first: Sequence[PoolVerdict], second: Sequence[PoolVerdict]) -> Answer:
    """Return whether two workloads find zones apart from each other. For other domains, the number isn't known."""
    zones = _zones(first), _zones(second)
    if pair.key not in OF_ZONES or not all(zones):
        return Answer.UNKNOWN
    if zones[0].isdisjoint(zones[1]):
        return Answer.YES
    return Answer.NO if len(zones[0] | zones[1]) == 1 else Answer.UNKNOWN


def _zones(pools: Iterable[PoolVerdict]) -> frozenset[str]:
    """Return the zones of pools, or none if a zone isn't known. Results of pools that are alike share their nodes."""
    every = [each.pool.zones or (None,) for each in pools]
    known = [zone for zones in every for zone in zones if isinstance(zone, str)]
    return frozenset(known) if len(known) == sum(map(len, every)) else frozenset()
