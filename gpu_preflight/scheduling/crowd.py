"""Contention: which workloads find no room after other workloads have their place.

Services keep running, so all of them need room at the same time. Services of higher priority are placed first. A job
ends, so it needs room next to the services, but not next to other jobs. All parts of one job, or of one group of pods,
run at the same time.

The module places pods onto nodes one after another. There may be a better placement. "No placement exists" is certain
only if the pods request more than the pools have.

Workloads whose pods share claims of GPUs all run on one node. That node provides the GPUs of each claim once.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/ (2026-11): pods that name
one ResourceClaim share the devices that are allocated to it, and an NVIDIA device belongs to one node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gpu_facts.light import dataclass
from gpu_facts.quantities import Resources
from gpu_facts.resources import DEVICE_CLASS
from gpu_preflight.model.answer import Answer, Reason, all_yes
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.reading.objects import Origin
from gpu_preflight.scheduling.demand import Demand
from gpu_preflight.scheduling.keeping_apart import anti_affinity_reasons, service_anti_affinity_reasons
from gpu_preflight.scheduling.kinds import (
    Kind,
    comes_first,
    crowded_out,
    group_by_kind,
    is_too_much,
    limit_to_concurrent_pods,
)
from gpu_preflight.scheduling.packing import Filled, pack
from gpu_preflight.scheduling.pool_limits import room
from gpu_preflight.scheduling.verdict import PoolVerdict, Verdict

_RULE = "GPU374"
_FIX = "use a ResourceClaimTemplate"
_SHOWN = 3
# A job of one part without other workloads already has its result.
_ALONE = 1


@dataclass(frozen=True, slots=True)
class Unit:
    """Workloads that are placed together.

    Attributes:
        verdict: The result for them as if they were one pod. If a workload shares no claim, this is its own result.
        members: The result for each of them.
        counted: Whether the requests of all of them, and the claims that they have, are known.
    """

    verdict: Verdict
    members: tuple[Verdict, ...]
    counted: bool = True

    @property
    def is_shared(self) -> bool:
        """Whether the members share a claim."""
        return self.members[0] is not self.verdict

    @property
    def is_concurrent(self) -> bool:
        """Whether all members certainly run at the same time: jobs don't wait for services or for each other."""
        return len(self.members) == 1 or not any(each.workload.ends for each in self.members)

    @property
    def refusal(self) -> Reason | None:
        """Why no node certainly has room for all of them; ``None`` if a node has."""
        if not self.is_shared or any(each.answer is not Answer.NO for each in self.verdict.pools):
            return None
        names = ", ".join(each.workload.name for each in self.members)
        text = f"one node must have room for all pods that share a claim (pods of {names}), and "
        if self.is_concurrent and self.counted and self.verdict.answer is Answer.YES:
            return Reason(Answer.NO, "claim", f"{text}none has; {_FIX}", rule=_RULE)
        return Reason(Answer.UNKNOWN, "claim", f"{text}it is unknown whether one has; {_FIX}", rule=_RULE)


def group_by_shared_claim(verdicts: Sequence[Verdict]) -> list[Unit]:
    """Return the workloads in their order, with workloads that share claims as one unit."""
    if not any(each.demand.shared for each in verdicts):
        return [Unit(each, (each,)) for each in verdicts]
    groups = _groups(verdicts)
    return [Unit(each[0], (each[0],)) if not each[0].demand.shared else _joined(each) for each in groups]


def _groups(verdicts: Iterable[Verdict]) -> list[list[Verdict]]:
    """Group results so that no group shares a claim with another group."""
    groups: dict[int, list[Verdict]] = {}
    group_of: dict[tuple[str, str], int] = {}
    for place, each in enumerate(verdicts):
        groups[place] = [each]
        for name, _ in each.demand.shared:
            _join(groups, group_of, (each.workload.namespace, name), place)
    return list(groups.values())


def _join(
    groups: dict[int, list[Verdict]], group_of: dict[tuple[str, str], int], claim: tuple[str, str], to: int
) -> None:
    """Merge the group that already has a claim into group `to`, and assign the claim to `to`."""
    before = group_of.setdefault(claim, to)
    if before != to:
        groups[to] = [*groups.pop(before), *groups[to]]
        group_of.update({each: to for each, place in group_of.items() if place == before})


def _joined(members: Sequence[Verdict]) -> Unit:
    first = next((each for each in members if not each.workload.ends), members[0])
    asked = _total_requests(members)
    wanted = replace(first.demand, workload=replace(first.workload, replicas=1), in_all=asked)
    alike = Verdict(wanted.workload, all_yes(each.answer for each in members), (), first.reasons, wanted)
    sure = tuple(_pools(members, wanted, at_most=False))
    may_fit = not _takes(sure) and _takes(_pools(members, wanted, at_most=True))
    counted = not may_fit and all(each.workload.replicas is not None for each in members)
    return Unit(replace(alike, pools=sure), tuple(members), counted)


def _takes(pools: Iterable[PoolVerdict]) -> bool:
    return any(each.answer is not Answer.NO for each in pools)


