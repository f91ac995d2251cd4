"""Whether the pools have room for all replicas of a workload, in as many zones or domains as it requires.

Exclusive placement: the module checks whether each group of pods finds a separate topology domain with room for the
whole group. The first pod of a group avoids domains that other groups use. The other pods follow it by node selector or
affinity.
Sources: kubernetes-sigs/jobset pkg/webhooks/pod_mutating_webhook.go, kubernetes-sigs/lws pkg/webhooks/pod_webhook.go
(2026-11)

Spread over nodes: the node with the fewest pods limits how many pods every other node may have. Every node that matches
the pods' node selector counts, also a node without GPUs, unless the constraint honors taints.
Source: kubernetes/kubernetes v1.36.1 pkg/scheduler/framework/plugins/podtopologyspread/{common,filtering}.go
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpu_facts.labels import HOSTNAME, NODE_GROUP, ZONE
from gpu_preflight.model.answer import Answer, Reason, all_yes, worst, yes_if
from gpu_preflight.model.label_values import LabelValues
from gpu_preflight.model.pod import Exclusive
from gpu_preflight.model.taints import untolerated
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.reading.unknown import known_text
from gpu_preflight.scheduling.demand import Demand
from gpu_preflight.scheduling.pool_limits import node_limit, pods_per_node, room
from gpu_preflight.scheduling.topology import Evenly
from gpu_preflight.scheduling.verdict import PoolVerdict

# A domain, and the min and max number of pods that it has room for.
_Domain = tuple[object, float, float]
_SHOWN = 4
_RULE = "GPU121"
# Rules whose reasons result from the checks of all pools together.
OF_ALL_POOLS = (_RULE,)


def too_few_domains(wanted: Demand, taking: Sequence[PoolVerdict]) -> Reason | None:
    """Return why some groups find no domain for themselves, or may find none.

    Args:
        wanted: The requests of one pod.
        taking: The pools that accept one of the pods, or may accept it.
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
        text = f"requires a separate {where} for each of {groups.groups} groups, and there are {int(most)}{pods}"
        return Reason(Answer.NO, "topology", f"{text}; raise the maximum of a pool, or make the groups smaller")
    if groups.shared or groups.beside is None or sure < groups.groups + groups.beside:
        return Reason(Answer.UNKNOWN, "topology", _not_known(where, groups))
    return None


def _not_known(where: str, groups: Exclusive | None) -> str:
    count = f"each of {groups.groups} groups" if groups else "each group"
    return f"it is unknown whether {count} finds its own {where}, with room for all of its pods"


def _domains(wanted: Demand, key: str, size: int, taking: Sequence[PoolVerdict]) -> tuple[float, float]:
    """Return the min and max number of domains with room for a group."""
    if key == HOSTNAME:
        return _nodes(wanted, size, taking)
    rooms: dict[object, tuple[float, float]] = {}
    for each in taking:
        for domain, sure, most in _pool_domains(key, each):
            known = rooms.get(domain, (0, 0))
            rooms[domain] = known[0] + sure, known[1] + most
    unknown = rooms.pop(None, None)
    sure_ones = sum(sure >= size for sure, _ in rooms.values())
    return sure_ones, math.inf if unknown else sum(most >= size for _, most in rooms.values())


def _nodes(wanted: Demand, size: int, taking: Sequence[PoolVerdict]) -> tuple[float, float]:
    """Return the min and max number of nodes with room for a group."""
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


def _pool_domains(key: str, judged: PoolVerdict) -> Iterator[_Domain]:
    """Yield the domains in which a pool launches nodes, and ``None`` for a domain that isn't known."""
    most = math.inf if judged.may_hold is None else judged.may_hold
    values = list(_values(key, judged))
    for each in values:
        # If nodes may start in several domains, pods can't choose one, except with Karpenter.
        steered = len(values) == 1 or (not judged.pool.is_group and judged.holds is None)
        holds = math.inf if judged.holds is None else judged.holds
        yield each, holds if steered and each is not None and judged.answer is Answer.YES else 0, most


def _values(key: str, judged: PoolVerdict) -> Iterable[object]:
    pool = judged.pool
    if key == NODE_GROUP and pool.kind == "managed":
        return [(key, id(pool))]
    # For other labels that only a running node has, it isn't known which pools share a domain.
    value = judged.nodes_taking[0].labels.get(key) if judged.nodes_taking else None
    return sorted(value.values) if isinstance(value, LabelValues) and not value.all_but else [None]


