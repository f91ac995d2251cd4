"""Whether all pools together hold all replicas of a workload, and in as many zones as it asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpu_constructs.facts.labels import ZONE
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.label_values import LabelValues
from gpu_constructs.preflight.model.reason import Reason
from gpu_constructs.preflight.scheduling.demand import Demand
from gpu_constructs.preflight.scheduling.verdict import PoolVerdict

_SHOWN = 4
_RULE = "GPU121"
# Rules whose reasons follow from the verdicts on all pools.
OF_ALL_POOLS = (_RULE,)


def shortage(wanted: Demand, pools: Sequence[PoolVerdict]) -> list[Reason]:
    """Return why some replicas stay without a node, or may, on the pools that take one of them.

    Args:
        wanted: What one pod asks for, and how many there are.
        pools: The verdict on each pool.
    """
    replicas = wanted.workload.replicas
    taking = [each for each in pools if each.answer is not Answer.NO]
    if not replicas or not taking or wanted.workload.takes_turns:
        return []
    zones = _zones(taking)
    if zones is not None and (text := _too_few_zones(wanted, replicas, len(zones))):
        return [Reason(Answer.NO, "topology", text, rule=_RULE)]
    # Whether a pool takes one is said with the pool; here it is how many.
    certain = [each for each in taking if each.answer is Answer.YES] or taking
    sure = _sum(each.holds for each in certain)
    most = _sum(each.may_hold for each in taking)
    if zones is not None and wanted.topology.skew:
        most = _evenly(taking, wanted.topology.skew, most)
        sure = most if most is not None and (sure is None or most < sure) else sure
    if sure is None or sure >= replicas:
        return []
    if most is None or most >= replicas:
        return [
            _reason(
                Answer.UNKNOWN, f"whether more than {sure} of {replicas} pods find room is not known", taking, wanted
            )
        ]
    return [_reason(Answer.NO, f"at most {most} of {replicas} pods run", taking, wanted)]


def _sum(amounts: Iterable[int | None]) -> int | None:
    """Return the sum, ``None`` where one has no bound."""
    total = 0
    for each in amounts:
        if each is None:
            return None
        total += each
    return total


def _reason(answer: Answer, text: str, taking: Sequence[PoolVerdict], wanted: Demand) -> Reason:
    apart = _alone_on_a_node(wanted)
    bounds = [f"{each.pool.name}: {each.binding}{apart}" for each in taking if each.binding]
    more = f" and {len(bounds) - _SHOWN} more pools" if len(bounds) > _SHOWN else ""
    shown = ", ".join(bounds[:_SHOWN]) + more
    return Reason(answer, "limit", f"{text} ({shown}); raise it" if shown else text, rule=_RULE)


def _alone_on_a_node(wanted: Demand) -> str:
    """Return why no node takes two of the pods, where that is what they ask."""
    if wanted.pod.host_ports:
        ports = ", ".join(str(number) for _, _, number in sorted(wanted.pod.host_ports))
        return f", one a node for host port {ports}"
    return ", one a node as they keep apart" if wanted.topology.one_per_node else ""


def _zones(taking: Iterable[PoolVerdict]) -> set[str] | None:
    """Return the zones in which pools make nodes, ``None`` where they are not known."""
    found: set[str] = set()
    for each in taking:
        of_pool = _zones_of(each)
        if of_pool is None:
            return None
        found |= of_pool
    return found


def _zones_of(judged: PoolVerdict) -> frozenset[str] | None:
    zones = [node.labels.get(ZONE) for node in judged.nodes_taking[:1]]
    return next((each.values for each in zones if isinstance(each, LabelValues) and not each.all_but), None)


def _too_few_zones(wanted: Demand, replicas: int, zones: int) -> str | None:
    if wanted.topology.domains > zones:
        return f"spreads over at least {wanted.topology.domains} zones, the pools that take it have {zones}"
    if wanted.topology.one_per_zone and replicas > zones:
        return f"wants a zone for each of {replicas} replicas, the pools that take it have {zones}"
    return None


def _evenly(taking: Sequence[PoolVerdict], skew: int, most: int | None) -> int | None:
    """Return how many pods run when no zone may have more than ``skew`` beyond the emptiest, which is full first."""
    by_zone: dict[str, int] = {}
    for each in taking:
        zones = _zones_of(each) or frozenset()
        if len(zones) != 1 or each.may_hold is None:
            return most
        [zone] = zones
        by_zone[zone] = by_zone.get(zone, 0) + each.may_hold
    least = min(by_zone.values())
    return sum(min(held, least + skew) for held in by_zone.values())
