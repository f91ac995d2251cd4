"""Workloads beside each other: which find no place once the others have theirs.

Services stay, so all of them need a place at once, those of higher priority first. A job ends: it needs a place beside
the services, not beside other jobs. All parts of one job, or of one group of pods, run at once.

Pods are put onto nodes one after another, which is a way to place them and maybe not the best one. That they find no
place in any way is certain only where they ask for more than there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gpu_constructs.facts.resources import NVIDIA
from gpu_constructs.preflight.model.answer import Answer, all_of
from gpu_constructs.preflight.model.reason import Reason
from gpu_constructs.preflight.reading.objects import Origin
from gpu_constructs.preflight.scheduling.pool_limits import node_limit
from gpu_constructs.preflight.scheduling.together.keeping_apart import kept_apart
from gpu_constructs.preflight.scheduling.together.packing import Filled, pack
from gpu_constructs.preflight.scheduling.verdict import PoolVerdict, Verdict

_RULE = "GPU374"
_SHOWN = 3
# A job of one part beside nobody is judged by itself already.
_ALONE = 1


@dataclass(frozen=True)
class _Kind:
    """Verdicts on workloads whose pods are alike: what holds of one of them holds of all."""

    verdicts: tuple[Verdict, ...]

    @property
    def priority(self) -> int | None:
        """Priority of each of them, where it is known."""
        return self.verdicts[0].workload.priority

    @cached_property
    def usable(self) -> tuple[PoolVerdict, ...]:
        """The pools that take one, or may."""
        return tuple(each for each in self.verdicts[0].pools if each.answer is not Answer.NO)

    @cached_property
    def pools(self) -> frozenset[int]:
        """Those pools, by identity."""
        return frozenset(id(each.pool) for each in self.usable)

    @cached_property
    def replicas(self) -> int:
        """How many pods there are of them in all."""
        return sum(each.workload.replicas or 0 for each in self.verdicts)

    @property
    def is_bounded(self) -> bool:
        """Whether it is known of some pool how many of them it holds."""
        return any(each.may_hold is not None for each in self.usable)

    @property
    def runs(self) -> bool:
        """Whether they certainly run where they are alone."""
        return self.verdicts[0].answer is Answer.YES

    @property
    def keeps_apart(self) -> bool:
        """Whether no node takes two of them, whatever it has room for."""
        wanted = self.verdicts[0].demand
        return wanted.topology.one_per_node or bool(wanted.pod.host_ports)

    def asked(self, name: str) -> int:
        """Return how much of a resource all of them ask for."""
        return self.verdicts[0].demand.requests.get(name, 0) * self.replicas


def beside_each_other(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Return verdicts as they are when all workloads come at once."""
    every = list(verdicts)
    running = [each for each in every if each.answer is not Answer.NO and not each.workload.on_each_node]
    staying = [each for each in running if not each.workload.ends]
    apart = any(each.workload.pod.apart for each in running)
    found = _beside(staying, staying)
    known: dict[tuple[object, ...], dict[int, Reason]] = {}
    filled = Filled()
    filled.put(_bounded(staying))
    for group in _jobs(each for each in running if each.workload.ends):
        if len(group) + len(staying) > _ALONE:
            key = tuple(_likeness(each, labelled=apart) for each in group)
            if key not in known:
                of_group = _beside_services(staying, group, filled)
                known[key] = {place: of_group[id(each)] for place, each in enumerate(group) if id(each) in of_group}
            found |= {id(group[place]): reason for place, reason in known[key].items()}
    return tuple(_with(each, found.get(id(each))) for each in every)


def _likeness(verdict: Verdict, *, labelled: bool) -> tuple[object, ...]:
    """Return what makes jobs alike beside others, their labels too where somebody keeps apart by labels."""
    workload = verdict.workload
    labels = (workload.namespace, repr(workload.labels)) if labelled else None
    return id(verdict.pools), workload.replicas, workload.priority, labels


def _beside(together: Sequence[Verdict], asked: Sequence[Verdict]) -> dict[int, Reason]:
    """Return why some of the asked ones find no place when all come together, by the identity of the verdict."""
    return _firmest(kept_apart(together, asked), _left(together, asked))


def _beside_services(staying: Sequence[Verdict], group: Sequence[Verdict], filled: Filled) -> dict[int, Reason]:
    """Return likewise why parts of a job find no place beside services, whose pods have filled nodes."""
    together = [*staying, *group]
    fits = not filled.copy().put(_bounded(group))
    # Put onto what they leave, it may find no place where all of them in another order would.
    return _firmest(kept_apart(together, group), {} if fits else _left(together, group))


def _firmest(apart: dict[int, Reason], left: dict[int, Reason]) -> dict[int, Reason]:
    """Return reasons of which one that is certain hides one that is not."""
    return apart | {each: reason for each, reason in left.items() if each not in apart or reason.answer is Answer.NO}