def counts(wanted: Demand, node: NodeToBe, spread: Evenly) -> Answer:
    """Return whether a topology spread constraint counts a node."""
    chosen = wanted.pod.selection.takes(node.labels) if spread.honors_labels else Answer.YES
    taints = [answer for _, answer in untolerated(wanted.pod.tolerations, node.taints)] if spread.honors_taints else []
    return all_yes((chosen, yes_if(Answer.NO not in taints), *(each for each in taints if each is Answer.UNKNOWN)))


def pods_on_a_node(
    wanted: Demand, spread: Evenly, taking: Sequence[PoolVerdict], refusing: Sequence[PoolVerdict]
) -> tuple[float, float]:
    """Return the min and max number of the pods that each node may have.

    Args:
        wanted: The pods.
        spread: How evenly the pods are spread over nodes.
        taking: The pools that accept one of the pods.
        refusing: The other pools, with a fresh node of each of their types.
    """
    emptiest = min((least for each in taking for least, _ in _held(wanted, each)), default=math.inf)
    fullest = min((max(_held(wanted, each))[1] for each in taking if each.pool.min_nodes), default=math.inf)
    there = sum(each.pool.min_nodes or 0 for each in taking)
    for each in refusing:
        answer = all_yes(counts(wanted, node, spread) for node in each.nodes_refusing)
        if not each.nodes_refusing or answer is Answer.NO or each.pool.max_nodes == 0:
            continue
        emptiest = 0
        if answer is Answer.YES and each.pool.min_nodes:
            fullest, there = 0, there + each.pool.min_nodes
    if there < spread.domains:
        emptiest = 0
    return emptiest + spread.skew, fullest + spread.skew


def _held(wanted: Demand, judged: PoolVerdict) -> list[tuple[int, int]]:
    """Return the min and max number of pods that fit on each node of a pool."""
    return [(pods_per_node(wanted, each), pods_per_node(wanted, each, at_most=True)) for each in judged.nodes_taking]


def room_below(wanted: Demand, judged: PoolVerdict, caps: tuple[float, float]) -> tuple[int | None, int | None]:
    """Return the min and max number of pods that fit in a pool, if each node has at most the given number of pods."""
    return room(wanted, judged.pool, judged.nodes_taking, judged.growth, caps)


def node_spread_note(wanted: Demand, taking: Iterable[PoolVerdict]) -> str:
    """Return a note that the pods' spread constraint keeps nodes from being filled, if it does."""
    spread = wanted.topology.over_nodes
    if spread is None or all(least <= spread.skew for each in taking for least, _ in _held(wanted, each)):
        return ""
    return f", because no node may have over {spread.skew} more than the emptiest one"


def shortage(wanted: Demand, pools: Sequence[PoolVerdict]) -> list[Reason]:
    """Return why some replicas stay without a node, or may, on the pools that accept one of them.

    Args:
        wanted: The requests of one pod, and the number of pods.
        pools: The result for each pool.
    """
    replicas = wanted.workload.replicas
    taking = [each for each in pools if each.answer is not Answer.NO]
    if not replicas or not taking or wanted.workload.takes_turns:
        return []
    if wanted.claimed is not None and wanted.claimed.shared and replicas > 1:
        return _shared_claim_shortage(wanted, replicas, taking)
    together = wanted.topology.on_one_node or wanted.topology.in_one_zone
    several = replicas > 1 or wanted.topology.may_follow
    held = _affinity_shortage(wanted, replicas, taking) if together and several else []
    apart = [] if worst(held) is Answer.NO else _apart(wanted, replicas, taking, pools)
    return apart if worst(apart) is Answer.NO else [*held, *apart]


