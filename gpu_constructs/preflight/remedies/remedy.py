"""The smallest change with which a workload that stays Pending runs: judged, and only then told."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpu_constructs.facts.resources import GPU
from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Pool
from gpu_constructs.preflight.node.nodes import NodeToBe
from gpu_constructs.preflight.reading.inputs import Input
from gpu_constructs.preflight.remedies.change import Change, patch_of
from gpu_constructs.preflight.remedies.of_pools import more_nodes, other_type, told_of
from gpu_constructs.preflight.remedies.of_quotas import larger, within
from gpu_constructs.preflight.remedies.of_scalers import bounded, scaler_of
from gpu_constructs.preflight.remedies.of_workloads import as_believed, fewer, of_pod
from gpu_constructs.preflight.remedies.smallest import SmallestType, smallest_type
from gpu_constructs.preflight.remedies.trials import Trials
from gpu_constructs.preflight.scheduling.verdict import PoolVerdict, Verdict

# Each remedy is judged anew, so few are tried: for so many workloads that are unlike each other, on so many of the
# nearest pools, and none from so many pairs of pools and workloads on.
_WORKLOADS = 5
_NEAREST = 3
_MOST_PAIRS = 20_000
# From so many on, no two changes together are tried.
_MOST_FOR_TWO = 4_000
# Sets of changes that are judged for one workload.
_MOST_TRIALS = 40
# What lets a pod onto nodes, whatever it asks of them.
_LET_ON = ("tolerations", "nodeSelector")
# Whether a workload runs with some changes made.
Runs = Callable[[tuple[Change, ...]], bool]
# A way to go about it: returns the smallest changes of its kind with which a workload runs, or none.
Way = Callable[[Runs], tuple[Change, ...]]


@dataclass(frozen=True, slots=True)
class Remedy:
    """Changes with which a workload runs.

    Attributes:
        changes: What to change, all of it.
        conditions: What else has to be true.
    """

    changes: tuple[Change, ...]
    conditions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All of it in one line."""
        text = ", and ".join(each.text for each in self.changes)
        return f"{text}, if {' and '.join(self.conditions)}" if self.conditions else text

    @property
    def patch(self) -> dict[str, Any] | None:
        """The body of a strategic merge patch of the workload; ``None`` where nothing of it is changed."""
        return patch_of(self.changes)


def remedies(given: Input, case: Case, verdict: Verdict, running: frozenset[str] = frozenset()) -> tuple[Remedy, ...]:
    """Return what would make a workload run: in itself, and in a pool, as far as each can be found.

    Args:
        given: What was read.
        case: The cluster.
        verdict: The verdict on the workload, which is no.
        running: Names of the workloads that run, which no change may stop.
    """
    size = len(case.cluster.pools) * len(case.cluster.workloads)
    if size > _MOST_PAIRS:
        return ()

    trials = Trials(given, case, verdict.workload, running, _MOST_TRIALS)
    found = [changes for way in _ways(case, verdict) if (changes := way(trials.runs))]
    if size <= _MOST_FOR_TWO:
        found += _pairs(trials, case, verdict, {_is_outside(each) for each in found})
    # The same changes in another order are the same.
    unlike: dict[frozenset[str], tuple[Change, ...]] = {}
    for each in found:
        unlike.setdefault(frozenset(map(repr, each)), each)
    return tuple(Remedy(each, trials.conditions(each)) for each in unlike.values())


def _pairs(trials: Trials, case: Case, verdict: Verdict, known: set[bool]) -> Iterator[tuple[Change, ...]]:
    """Yield changes in two parts, of which the first mends something and the second the rest.

    Args:
        trials: What becomes of the workload.
        case: The cluster.
        verdict: The verdict on the workload.
        known: Whether changes that do are in a pool or a quota, or in the workload alone; one of a kind is enough.
    """
    done = set(known)
    for first in _parts(case, verdict):
        outside = _is_outside(first)
        after = None if outside in done else trials.after(first)
        if after is None or not _is_nearer(after[1], verdict):
            continue
        rests = [rest for way in _ways(*after) if (rest := way(partial(_runs_with, trials, first)))]
        # Who may change the workload alone needs no more than that.
        found = [rest for rest in rests if not (known and any(not each.of_pool for each in rest))]
        done |= {outside} if found else set()
        yield from (_joined(first, each) for each in found)


def _is_outside(changes: tuple[Change, ...]) -> bool:
    """Whether something is changed that is not of the workload."""
    return any(each.of_pool for each in changes)


def _runs_with(trials: Trials, first: tuple[Change, ...], rest: tuple[Change, ...]) -> bool:
    return bool(rest) and trials.runs(_joined(first, rest))


def _joined(first: tuple[Change, ...], rest: tuple[Change, ...]) -> tuple[Change, ...]:
    """Return changes in order; what is set twice is set to the last value, which the first led to."""
    places = {(each.key, each.origin, each.property) for each in rest if each.property[-1] != "containers"}
    return (*(each for each in first if (each.key, each.origin, each.property) not in places), *rest)


def _is_nearer(after: Verdict, before: Verdict) -> bool:
    """Whether something that kept the pods from running does no more."""
    return bool(_against(before) - _against(after))


def _against(verdict: Verdict) -> set[tuple[str, str]]:
    found = {("", each.text) for each in verdict.reasons if each.answer is Answer.NO}
    return found | {(each.pool.name, text) for each in verdict.pools for text in each.refusing}


