"""Services without GPUs that may run on GPU nodes, and take the CPUs and the memory that GPU pods need there.

Which pods come first nobody knows, unless their priorities differ: what is certain is only that there is not room for
all of them. A job comes when it comes, and finds services where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpu_facts.light_dataclasses import dataclass
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.reason import Reason
from gpu_preflight.scheduling.together.kinds import Kind, at_once, comes_first, is_too_much, kinds_of
from gpu_preflight.scheduling.together.packing import Filled
from gpu_preflight.scheduling.verdict import Verdict

_RULE = "GPU374"
_SHOWN = 3


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
    asked = [kind for kind in kinds_of(running) if kind.is_bounded]
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
    for kind in kinds_of(services):
        here = tuple(each for each in kind.usable if id(each.pool) in pools)
        if here:
            yield _Filler(kind, tuple(replace(each, pools=here) for each in kind.verdicts))


def _full(rivals: Iterable[_Filler], staying: Iterable[Kind]) -> _Full:
    filling = [one for each in rivals for one in each.here]
    stacked, spread = Filled(), Filled()
    stacked.put(filling)
    spread.spread(filling)
    verdicts = [one for kind in staying for one in kind.verdicts]
    left = [*stacked.put(verdicts), *spread.put(verdicts)]
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
        one = Kind((at_once(jobs[0]),))
        if _is_too_much(one, rivals, staying):
            yield tuple(jobs), Answer.NO
        elif any(each.copy().put(one.verdicts) for each in full.ways):
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