def _apart(wanted: Demand, replicas: int, taking: Sequence[PoolVerdict], pools: Sequence[PoolVerdict]) -> list[Reason]:
    """Return why some replicas find no room under their anti-affinity or their spread constraints."""
    zones = _zones(taking)
    if zones is not None and (text := _too_few_zones(wanted, replicas, len(zones))):
        return [Reason(Answer.NO, "topology", text, rule=_RULE)]
    if zones is None and _too_few_zones(wanted, replicas, 1):
        text = "needs several zones, and it is unknown in which zones the pools have nodes"
        return [Reason(Answer.UNKNOWN, "topology", text, rule=_RULE)]
    if apart := too_few_domains(wanted, taking):
        return [replace(apart, rule=_RULE)]
    # The result of each pool already states whether it accepts one pod. This counts how many it accepts.
    certain = [each for each in taking if each.answer is Answer.YES] or taking
    spread = wanted.topology.over_zones
    skew = spread.skew if spread else 0
    refusing = [each for each in pools if each.answer is Answer.NO]
    empty, may_be_empty = _empty_zones(wanted, refusing, spread) if spread else (set(), set())
    surely, at_most = _holding(wanted, certain, taking, refusing)
    cautious = all(each.pool.is_group for each in certain)
    sure = _room(zip(certain, surely, strict=True), skew, {*map(_zone, certain), *may_be_empty}, cautious=cautious)
    counted = {*map(_zone, filter(_has_its_zone, taking)), *empty}
    most = _room(zip(taking, at_most, strict=True), skew, counted)
    if sure >= replicas:
        return []
    if most >= replicas:
        text = f"it is unknown whether more than {sure} of {replicas} pods find room"
        uneven = _zone_spread_note(zip(certain, surely, strict=True), skew, sure)
        conditional = [each for each in taking if each.is_conditional]
        holding, _ = _holding(wanted, conditional, taking, refusing)
        counted = {*map(_zone, conditional), *may_be_empty}
        room = _room(zip(conditional, holding, strict=True), skew, counted, cautious=cautious)
        reason = _reason(Answer.UNKNOWN, text + uneven, taking, wanted)
        return [replace(reason, condition=_join_conditions(conditional))] if room >= replicas else [reason]
    uneven = _zone_spread_note(zip(taking, at_most, strict=True), skew, most)
    if wanted.workload.may_take_turns and most:
        text = f"at most {most} of {replicas} pods run at once{uneven}, and it is unknown whether they need one another"
        return [_reason(Answer.UNKNOWN, text, taking, wanted)]
    pending = _pending(replicas, most, uneven)
    return [replace(pending, kind="limit", text=_reason(Answer.NO, pending.text, taking, wanted).text)]


def _pending(replicas: int, running: float, why: str) -> Reason:
    """Return that the other pods stay Pending if only a number of them run."""
    left = int(replicas - running)
    text = f"at least {left} of {replicas} pods {'stays' if left == 1 else 'stay'} Pending{why}"
    return Reason(Answer.NO, "topology", text, rule=_RULE, pending_pods=left)


def _join_conditions(pools: Iterable[PoolVerdict]) -> str:
    """Return the conditions under which all of the pools accept a pod."""
    return " and ".join(dict.fromkeys(one.condition for each in pools for one in each.reasons if one.condition))


def _shared_claim_shortage(wanted: Demand, replicas: int, taking: Sequence[PoolVerdict]) -> list[Reason]:
    """Return why no node has room for all pods that share a claim. Its devices are all on one node."""
    fitting = [node for each in taking for node in each.nodes_taking]
    most = max((pods_per_node(wanted, node, at_most=True) for node in fitting), default=1)
    if most < replicas:
        why = ", because all share a claim, whose devices are on one node; use a ResourceClaimTemplate"
        return [replace(_pending(replicas, most, why), kind="claim")]
    # It isn't known to which of these nodes the first pod goes, and with it the claim.
    certain = [] if any(each.answer is not Answer.YES for each in taking) else fitting
    sure = min((pods_per_node(wanted, node) for node in certain), default=0)
    text = f"it is unknown whether one node has room for all {replicas} pods, which share a claim"
    return [] if sure >= replicas else [Reason(Answer.UNKNOWN, "claim", text, rule=_RULE)]


def _affinity_shortage(wanted: Demand, replicas: int, taking: Sequence[PoolVerdict]) -> list[Reason]:
    """Return why no node, or no zone, has room for all pods whose affinity requires the place of the first pod.

    Source: kubernetes v1.36.1 pkg/scheduler/framework/plugins/interpodaffinity/filtering.go satisfyPodAffinity
    """
    node = wanted.topology.on_one_node
    where = "on the node" if node else "in the zone"
    certain = [each for each in taking if each.answer is Answer.YES] or taking
    sure = _most_on_a_node(wanted, certain) if node else _most_in_a_zone(certain)
    most = _most_on_a_node(wanted, taking, at_most=True) if node else _most_in_a_zone(taking, at_most=True)
    if sure >= replicas and not wanted.topology.may_follow and not _is_torn(wanted, replicas, taking):
        return []
    if most < replicas and not wanted.topology.may_follow:
        return [_pending(replicas, most, f", because their affinity requires a place {where} of the first")]
    text = f"it is unknown whether all of its {replicas} pods find room {where} of the pods that their affinity selects"
    return [Reason(Answer.UNKNOWN, "topology", text, rule=_RULE)]