def _bounded(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return the workloads of which it is known of some pool how many it holds."""
    return [verdict for kind in _kinds(verdicts) if kind.is_bounded for verdict in kind.verdicts]


def _with(verdict: Verdict, reason: Reason | None) -> Verdict:
    if reason is None:
        return verdict
    return replace(verdict, answer=all_of((verdict.answer, reason.answer)), reasons=(*verdict.reasons, reason))


def _jobs(verdicts: Iterable[Verdict]) -> list[list[Verdict]]:
    """Return the parts of each job."""
    by_owner: dict[tuple[Origin, str], list[Verdict]] = {}
    for each in verdicts:
        owner = each.workload.owner
        by_owner.setdefault((each.workload.origin, f"{owner.kind} {owner.namespace}/{owner.name}"), []).append(each)
    return list(by_owner.values())


def _kinds(verdicts: Iterable[Verdict]) -> list[_Kind]:
    alike: dict[tuple[object, ...], list[Verdict]] = {}
    for each in verdicts:
        alike.setdefault((id(each.pools), each.workload.priority, each.answer), []).append(each)
    return [_Kind(tuple(each)) for each in alike.values()]


def _left(together: Sequence[Verdict], asked: Sequence[Verdict]) -> dict[int, Reason]:
    """Return why some of the asked ones find no place when all come together, by the identity of the verdict."""
    kinds = [each for each in _kinds(together) if each.is_bounded]
    bounded = [verdict for each in kinds for verdict in each.verdicts]
    left = {id(workload): count for workload, count in pack(bounded).left} if len(bounded) > _ALONE else {}
    wanted = {id(each) for each in asked}
    found: dict[int, Reason] = {}
    for kind in kinds if left else ():
        short = [each for each in kind.verdicts if id(each.workload) in left and id(each) in wanted]
        if short:
            rivals = [other for other in kinds if other is not kind and _comes_first(other, kind)]
            certain = _is_too_much([*(each for each in rivals if each.runs), kind], kind)
            found |= {id(each): _reason(each, left[id(each.workload)], rivals, kind, certain) for each in short}
    return found


def _comes_first(other: _Kind, kind: _Kind) -> bool:
    """Whether another kind of workload is not put aside for one, and may take its place."""
    priorities = other.priority, kind.priority
    lower = None not in priorities and (priorities[0] or 0) < (priorities[1] or 0)
    return not lower and not other.pools.isdisjoint(kind.pools)


def _reason(verdict: Verdict, count: int, rivals: Sequence[_Kind], kind: _Kind, certain: bool) -> Reason:
    like = [each for each in kind.verdicts[: _SHOWN + 1] if each is not verdict]
    others = [*like, *(one for each in rivals[:_SHOWN] for one in each.verdicts[:_SHOWN])]
    number = sum(len(each.verdicts) for each in rivals) + len(kind.verdicts) - 1
    names = ", ".join(each.workload.name for each in others[:_SHOWN])
    more = f" and {number - _SHOWN} more" if number > _SHOWN else ""
    some = f"{count} of {verdict.workload.replicas} pods" if certain else "some pods may"
    text = f"{some} find no node beside {names}{more}; raise the maximum of a pool, or lower the replicas"
    return Reason(Answer.NO if certain else Answer.UNKNOWN, "limit", text, rule=_RULE)


def _is_too_much(together: Iterable[_Kind], kind: _Kind) -> bool:
    """Whether workloads that may use some pools and no others ask for more than these can ever have."""
    inside = [each for each in together if each.pools <= kind.pools]
    alike = len({each.verdicts[0].demand.requests_key for each in inside}) == 1
    # Pods that keep apart from their like alone leave room to others.
    if alike and (len(inside) == 1 or not any(each.keeps_apart for each in inside)):
        holds = [each.may_hold for each in kind.usable]
        return None not in holds and sum(each.replicas for each in inside) > sum(each or 0 for each in holds)
    names = {name for each in inside for name in each.verdicts[0].demand.requests if name.startswith(NVIDIA)}
    return any(
        sum(each.asked(name) for each in inside) > most
        for name in names
        if (most := _most_of(name, kind.usable)) is not None
    )


def _most_of(name: str, pools: Iterable[PoolVerdict]) -> int | None:
    """Return the most that the nodes of pools have of a device; ``None`` without bound."""
    total = 0
    for each in pools:
        limits = [(node, node_limit(each.pool, node, each.growth.most)) for node in each.nodes_taking]
        if any(limit is None or name in node.unsaid for node, limit in limits):
            return None
        total += max((node.most.get(name, 0) * (limit or 0) for node, limit in limits), default=0)
    return total
