"""The smallest change with which a workload that stays Pending runs: judged, and only then told."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from gpu_facts.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from gpu_facts.light_dataclasses import dataclass
from gpu_facts.resources import GPU
from gpu_preflight.case import Case
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.programs import programs
from gpu_preflight.node.instance_labels import is_of_the_type
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.reading.inputs import Input
from gpu_preflight.remedies.change import Change, patch_of, with_containers_merged
from gpu_preflight.remedies.of_pools import (
    labelled,
    larger_disk,
    missing_labels,
    more_nodes,
    told_of,
    tolerating_plugins,
)
from gpu_preflight.remedies.of_quotas import larger, larger_queue, wider, within
from gpu_preflight.remedies.of_scalers import bounded, scaler_of
from gpu_preflight.remedies.of_types import gpu_memory_of, other_type
from gpu_preflight.remedies.of_workloads import (
    as_believed,
    fewer,
    moved,
    requested,
    smaller,
    without_runtime,
)
from gpu_preflight.remedies.smallest import SmallestType, smallest_type
from gpu_preflight.remedies.trials import Trials
from gpu_preflight.scheduling.verdict import PoolVerdict, Verdict

# Each remedy is judged anew, so few are tried: for so many workloads that are unlike each other, on so many of the
# nearest pools, and none from so many pairs of pools and workloads on.
_WORKLOADS = 5
_NEAREST = 3
_MOST_PAIRS = 20_000
# Changes that are made one after the other; only one from so many pairs on.
_MOST_STEPS = 4
_MOST_FOR_MORE = 4_000
# Sets of changes that are judged for one workload.
_MOST_TRIALS = 40
# How many times the memory of a pool's GPUs others are looked for, beside any that have more.
_MORE_MEMORY = (2, 3)
# What a smaller workload supposes.
_WITH_LESS = "the pod can do with less"
_WITH_FEWER = "fewer pods are enough"
# Whether a workload runs with some changes made.
Runs = Callable[[tuple[Change, ...]], bool]
# What to change next in a cluster, by the verdict on a workload, the best first.
Way = Callable[[Case, Verdict, Runs], Iterable[tuple[Change, ...]]]


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
    """Return what would make a workload run, in the order in which to try it.

    First the pool is changed: its types, its disk and labels, then its limit or size; then the pod's tolerations and
    selector alone; and last the pods get smaller or fewer, which is a condition of the fix.

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
    steps = _MOST_STEPS if size <= _MOST_FOR_MORE else 1
    found: list[tuple[tuple[Change, ...], tuple[str, ...]]] = [
        *((_plan(trials, way, case, verdict, steps), ()) for way in (_of_pools, _of_pods)),
        *((_plan(trials, way, case, verdict, steps), (_WITH_LESS,)) for way in (_smaller, _smaller_as_believed)),
        (_plan(trials, _with_fewer, case, verdict, steps), (_WITH_FEWER,)),
    ]
    # The same changes in another order are the same.
    unlike: dict[frozenset[str], Remedy] = {}
    for changes, conditions in found:
        if changes and not (conditions and _ends_smaller(changes, unlike)):
            remedy = Remedy(with_containers_merged(changes), (*conditions, *trials.conditions(changes)))
            unlike.setdefault(frozenset(map(repr, changes)), remedy)
    return tuple(unlike.values())


def _ends_smaller(changes: tuple[Change, ...], known: Mapping[frozenset[str], Remedy]) -> bool:
    """Whether a smaller pod adds nothing to a fix that is known without it."""
    return any(each <= frozenset(map(repr, changes)) for each in known)


def _plan(trials: Trials, way: Way, case: Case, verdict: Verdict, steps: int) -> tuple[Change, ...]:
    """Return the changes of one kind, made one after the other, after which a workload runs; none where it doesn't.

    Args:
        trials: What becomes of the workload.
        way: What to change next, the best first.
        case: The cluster.
        verdict: The verdict on the workload.
        steps: How many changes are made one after the other.
    """
    done: tuple[Change, ...] = ()
    for _ in range(steps):
        runs = partial(_runs_after, trials, done)
        candidates = [_joined(done, each) for each in way(case, verdict, runs) if each]
        if (found := next(filter(trials.runs, candidates), None)) is not None:
            return found
        nearer = ((each, after) for each in candidates if (after := trials.after(each)) is not None)
        best = next(((each, after) for each, after in nearer if _is_nearer(after[1], verdict)), None)
        if best is None:
            return ()
        done, (case, verdict) = best
    return ()


def _runs_after(trials: Trials, done: tuple[Change, ...], more: tuple[Change, ...]) -> bool:
    return trials.runs(_joined(done, more))


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