def _is_torn(wanted: Demand, replicas: int, taking: Iterable[PoolVerdict]) -> bool:
    """Whether the pods must run in the place of the first pod and must also be spread over several places."""
    topology, zones = wanted.topology, _zones(taking)
    over_zones = topology.over_zones if zones is None or len(zones) > 1 else None
    over_nodes = topology.over_nodes if topology.on_one_node else None
    return any(each is not None and each.skew < replicas for each in (over_zones, over_nodes))


def _most_on_a_node(wanted: Demand, taking: Iterable[PoolVerdict], *, at_most: bool = False) -> float:
    """Return the min, or with ``at_most`` the max, number of pods on the node that the first pod goes to.

    EC2 chooses among the instance types of a group. Karpenter chooses one type for all pods that wait together. The
    pods of a StatefulSet are created one after another.
    """
    found = []
    for each in taking:
        counts_ = [pods_per_node(wanted, node, at_most=at_most) for node in each.nodes_taking] or [1]
        chosen = at_most or not (each.pool.is_group or wanted.workload.owner.kind == "StatefulSet")
        found.append((max if chosen else min)(counts_))
    return (max if at_most else min)(found, default=1)


def _most_in_a_zone(taking: Sequence[PoolVerdict], *, at_most: bool = False) -> float:
    """Return the min, or with ``at_most`` the max, number of pods in the zone that the first pod goes to."""
    by_zone: dict[str, float] = {}
    anywhere: list[float] = []
    for each in taking:
        held, zone = each.may_hold if at_most else each.holds, _zone(each)
        amount = math.inf if held is None else held
        if zone is not None:
            by_zone[zone] = by_zone.get(zone, 0) + amount
        else:
            # Karpenter may launch all of its nodes in one zone. A group with several zones spreads its nodes over all
            # of them.
            anywhere.append(0 if each.pool.is_group and not at_most else amount)
    if at_most:
        return sum(anywhere) + max(by_zone.values(), default=0)
    return min((*by_zone.values(), *anywhere), default=0)


def _holding(
    wanted: Demand, certain: Sequence[PoolVerdict], taking: Sequence[PoolVerdict], refusing: Sequence[PoolVerdict]
) -> tuple[list[int | None], list[int | None]]:
    """Return the min number of pods that fit in each certain pool, and each pool that accepts them with its max."""
    spread = wanted.topology.over_nodes
    if spread is None:
        return [each.holds for each in certain], [each.may_hold for each in taking]
    caps = pods_on_a_node(wanted, spread, taking, refusing)
    surely = [room_below(wanted, each, caps)[0] for each in certain]
    return surely, [room_below(wanted, each, caps)[1] for each in taking]


def _room(
    amounts: Iterable[tuple[PoolVerdict, int | None]],
    skew: int,
    counted: Iterable[str | None],
    *,
    cautious: bool = False,
) -> float:
    """Return how many pods run on several pools.

    Args:
        amounts: Each pool with the number of pods that it has room for. ``None`` means without limit.
        skew: How many more pods than the emptiest zone another zone may have. 0 means that there is no constraint.
        counted: Zones that count even while no pod runs in them. If a zone is full, it becomes the emptiest zone first.
        cautious: Whether each pool of unknown zones may be in a separate zone.
    """
    by_zone: dict[str | None, float] = {}
    pairs = list(amounts)
    for judged, amount in pairs:
        zone = _zone(judged)
        by_zone[zone] = by_zone.get(zone, 0) + (math.inf if amount is None else amount)
    if skew and None in by_zone and cautious:
        # Each pool may be a separate zone.
        each_own = [math.inf if amount is None else float(amount) for _, amount in pairs]
        return sum(min(each, min(each_own) + skew) for each in each_own)
    if skew and None not in by_zone:
        most = min((by_zone.get(each, 0) for each in counted), default=math.inf) + skew
        return sum(min(each, most) for each in by_zone.values())
    return sum(by_zone.values())


def _zone_spread_note(amounts: Iterable[tuple[PoolVerdict, int | None]], skew: int, room: float) -> str:
    """Return a note that the spread over zones leaves room unused, if it does.

    Args:
        amounts: Each pool with the number of pods that it has room for. ``None`` means without limit.
        skew: How many more pods than the emptiest zone another zone may have. 0 means that there is no constraint.
        room: How many pods run under this constraint.
    """
    if not skew or _room(amounts, 0, ()) <= room:
        return ""
    return f", because the spread over zones allows a zone {skew} more than the emptiest that has nodes"


