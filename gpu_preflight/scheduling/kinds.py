"""Kinds of workloads whose pods are alike, and the total requests of all pods of a kind.

The module also checks services without GPUs that may run on GPU nodes and use the CPU and memory that GPU pods need.

The order in which pods start isn't known, unless their priorities differ. Only one thing is certain: that the pools
don't have room for all of them. A job may start at any time, when the services already run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from gpu_facts.light import dataclass
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.scheduling.packing import Filled
from gpu_preflight.scheduling.pool_limits import node_limit
from gpu_preflight.scheduling.verdict import PoolVerdict, Verdict

_RULE = "GPU374"
_SHOWN = 3


@dataclass(frozen=True)
class Kind:
    """Results for workloads whose pods are alike, so that a result for one pod applies to all of them."""

    verdicts: tuple[Verdict, ...]

    @property
    def priority(self) -> int | None:
        """Priority of each pod, if it is known."""
        return self.verdicts[0].workload.priority

    @property
    def preempts(self) -> bool:
        """Whether each pod preempts running pods of lower priority."""
        return self.verdicts[0].workload.preempts

    @cached_property
    def usable(self) -> tuple[PoolVerdict, ...]:
        """The pools that accept a pod, or may accept it."""
        return tuple(each for each in self.verdicts[0].pools if each.answer is not Answer.NO)

    @cached_property
    def pools(self) -> frozenset[int]:
        """The ids of these pools."""
        return frozenset(id(each.pool) for each in self.usable)

    @cached_property
    def replicas(self) -> int:
        """Total number of pods of this kind."""
        return sum(each.workload.replicas or 0 for each in self.verdicts)

    @property
    def ends(self) -> bool:
        """Whether the pods end by themselves."""
        return self.verdicts[0].workload.ends

    @property
    def may_take_turns(self) -> bool:
        """Whether all of these pods may not have to run at the same time."""
        return self.verdicts[0].workload.may_take_turns

    @property
    def is_bounded(self) -> bool:
        """Whether the max number of these pods is known in some pool."""
        return any(each.may_hold is not None for each in self.usable)

    @property
    def runs(self) -> bool:
        """Whether the pods certainly run if nothing else does."""
        return self.verdicts[0].answer is Answer.YES

    @property
    def keeps_apart(self) -> bool:
        """Whether no node holds two of these pods, even if it has room for more."""
        wanted = self.verdicts[0].demand
        return wanted.topology.one_per_node or bool(wanted.pod.host_ports)

    def total_request(self, name: str) -> int:
        """Return how much of a resource all of these pods request."""
        return self.verdicts[0].demand.requests.get(name, 0) * self.replicas


def limit_to_concurrent_pods(verdict: Verdict) -> Verdict:
    """Return the result for the pods of a job that must run at once. If they can take turns, that is one pod."""
    workload = verdict.workload
    one = workload.takes_turns and (workload.replicas or 0) > 1
    return replace(verdict, workload=replace(workload, replicas=1)) if one else verdict


def group_by_kind(verdicts: Iterable[Verdict]) -> list[Kind]:
    """Group the workloads whose pods are alike."""
    alike: dict[tuple[object, ...], list[Verdict]] = {}
    for each in verdicts:
        pods = each.workload
        alike.setdefault((id(each.pools), pods.priority, pods.preempts, each.answer, pods.ends), []).append(each)
    return [Kind(tuple(each)) for each in alike.values()]


def comes_first(other: Kind, kind: Kind) -> bool:
    """Whether another kind may take the place of this one, and isn't preempted by it."""
    priorities = other.priority, kind.priority
    lower = kind.preempts and None not in priorities and (priorities[0] or 0) < (priorities[1] or 0)
    return not lower and not other.pools.isdisjoint(kind.pools)


def is_too_much(together: Iterable[Kind], kind: Kind) -> bool:
    """Whether workloads that can only use certain pools request more than these pools can ever have."""
    inside = [each for each in together if each.pools <= kind.pools]
    alike = len({each.verdicts[0].demand.requests_key for each in inside}) == 1
    # If pods have anti-affinity only to pods of their own kind, they leave room for others.
    if alike and (len(inside) == 1 or not any(each.keeps_apart for each in inside)):
        holds = [each.may_hold for each in kind.usable]
        return None not in holds and sum(each.replicas for each in inside) > sum(each or 0 for each in holds)
    names = {name for each in inside for name in each.verdicts[0].demand.requests}
    return any(
        sum(each.total_request(name) for each in inside) > most
        for name in names
        if (most := _max_amount(name, kind.usable)) is not None
    )


def _max_amount(name: str, pools: Iterable[PoolVerdict]) -> int | None:
    """Return the max amount of a resource on the nodes of the pools; ``None`` if it is unlimited or unknown."""
    total = 0
    for each in pools:
        limits = [(node, node_limit(each.pool, node, each.growth.most)) for node in each.nodes_taking]
        if any(limit is None or name in node.unsaid or name not in node.most for node, limit in limits):
            return None
        total += max((node.most[name] * (limit or 0) for node, limit in limits), default=0)
    return total