def _total_requests(members: Iterable[Verdict]) -> Resources:
    """Return the total requests of all pods, with each claim counted once."""
    asked: dict[str, int] = {}
    claims: dict[str, int] = {}
    for each in members:
        pods = 1 if each.workload.replicas is None else each.workload.replicas
        for name, amount in each.demand.requests.items():
            asked[name] = asked.get(name, 0) + amount * pods
        # If a claim requests all GPUs of its node, their number isn't known.
        claims |= {name: count or 1 for name, count in each.demand.shared if pods}
    return asked | {DEVICE_CLASS: asked.get(DEVICE_CLASS, 0) + sum(claims.values())}


def _pools(members: Sequence[Verdict], wanted: Demand, *, at_most: bool) -> Iterator[PoolVerdict]:
    """Yield the result for each pool that accepts all members. The answer is no if no node has room for them."""
    for judged in members[0].pools:
        others = [one for each in members[1:] for one in each.pools if one.pool is judged.pool]
        answer = all_yes(each.answer for each in (judged, *others))
        if answer is Answer.NO or len(others) < len(members) - 1:
            continue
        taking = tuple(
            node for node in judged.nodes_taking if _has_room(node, wanted.requests, others, at_most=at_most)
        )
        holds, may_hold = room(wanted, judged.pool, taking, judged.growth) if taking else (0, 0)
        answer = answer if taking else Answer.NO
        yield replace(
            judged,
            answer=answer,
            nodes_taking=taking,
            per_node=1,
            nodes=1,
            holds=holds,
            may_hold=may_hold,
            binding=None,
        )


def _has_room(node: NodeToBe, asked: Resources, others: Iterable[PoolVerdict], *, at_most: bool) -> bool:
    if not all(any(node.instance_type == one.instance_type for one in each.nodes_taking) for each in others):
        return False
    have = node.most if at_most else node.least
    return all(amount <= have[name] for name, amount in asked.items() if name in have and name not in node.unsaid)


def check_contention(verdicts: Iterable[Verdict], fillers: Sequence[Verdict] = ()) -> tuple[Verdict, ...]:
    """Return the results if all workloads run at the same time.

    Args:
        verdicts: The result for each workload that requests GPUs.
        fillers: The result for each service that requests no GPU and may use room on GPU nodes.
    """
    every = list(verdicts)
    running = [each for each in every if each.answer is not Answer.NO and not each.workload.is_daemon_set]
    staying = [each for each in running if not each.workload.ends]
    apart = any(each.workload.pod.apart for each in running)
    found = _contention_reasons(staying, staying)
    known: dict[tuple[object, ...], dict[int, Reason]] = {}
    filled = Filled()
    filled.place_pods(_bounded(each.verdict for each in group_by_shared_claim(staying)))
    for group in _jobs(each for each in running if each.workload.ends):
        if len(group) + len(staying) > _ALONE:
            key = tuple(_likeness(each, labelled=apart) for each in group)
            if key not in known:
                parts = [_behind(staying, limit_to_concurrent_pods(each)) for each in group]
                of_group = _job_contention_reasons(staying, parts, filled)
                known[key] = {place: of_group[id(each)] for place, each in enumerate(parts) if id(each) in of_group}
            found |= {id(group[place]): reason for place, reason in known[key].items()}
    if fillers:
        alone = [each for each in running if id(each) not in found]
        found |= service_anti_affinity_reasons(fillers, alone) | crowded_out(alone, fillers)
    return tuple(_add_reason(each, found.get(id(each))) for each in every)


def _likeness(verdict: Verdict, *, labelled: bool) -> tuple[object, ...]:
    """Return a key that is equal for jobs with the same contention. It includes labels if a pod has anti-affinity."""
    workload = verdict.workload
    labels = (workload.namespace, repr(workload.labels)) if labelled else None
    return id(verdict.pools), workload.replicas, workload.priority, workload.preempts, labels


def _contention_reasons(together: Sequence[Verdict], asked: Sequence[Verdict]) -> dict[int, Reason]:
    """Return why some of the `asked` workloads find no room if all run together, by the id of the result."""
    return _firmest(anti_affinity_reasons(together, asked), _left(together, asked))


def _job_contention_reasons(staying: Sequence[Verdict], group: Sequence[Verdict], filled: Filled) -> dict[int, Reason]:
    """Return why parts of a job find no room next to the services, whose pods already fill nodes."""
    together = [*staying, *group]
    fits = not any(each.demand.shared for each in group) and not filled.copy().place_pods(_bounded(group))
    # This order of placement may leave no room, although another order of all pods would fit.
    return _firmest(anti_affinity_reasons(together, group), {} if fits else _left(together, group))


def _behind(staying: Iterable[Verdict], part: Verdict) -> Verdict:
    """Return the result for a part of a job. If it preempts nothing, its pods wait for services of any priority."""
    workload = part.workload
    if workload.preempts or workload.priority is None:
        return part
    others = [each.workload.priority for each in staying if each.workload.priority is not None]
    return replace(part, workload=replace(workload, priority=min((workload.priority, *others))))