def _of_pools(case: Case, verdict: Verdict, runs: Runs) -> Iterator[tuple[Change, ...]]:
    """Yield what an engineer changes first: the pools, and of the pod only what no pool decides."""
    near = _near(case, verdict)
    yield tuple(requested(verdict.demand, verdict.workload))
    if not any(each.kind == "limit" for each in verdict.reasons):
        yield from (tuple(_suited(case, verdict, each)) for each in near)
        yield from _with_larger_gpus(case, verdict, near[:1])
    taking = [each for each in verdict.pools if each.answer is not Answer.NO]
    limited = [each for each in near if any(one.kind == "limit" for one in each.reasons)]
    yield from _with_more_nodes(case, verdict, taking or limited)
    yield tuple(larger(case.shortages(verdict.workload)))
    yield tuple(wider(verdict.workload, case.cluster))
    yield tuple(larger_queue(verdict.demand, verdict.workload, case.cluster))
    yield from (tuple(told_of(verdict.demand, each, _node(case, each.pool))) for each in near)


def _with_larger_gpus(case: Case, verdict: Verdict, near: Iterable[PoolVerdict]) -> Iterator[tuple[Change, ...]]:
    """Yield types whose GPUs have more memory, for a program whose model may not fit the GPUs of the pool."""
    if not any(map(programs, verdict.workload.containers)):
        return
    for each in near:
        memory = gpu_memory_of(each.pool, case)
        for above in [memory, *(times * memory for times in _MORE_MEMORY)] if memory else []:
            yield tuple(_suited(case, verdict, each, above))


def _suited(case: Case, verdict: Verdict, judged: PoolVerdict, more_memory: int | None = None) -> Iterator[Change]:
    """Yield what makes a pool take a pod: type, disk and labels of the pool, then tolerations and the rest."""
    pool, node, wanted = judged.pool, _node(case, judged.pool), verdict.demand
    if judged.answer is not Answer.NO and more_memory is None:
        return
    changes = [
        *other_type(wanted, pool, node, case, more_memory),
        *larger_disk(wanted, pool, node),
        *labelled(wanted, pool, node),
    ]
    yield from changes
    selected = frozenset({key for key, _ in missing_labels(wanted, node)} if changes else ())
    chosen = frozenset(each.key for each in wanted.pod.selection.selector if _is_of_types(each.key)) if changes else ()
    yield from moved(wanted, verdict.workload, pool.taints, node, selected | frozenset(chosen))
    yield from tolerating_plugins(pool, pool.taints, case)


def _is_of_types(key: str) -> bool:
    """Whether a label follows from the instance type, or from what a NodePool may launch."""
    return key in (INSTANCE_TYPE, CAPACITY_TYPE, ZONE) or any(
        is_of_the_type(key, kind) for kind in ("karpenter", "auto-mode")
    )


def _of_pods(case: Case, verdict: Verdict, runs: Runs) -> Iterator[tuple[Change, ...]]:
    """Yield tolerations, selectors, the device that a node offers, and a pod without its runtime class."""
    yield tuple(without_runtime(verdict.workload))
    for each in _near(case, verdict):
        yield tuple(moved(verdict.demand, verdict.workload, each.pool.taints, _node(case, each.pool)))


def _smaller(case: Case, verdict: Verdict, runs: Runs) -> Iterator[tuple[Change, ...]]:
    """Yield pods that are small enough for a node or a quota."""
    yield tuple(within(case.shortages(verdict.workload), verdict.workload))
    for each in _near(case, verdict):
        node = _node(case, each.pool)
        lower = tuple(smaller(verdict.demand, verdict.workload, node))
        yield (*moved(verdict.demand, verdict.workload, each.pool.taints, node), *lower) if lower else ()


def _smaller_as_believed(case: Case, verdict: Verdict, runs: Runs) -> Iterator[tuple[Change, ...]]:
    """Yield pods that are small enough for a node as its autoscaler expects it."""
    for each in _near(case, verdict):
        node = _node(case, each.pool)
        lower = tuple(as_believed(verdict.demand, verdict.workload, node))
        yield (*moved(verdict.demand, verdict.workload, each.pool.taints, node), *lower) if lower else ()


def _with_fewer(case: Case, verdict: Verdict, runs: Runs) -> Iterator[tuple[Change, ...]]:
    """Yield fewer pods, once a node takes one of them."""
    if any(each.kind == "limit" for each in verdict.reasons) or case.shortages(verdict.workload):
        yield _fewer(case, verdict, runs)
    else:
        yield from _of_pods(case, verdict, runs)


def _near(case: Case, verdict: Verdict) -> list[PoolVerdict]:
    """Return the nearest of the pools with GPUs."""
    gpu_pools = {id(each) for each in case.gpu_pools}
    return [each for each in verdict.pools if id(each.pool) in gpu_pools][:_NEAREST]


def _fewer(case: Case, verdict: Verdict, runs: Runs) -> tuple[Change, ...]:
    """Return the change to the most pods that run, on pools that hold so many; none where fewer don't run either."""
    limited = any(each.kind == "limit" for each in verdict.reasons)
    taking = [each for each in verdict.pools if each.answer is not Answer.NO] if limited else []
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