def _has_its_zone(judged: PoolVerdict) -> bool:
    """Whether a zone counts before a pod of the workload runs there.

    It counts if it has nodes, or if Karpenter can launch nodes there, because Karpenter counts the zones of NodePools.

    Source: kubernetes v1.36.1 podtopologyspread/filtering.go counts the zones of existing nodes;
    sigs.k8s.io/karpenter v1.14.1 pkg/controllers/provisioning/scheduling/topology.go the zones of NodePools.
    """
    return bool(judged.pool.min_nodes) or not judged.pool.is_group


def _empty_zones(wanted: Demand, refusing: Iterable[PoolVerdict], spread: Evenly) -> tuple[set[str], set[str | None]]:
    """Return the zones that count as zones without pods because their nodes accept none, and the zones that may.

    Source: kubernetes v1.36.1 podtopologyspread/common.go matchNodeInclusionPolicies.

    Args:
        wanted: The pods.
        refusing: The pools, with a fresh node of each of their types.
        spread: How evenly the pods are spread over zones.

    Returns:
        The zones that count, and the zones that may count, with ``None`` for a zone that isn't known.
    """
    certain: set[str] = set()
    possible: set[str | None] = set()
    for each in refusing:
        answer = all_yes(counts(wanted, node, spread) for node in each.nodes_refusing)
        if answer is Answer.NO or not each.nodes_refusing or each.pool.max_nodes == 0:
            continue
        zones = _zones_of_node(each.nodes_refusing[0])
        possible |= zones or {None}
        if answer is Answer.YES and each.pool.is_group and each.pool.min_nodes and zones and len(zones) == 1:
            certain |= zones
    return certain, possible


def _zones_of_node(node: NodeToBe) -> frozenset[str] | None:
    """Return the zones in which a node may be, or ``None`` if they aren't known."""
    zone = node.labels.get(ZONE)
    return zone.values if isinstance(zone, LabelValues) and not zone.all_but else None


def _reason(answer: Answer, text: str, taking: Sequence[PoolVerdict], wanted: Demand) -> Reason:
    apart = _alone_on_a_node(wanted)
    text += node_spread_note(wanted, taking)
    bounds = [f"pool {each.pool.name}: {each.binding}{apart}" for each in taking if each.binding]
    more = f" and {len(bounds) - _SHOWN} more pools" if len(bounds) > _SHOWN else ""
    shown = "; ".join(bounds[:_SHOWN]) + more
    grows = any(each.binding and each.growth.answer is Answer.YES for each in taking)
    raised = f"; raise {'it' if len(bounds) == 1 else 'one of them'}" if grows else ""
    return Reason(answer, "limit", f"{text} ({shown}){raised}" if shown else text, rule=_RULE)


def _alone_on_a_node(wanted: Demand) -> str:
    """Return why no node holds two of the pods, if the pods require that."""
    if wanted.pod.host_ports:
        ports = ", ".join(str(number) for _, _, number in sorted(wanted.pod.host_ports))
        return f", one per node because of host port {ports}"
    return ", one per node because of their anti-affinity" if wanted.topology.one_per_node else ""


def _zones(taking: Iterable[PoolVerdict]) -> set[str] | None:
    """Return the zones in which pools launch nodes, or ``None`` if they aren't known."""
    found: set[str] = set()
    for each in taking:
        of_pool = _pool_zones(each)
        if of_pool is None:
            return None
        found |= of_pool
    return found


def _pool_zones(judged: PoolVerdict) -> frozenset[str] | None:
    return _zones_of_node(judged.nodes_taking[0]) if judged.nodes_taking else None


def _zone(judged: PoolVerdict) -> str | None:
    """Return the only zone in which a pool launches nodes, or ``None`` if there may be several."""
    zones = _pool_zones(judged) or frozenset()
    return next(iter(zones)) if len(zones) == 1 else None


def _too_few_zones(wanted: Demand, replicas: int, zones: int) -> str | None:
    spread = wanted.topology.over_zones
    if spread and spread.domains > zones and replicas > zones * spread.skew:
        return f"spreads over at least {spread.domains} zones, the pools that accept it have {zones}"
    if wanted.topology.one_per_zone and replicas > zones:
        return f"requires a zone for each of {replicas} replicas, the pools that accept it have {zones}"
    return None