def _firmest(apart: dict[int, Reason], left: dict[int, Reason]) -> dict[int, Reason]:
    """Merge reasons. A certain reason replaces an uncertain one."""
    return apart | {each: reason for each, reason in left.items() if each not in apart or reason.answer is Answer.NO}


def _bounded(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return the workloads for which the max number of pods is known in some pool."""
    return [verdict for kind in group_by_kind(verdicts) if kind.is_bounded for verdict in kind.verdicts]


def _add_reason(verdict: Verdict, reason: Reason | None) -> Verdict:
    if reason is None:
        return verdict
    return replace(verdict, answer=all_yes((verdict.answer, reason.answer)), reasons=(*verdict.reasons, reason))


def _jobs(verdicts: Iterable[Verdict]) -> list[list[Verdict]]:
    """Return the parts of each job."""
    by_owner: dict[tuple[Origin, str], list[Verdict]] = {}
    for each in verdicts:
        owner = each.workload.owner
        by_owner.setdefault((each.workload.origin, owner.title), []).append(each)
    return list(by_owner.values())


def _left(together: Sequence[Verdict], asked: Sequence[Verdict]) -> dict[int, Reason]:
    """Return why some of the `asked` workloads find no room if all run together, by the id of the result."""
    units = group_by_shared_claim(together)
    kinds = [each for each in group_by_kind(each.verdict for each in units) if each.is_bounded]
    bounded = [verdict for each in kinds for verdict in each.verdicts]
    left = {id(workload): count for workload, count in pack(bounded).left} if len(bounded) > _ALONE else {}
    shared = {id(each.verdict): each for each in units if each.is_shared}
    wanted = {id(each) for each in asked} | shared.keys()
    found = {each: reason for each, unit in shared.items() if (reason := unit.refusal)}
    for kind in kinds if left else ():
        short = [each for each in kind.verdicts if id(each.workload) in left and id(each) in wanted]
        if short:
            rivals = [other for other in kinds if other is not kind and comes_first(other, kind)]
            ranked = kind.priority is not None and all(each.priority is not None for each in rivals)
            certain = is_too_much([*(each for each in rivals if each.runs), kind], kind) and not kind.may_take_turns
            certain = certain and ranked
            found |= {id(each): _reason(each, left[id(each.workload)], rivals, kind, certain) for each in short}
    found |= {key: reason for key, reason in _outranked(kinds if left else [], wanted).items() if key not in found}
    return _expand_unit_reasons(found, shared, {id(each) for each in asked}) if shared else found


def _outranked(kinds: Sequence[Kind], wanted: set[int]) -> dict[int, Reason]:
    """Return why workloads may find no room next to others whose unknown priority may be higher."""
    found: dict[int, Reason] = {}
    for unknown in (each for each in kinds if each.priority is None):
        for kind in kinds:
            if kind is unknown or kind.pools.isdisjoint(unknown.pools) or not is_too_much([kind, unknown], unknown):
                continue
            reasons = {id(each): _reason(each, 0, [unknown], kind, certain=False) for each in kind.verdicts}
            found |= {key: reason for key, reason in reasons.items() if key in wanted}
    return found


def _expand_unit_reasons(found: dict[int, Reason], shared: Mapping[int, Unit], wanted: set[int]) -> dict[int, Reason]:
    """Return the reasons, with each reason of a unit repeated for every workload that shares its claim."""
    reasons = {each: reason for each, reason in found.items() if each not in shared}
    for each, unit in shared.items():
        if each in found:
            reason = found[each] if unit.is_concurrent else replace(found[each], answer=Answer.UNKNOWN)
            reasons |= {id(member): reason for member in unit.members if id(member) in wanted}
    return reasons


def _reason(verdict: Verdict, count: int, rivals: Sequence[Kind], kind: Kind, certain: bool) -> Reason:
    like = [each for each in kind.verdicts[: _SHOWN + 1] if each is not verdict]
    others = [*like, *(one for each in rivals[:_SHOWN] for one in each.verdicts[:_SHOWN])]
    number = sum(len(each.verdicts) for each in rivals) + len(kind.verdicts) - 1
    names = ", ".join(each.workload.name for each in others[:_SHOWN])
    more = f" and {number - _SHOWN} more" if number > _SHOWN else ""
    some = _who(verdict, count, certain)
    text = f"{some} find no node next to {names}{more}; raise the maximum of a pool, or lower the replicas"
    return Reason(Answer.NO if certain else Answer.UNKNOWN, "limit", text, rule=_RULE)


def _who(verdict: Verdict, count: int, certain: bool) -> str:
    """Return which pods of a workload find no node, or may find none."""
    if verdict.demand.in_all is not None:
        return "pods that share a claim"
    if verdict.workload.takes_turns:
        return "all its pods" if certain else "its pods may"
    return f"{count} of {verdict.workload.replicas} pods" if certain else "some pods may"