def _parts(case: Case, verdict: Verdict) -> Iterator[tuple[Change, ...]]:
    """Yield changes that may mend a part of what keeps the pods from running."""
    taking = [each for each in verdict.pools if each.answer is not Answer.NO]
    yield from _with_more_nodes(case, verdict, taking)
    yield tuple(larger(case.shortages(verdict.workload)))
    near = _near(case, verdict)
    yield from (_of_pod(case, verdict, each) for each in near)
    yield from (_moved_to(case, verdict, each) for each in near)
    yield from (_of_pool(case, verdict, each) for each in near)


def _ways(case: Case, verdict: Verdict) -> Iterator[Way]:
    """Yield the ways to go about it: in the workload, and in a pool."""
    if any(each.kind == "limit" for each in verdict.reasons):
        taking = [each for each in verdict.pools if each.answer is not Answer.NO]
        yield partial(_fewer, verdict, taking, case)
        yield partial(_first, _with_more_nodes(case, verdict, taking))
        return
    short = case.shortages(verdict.workload)
    if short:
        yield partial(_fewer, verdict, (), case)
        yield partial(_first, [tuple(within(short, verdict.workload))])
        yield partial(_first, [tuple(larger(short))])
        return
    near = _near(case, verdict)
    of_pods = (way(case, verdict, each) for way in (_of_pod, _as_believed) for each in near)
    yield partial(_first, of_pods)
    yield partial(_first, (_of_pool(case, verdict, each) for each in near))
    yield partial(_first, (tuple(told_of(verdict.demand, each, _node(case, each.pool))) for each in near))


def _near(case: Case, verdict: Verdict) -> list[PoolVerdict]:
    """Return the nearest of the pools with GPUs."""
    gpu_pools = {id(each) for each in case.gpu_pools}
    return [each for each in verdict.pools if id(each.pool) in gpu_pools][:_NEAREST]


def _of_pod(case: Case, verdict: Verdict, judged: PoolVerdict) -> tuple[Change, ...]:
    return tuple(of_pod(verdict.demand, verdict.workload, judged.pool.taints, _node(case, judged.pool)))


def _as_believed(case: Case, verdict: Verdict, judged: PoolVerdict) -> tuple[Change, ...]:
    return tuple(as_believed(verdict.demand, verdict.workload, judged.pool.taints, _node(case, judged.pool)))


def _moved_to(case: Case, verdict: Verdict, judged: PoolVerdict) -> tuple[Change, ...]:
    """Return what of a pod's changes lets it onto nodes, whatever it asks of them."""
    return tuple(each for each in _of_pod(case, verdict, judged) if each.property[-1] in _LET_ON)


def _first(candidates: Iterable[tuple[Change, ...]], runs: Runs) -> tuple[Change, ...]:
    return next(filter(runs, candidates), ())


def _fewer(verdict: Verdict, taking: Iterable[PoolVerdict], case: Case, runs: Runs) -> tuple[Change, ...]:
    """Return the change to the most pods that run, on pools that hold so many."""
    rest, holding = (verdict.workload.replicas or 1) - 1, [each.holds or 0 for each in taking]
    most = min(sum(holding), rest) if holding else rest
    counts = range(most, 0, -1)
    scaler = scaler_of(verdict.workload, case.cluster)

    def to(count: int) -> tuple[Change, ...]:
        return tuple(fewer(verdict.workload, count) if scaler is None else bounded(scaler, count))

    # Where some number of pods runs, fewer do.
    first = bisect_left(counts, True, key=lambda count: runs(to(count)))
    return to(counts[first]) if first < len(counts) else ()


def _node(case: Case, pool: Pool) -> NodeToBe:
    """Return the node that a pod has to fit: EC2 chooses among the types of a group, Karpenter takes what fits."""
    choose = min if pool.is_group else max
    return choose(case.nodes(pool), key=lambda each: (each.most.get(GPU, 0), each.most.get("memory", 0)))


def _with_more_nodes(case: Case, verdict: Verdict, taking: Iterable[PoolVerdict]) -> Iterator[tuple[Change, ...]]:
    replicas, judged = verdict.workload.replicas or 1, list(taking)
    missing = max(replicas - sum(each.holds or 0 for each in judged), 1)
    for each in judged:
        yield tuple(more_nodes(each, missing, case))
        yield tuple(more_nodes(each, replicas, case))


def _of_pool(case: Case, verdict: Verdict, judged: PoolVerdict) -> tuple[Change, ...]:
    """Return the change of a pool's type, with what the pod needs besides."""
    lacks = any(each.kind == "resource" for each in judged.reasons)
    types = tuple(other_type(verdict.demand, judged.pool, case)) if lacks else ()
    if not types:
        return ()
    besides = of_pod(verdict.demand, verdict.workload, judged.pool.taints, _node(case, judged.pool))
    return (*types, *(each for each in besides if each.property[-1] in _LET_ON))


Remedies = Mapping[int, tuple[tuple[Remedy, ...], SmallestType | None]]


def remedies_of(given: Input, case: Case, verdicts: Iterable[Verdict]) -> Remedies:
    """Return the remedies of the first verdicts that say no, one of workloads that are alike, by identity of it."""
    found: dict[int, tuple[tuple[Remedy, ...], SmallestType | None]] = {}
    seen: set[tuple[object, ...]] = set()
    listed = list(verdicts)
    running = frozenset(each.workload.name for each in (*case.verdicts, *listed) if each.answer is Answer.YES)
    for verdict in listed:
        workload = verdict.workload
        kind = workload.owner.kind, workload.namespace, workload.replicas, id(workload.pod)
        if verdict.answer is not Answer.NO or workload.on_each_node or not workload.asks_for_gpu or kind in seen:
            continue
        if len(seen) == _WORKLOADS:
            break
        seen.add(kind)
        would_do = remedies(given, case, verdict, running)
        found[id(workload)] = would_do, None if would_do else smallest_type(case, verdict)
    return found
