"""Workloads whose pods share claims of GPUs: all of them run on one node, which gives each claim its GPUs once.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/ (2026-11): pods that name
one ResourceClaim share what is allocated to it, and a device of NVIDIA is of one node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpu_facts.light_dataclasses import dataclass
from gpu_facts.quantities import Resources
from gpu_facts.resources import DEVICE_CLASS
from gpu_preflight.model.answer import Answer, all_of
from gpu_preflight.model.reason import Reason
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.scheduling.demand import Demand
from gpu_preflight.scheduling.pool_limits import room
from gpu_preflight.scheduling.verdict import PoolVerdict, Verdict

_RULE = "GPU374"
_FIX = "claim by a ResourceClaimTemplate"


@dataclass(frozen=True, slots=True)
class Unit:
    """Workloads that are placed as one.

    Attributes:
        verdict: The verdict on them as if they were one pod; of a workload that shares nothing its own.
        members: The verdicts on them.
        counted: Whether it is known what all of them ask for, and have.
    """

    verdict: Verdict
    members: tuple[Verdict, ...]
    counted: bool = True

    @property
    def is_shared(self) -> bool:
        """Whether its members share a claim."""
        return self.members[0] is not self.verdict

    @property
    def at_once(self) -> bool:
        """Whether all members certainly run at the same time: jobs do not wait for services, nor for each other."""
        return len(self.members) == 1 or not any(each.workload.ends for each in self.members)

    @property
    def refusal(self) -> Reason | None:
        """Why no node surely has room for all of them; ``None`` where one has."""
        if not self.is_shared or any(each.answer is not Answer.NO for each in self.verdict.pools):
            return None
        names = ", ".join(each.workload.name for each in self.members)
        text = f"one node has to have room for all pods that share a claim, those of {names}, and "
        if self.at_once and self.counted and self.verdict.answer is Answer.YES:
            return Reason(Answer.NO, "claim", f"{text}none has; {_FIX}", rule=_RULE)
        return Reason(Answer.UNKNOWN, "claim", f"{text}whether one has is not known; {_FIX}", rule=_RULE)


def units_of(verdicts: Sequence[Verdict]) -> list[Unit]:
    """Return workloads in the order in which they come, those that share claims as one."""
    if not any(each.demand.shared for each in verdicts):
        return [Unit(each, (each,)) for each in verdicts]
    groups = _groups(verdicts)
    return [Unit(each[0], (each[0],)) if not each[0].demand.shared else _joined(each) for each in groups]


def _groups(verdicts: Iterable[Verdict]) -> list[list[Verdict]]:
    """Return verdicts in groups of which none shares a claim with another."""
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
    """Take the group that has a claim, if there is one, into another, which has it then."""
    before = group_of.setdefault(claim, to)
    if before != to:
        groups[to] = [*groups.pop(before), *groups[to]]
        group_of.update({each: to for each, place in group_of.items() if place == before})


def _joined(members: Sequence[Verdict]) -> Unit:
    first = next((each for each in members if not each.workload.ends), members[0])
    asked = _asked(members)
    wanted = replace(first.demand, workload=replace(first.workload, replicas=1), in_all=asked)
    alike = Verdict(wanted.workload, all_of(each.answer for each in members), (), first.reasons, wanted)
    sure = tuple(_pools(members, wanted, at_most=False))
    may_fit = not _takes(sure) and _takes(_pools(members, wanted, at_most=True))
    counted = not may_fit and all(each.workload.replicas is not None for each in members)
    return Unit(replace(alike, pools=sure), tuple(members), counted)


def _takes(pools: Iterable[PoolVerdict]) -> bool:
    return any(each.answer is not Answer.NO for each in pools)


def _asked(members: Iterable[Verdict]) -> Resources:
    """Return what all pods ask for, each claim once."""
    asked: dict[str, int] = {}
    claims: dict[str, int] = {}
    for each in members:
        pods = 1 if each.workload.replicas is None else each.workload.replicas
        for name, amount in each.demand.requests.items():
            asked[name] = asked.get(name, 0) + amount * pods
        # Of a claim of all GPUs of its node nobody knows how many they are.
        claims |= {name: count or 1 for name, count in each.demand.shared if pods}
    return asked | {DEVICE_CLASS: asked.get(DEVICE_CLASS, 0) + sum(claims.values())}


def _pools(members: Sequence[Verdict], wanted: Demand, *, at_most: bool) -> Iterator[PoolVerdict]:
    """Yield the verdict on each pool that takes all members, of which one has no room where none of its nodes has."""
    for judged in members[0].pools:
        others = [one for each in members[1:] for one in each.pools if one.pool is judged.pool]
        answer = all_of(each.answer for each in (judged, *others))
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
