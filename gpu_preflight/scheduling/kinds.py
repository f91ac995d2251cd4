"""Workloads whose pods are alike, and what many of them ask of pools together.

Services without GPUs that may run on GPU nodes, and take the CPUs and the memory that GPU pods need there.

Which pods come first nobody knows, unless their priorities differ: what is certain is only that there is not room for
all of them. A job comes when it comes, and finds services where they are.
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
    """Verdicts on workloads whose pods are alike: what holds of one of them holds of all."""

    verdicts: tuple[Verdict, ...]

    @property
    def priority(self) -> int | None:
        """Priority of each of them, where it is known."""
        return self.verdicts[0].workload.priority

    @property
    def preempts(self) -> bool:
        """Whether each of them takes the place of those of lower priority that run."""
        return self.verdicts[0].workload.preempts

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
    def ends(self) -> bool:
        """Whether their pods end by themselves."""
        return self.verdicts[0].workload.ends

    @property
    def may_take_turns(self) -> bool:
        """Whether only they know that all of their pods have to run at once."""
        return self.verdicts[0].workload.may_take_turns

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

    def total_request(self, name: str) -> int:
        """Return how much of a resource all of them ask for."""
        return self.verdicts[0].demand.requests.get(name, 0) * self.replicas


def limit_to_concurrent_pods(verdict: Verdict) -> Verdict:
    """Return the verdict on as many pods of a job as have to run at once: those that take turns need one place."""
    workload = verdict.workload
    one = workload.takes_turns and (workload.replicas or 0) > 1
    return replace(verdict, workload=replace(workload, replicas=1)) if one else verdict


def group_by_kind(verdicts: Iterable[Verdict]) -> list[Kind]:
    """Return workloads whose pods are alike together."""
    alike: dict[tuple[object, ...], list[Verdict]] = {}
    for each in verdicts:
        pods = each.workload
        alike.setdefault((id(each.pools), pods.priority, pods.preempts, each.answer, pods.ends), []).append(each)
    return [Kind(tuple(each)) for each in alike.values()]


def comes_first(other: Kind, kind: Kind) -> bool:
    """Whether another kind of workload is not put aside for one, and may take its place."""
    priorities = other.priority, kind.priority
    lower = kind.preempts and None not in priorities and (priorities[0] or 0) < (priorities[1] or 0)
    return not lower and not other.pools.isdisjoint(kind.pools)


def is_too_much(together: Iterable[Kind], kind: Kind) -> bool:
    """Whether workloads that may use some pools and no others ask for more than these can ever have."""
    inside = [each for each in together if each.pools <= kind.pools]
    alike = len({each.verdicts[0].demand.requests_key for each in inside}) == 1
    # Pods that keep apart from their like alone leave room to others.
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
    """Return the most that the nodes of pools have of a resource; ``None`` without bound, or where it is not known."""
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
        here: The same, as if they might run on GPU nodes only.
    """

    kind: Kind
    here: tuple[Verdict, ...]


@dataclass(frozen=True)
class _Full:
    """GPU nodes on which services without GPUs are first.

    Attributes:
        ways: The nodes as they are filled in some ways, with the services that ask for GPUs on what was left.
        left: The services that did not all find room in one of them, by identity of the workload.
    """

    ways: tuple[Filled, ...]
    left: frozenset[int]


def crowded_out(running: Iterable[Verdict], services: Iterable[Verdict]) -> dict[int, Reason]:
    """Return why GPU pods find no room on their nodes, or may find none, by the identity of the verdict.

    Args:
        running: The verdict on each workload that asks for GPUs and runs alone, or may.
        services: The verdict on each service that asks for none.
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
    """Yield workloads of a kind that do not all run, or may not."""
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
    """Whether pods of a kind ask for more than their pools have beside services that run nowhere else."""
    beside = [*(each.kind for each in rivals), *(each for each in staying if each is not kind)]
    return is_too_much([*(each for each in beside if each.runs and comes_first(each, kind)), kind], kind)


def _outranks(other: Kind, kind: Kind) -> bool:
    return other.priority is not None and kind.priority is not None and other.priority > kind.priority


def _reason(answer: Answer, rivals: Sequence[_Filler]) -> Reason:
    every = [each.workload.name for rival in rivals for each in rival.kind.verdicts]
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    finds = "finds no room" if answer is Answer.NO else "may find no room"
    asks = "asks" if len(every) == 1 else "ask"
    text = (
        f"{finds} beside {', '.join(every[:_SHOWN])}{more}, which {asks} for no GPU and may run on the same nodes; "
        "taint the pool of GPUs, so that only pods that tolerate it come there"
    )
    return Reason(answer, "limit", text, rule=_RULE)