@dataclass(frozen=True)
class _Filler:
    """Services without GPUs whose pods are alike.

    Attributes:
        kind: The services.
        here: The same services, as if they could run only on GPU nodes.
    """

    kind: Kind
    here: tuple[Verdict, ...]


@dataclass(frozen=True)
class _Full:
    """GPU nodes after services without GPUs are placed on them first.

    Attributes:
        ways: The nodes after different placements. The services that request GPUs use the room that is left.
        left: The services that didn't all find room in one of these placements, by id of the workload.
    """

    ways: tuple[Filled, ...]
    left: frozenset[int]


def crowded_out(running: Iterable[Verdict], services: Iterable[Verdict]) -> dict[int, Reason]:
    """Return why GPU pods find no room on their nodes, or may find none, by the id of the result.

    Args:
        running: The result for each workload that requests GPUs and runs alone, or may run.
        services: The result for each service that requests no GPU.
    """
    asked = [kind for kind in group_by_kind(running) if kind.is_bounded]
    staying = [kind for kind in asked if not kind.ends]
    fillers = list(_fillers({pool for kind in asked for pool in kind.pools}, services))
    full: dict[tuple[int, ...], _Full] = {}
    found: dict[int, Reason] = {}
    for kind in asked if fillers else ():
        rivals = [each for each in fillers if comes_first(each.kind, kind)]
        key = tuple(map(id, rivals))
        if rivals and key not in full:
            full[key] = _full(rivals, staying)
        for likes, answer in _answers(kind, rivals, staying, full[key]) if rivals else ():
            reason = _reason(answer, rivals)
            found |= {id(each): reason for each in likes}
    return found


def _fillers(pools: set[int], services: Iterable[Verdict]) -> Iterator[_Filler]:
    """Yield the services that may run on some pools."""
    for kind in group_by_kind(services):
        here = tuple(each for each in kind.usable if id(each.pool) in pools)
        if here:
            yield _Filler(kind, tuple(replace(each, pools=here) for each in kind.verdicts))


def _full(rivals: Iterable[_Filler], staying: Iterable[Kind]) -> _Full:
    filling = [one for each in rivals for one in each.here]
    stacked, spread = Filled(), Filled()
    stacked.place_pods(filling)
    spread.spread(filling)
    verdicts = [one for kind in staying for one in kind.verdicts]
    left = [*stacked.place_pods(verdicts), *spread.place_pods(verdicts)]
    return _Full((stacked, spread), frozenset(id(workload) for workload, _ in left))


def _answers(
    kind: Kind, rivals: Sequence[_Filler], staying: Sequence[Kind], full: _Full
) -> Iterator[tuple[tuple[Verdict, ...], Answer]]:
    """Yield workloads of a kind whose pods don't all run, or may not all run."""
    if not kind.ends:
        certain = _is_too_much(kind, rivals, staying) and all(_outranks(each.kind, kind) for each in rivals)
        left = kind.verdicts if certain else tuple(each for each in kind.verdicts if id(each.workload) in full.left)
        yield left, Answer.NO if certain else Answer.UNKNOWN
        return
    alike: dict[int | None, list[Verdict]] = {}
    for each in kind.verdicts:
        alike.setdefault(each.workload.replicas, []).append(each)
    for jobs in alike.values():
        one = Kind((limit_to_concurrent_pods(jobs[0]),))
        if _is_too_much(one, rivals, staying):
            yield tuple(jobs), Answer.NO
        elif any(each.copy().place_pods(one.verdicts) for each in full.ways):
            yield tuple(jobs), Answer.UNKNOWN


def _is_too_much(kind: Kind, rivals: Iterable[_Filler], staying: Iterable[Kind]) -> bool:
    """Whether pods of a kind request more than their pools have next to services that run nowhere else."""
    beside = [*(each.kind for each in rivals), *(each for each in staying if each is not kind)]
    return is_too_much([*(each for each in beside if each.runs and comes_first(each, kind)), kind], kind)


def _outranks(other: Kind, kind: Kind) -> bool:
    return other.priority is not None and kind.priority is not None and other.priority > kind.priority


def _reason(answer: Answer, rivals: Sequence[_Filler]) -> Reason:
    every = [each.workload.name for rival in rivals for each in rival.kind.verdicts]
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    finds = "finds no room" if answer is Answer.NO else "may find no room"
    verb = "requests" if len(every) == 1 else "request"
    text = (
        f"{finds} next to {', '.join(every[:_SHOWN])}{more}, which {verb} no GPU and may run on the same nodes; "
        "taint the GPU pool, so that only pods that tolerate the taint run there"
    )
    return Reason(answer, "limit", text, rule=_RULE)
