"""The smallest change after which a Pending workload runs. Each change is checked before it is suggested."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from gpu_facts.hardware.regions import price_list, usd_per_hour
from gpu_facts.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from gpu_facts.light import dataclass
from gpu_facts.resources import GPU
from gpu_preflight.case import Case
from gpu_preflight.cluster.network import region_of_cluster
from gpu_preflight.judging.check import check
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.pod import Workload
from gpu_preflight.model.programs import programs
from gpu_preflight.node.instance_types import is_of_the_type
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.reading.inputs import Input
from gpu_preflight.remedies.change import Change, changed, strategic_merge_patch, with_containers_merged
from gpu_preflight.remedies.pools import (
    labelled,
    larger_disk,
    max_gpu_memory,
    missing_labels,
    more_nodes,
    other_type,
    tag_node_group,
    tolerating_plugins,
)
from gpu_preflight.remedies.workloads import (
    as_believed,
    bounded,
    corrected,
    fewer,
    larger,
    larger_queue,
    moved,
    requested,
    smaller,
    wider,
    within,
    without_runtime,
    workload_scaler,
)
from gpu_preflight.scheduling.demand import smallest_type as smallest_type_for
from gpu_preflight.scheduling.verdict import PoolVerdict, Verdict

# Each fix is checked separately, so few are tried: for this many distinct workloads, on this many of the nearest pools.
# No fix is tried from this many pairs of pools and workloads.
_WORKLOADS = 5
_NEAREST = 3
_MOST_PAIRS = 20_000
# Max number of changes in sequence. Only one change from this many pairs.
_MOST_STEPS = 4
_MOST_FOR_MORE = 4_000
# Max number of sets of changes that are checked for one workload.
_MOST_TRIALS = 40
# Multiples of the pool's GPU memory to search other types for, in addition to any type with more memory.
_MORE_MEMORY = (2, 3)
# The condition of a fix with a smaller workload.
_WITH_LESS = "the pod can do with less"
_WITH_FEWER = "fewer pods are enough"
# Whether a workload runs after some changes.
Runs = Callable[[tuple[Change, ...]], bool]
# The next changes in a cluster for the result of a workload, the best first.
Way = Callable[[Case, Verdict, Runs], Iterable[tuple[Change, ...]]]


class Trials:
    """Trials of changes for one workload.

    Args:
        given: The input.
        case: The cluster.
        workload: The workload.
        running: Names of the workloads that run and must keep running.
        max_trials: How many sets of changes are checked.
    """

    def __init__(self, given: Input, case: Case, workload: Workload, running: frozenset[str], max_trials: int) -> None:
        self._given, self._cluster, self._workload = given, case.cluster.title, workload
        self._running, self._left = running, max_trials
        self._seen: dict[str, tuple[Case, tuple[Verdict, ...]] | None] = {}

    def runs(self, changes: tuple[Change, ...]) -> bool:
        """Whether all pods run after the changes and no running workload stops.

        They may run under conditions, which :meth:`conditions` returns.
        """
        judged = self._judged(changes)
        return judged is not None and all(each.answer is Answer.YES or each.runs_if for each in judged[1])

    def conditions(self, changes: tuple[Change, ...]) -> tuple[str, ...]:
        """Return the conditions under which the pods run after some changes."""
        judged = self._judged(changes)
        return tuple(dict.fromkeys(one for each in judged[1] for one in each.runs_if)) if judged else ()

    def after(self, changes: tuple[Change, ...]) -> tuple[Case, Verdict] | None:
        """Return the cluster and the result after some changes, if there is a result and it is still no."""
        judged = self._judged(changes)
        if judged is None or len(judged[1]) != 1 or judged[1][0].answer is not Answer.NO:
            return None
        return judged[0], judged[1][0]

    def _judged(self, changes: tuple[Change, ...]) -> tuple[Case, tuple[Verdict, ...]] | None:
        """Return the results after some changes; ``None`` if there are none, or after the max number of trials."""
        key = repr([(each.key, each.origin, each.property, each.value) for each in changes])
        if key not in self._seen:
            asks = bool(changes) and self._left > 0
            self._seen[key] = self._judge(changes) if asks else None
            self._left -= asks
        return self._seen[key]

    def _judge(self, changes: tuple[Change, ...]) -> tuple[Case, tuple[Verdict, ...]] | None:
        report = check(changed(self._given, self._workload.owner, changes), every_rule=False)
        for case in report.cases:
            if case.cluster.title == self._cluster:
                verdicts = report.explanation(case, named=True).verdicts
                found = tuple(each for each in verdicts if each.workload.name == self._workload.name)
                return (case, found) if found and not self._stops_others(verdicts) else None
        return None

    def _stops_others(self, verdicts: tuple[Verdict, ...]) -> bool:
        return any(each.answer is Answer.NO and each.workload.name in self._running for each in verdicts)


@dataclass(frozen=True, slots=True)
class SmallestType:
    """The smallest instance type whose node has a pod's requests.

    Attributes:
        name: Its name.
        usd_per_hour: On-demand list price in the region of the cluster, US dollars an hour; ``None`` if there is none.
        price_list: The region whose list has the price; ``None`` if there is none.
    """

    name: str
    usd_per_hour: float | None
    price_list: str | None


def smallest_type(case: Case, verdict: Verdict) -> SmallestType | None:
    """Return the smallest type for a pod that fits on no node; ``None`` if it fits on one or no type is known.

    The node runs Amazon Linux 2023 with the defaults of EKS, before the pods of DaemonSets. For shares and slices, no
    type is known, because the settings of a pool decide their size.
    """
    region = region_of_cluster(case.cluster)
    if any(each.kind == "refused" and each.answer is Answer.NO for each in verdict.reasons):
        return None
    if not all(any(map(_is_too_small, each.reasons)) for each in verdict.pools):
        return None
    if any(each.kind in ("rule", "program") and each.answer is Answer.NO for each in verdict.reasons):
        return None
    row = smallest_type_for(verdict.demand, region)
    if row is None:
        return None
    price = usd_per_hour(row, region)
    return SmallestType(row.name, price, None if price is None else price_list(region))


def _is_too_small(reason: Reason) -> bool:
    return reason.kind == "resource" and reason.answer is Answer.NO


@dataclass(frozen=True, slots=True)
class Remedy:
    """Changes after which a workload runs.

    Attributes:
        changes: All changes.
        conditions: Other conditions that must be true.
    """

    changes: tuple[Change, ...]
    conditions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All changes in one line."""
        text = ", and ".join(each.text for each in self.changes)
        return f"{text}, if {' and '.join(self.conditions)}" if self.conditions else text

    @property
    def patch(self) -> dict[str, Any] | None:
        """The body of a strategic merge patch of the workload; ``None`` if the workload isn't changed."""
        return strategic_merge_patch(self.changes)


def remedies(given: Input, case: Case, verdict: Verdict, running: frozenset[str] = frozenset()) -> tuple[Remedy, ...]:
    """Return the fixes for a workload, in the order in which to try them.

    First, typos in the labels that the pod selects are corrected, together with other cheap changes of the pod. Then
    the pool is changed: its types, its disk and labels, then its limit or size. Then only the pod's tolerations and
    selector are changed. Last, the pods get smaller or fewer, which is a condition of the fix.

    Args:
        given: The input.
        case: The cluster.
        verdict: The result for the workload, which is no.
        running: Names of the workloads that run, which no change may stop.
    """
    size = len(case.cluster.pools) * len(case.cluster.workloads)
    if size > _MOST_PAIRS:
        return ()

    trials = Trials(given, case, verdict.workload, running, _MOST_TRIALS)
    steps = _MOST_STEPS if size <= _MOST_FOR_MORE else 1
    found: list[tuple[tuple[Change, ...], tuple[str, ...]]] = [
        *((_plan(trials, way, case, verdict, steps), ()) for way in (_corrections, _pool_changes, _pod_changes)),
        *((_plan(trials, way, case, verdict, steps), (_WITH_LESS,)) for way in (_smaller, _smaller_as_believed)),
        (_plan(trials, _with_fewer, case, verdict, steps), (_WITH_FEWER,)),
    ]
    # The same changes in another order are the same fix.
    unlike: dict[frozenset[str], Remedy] = {}
    for changes, conditions in found:
        if changes and not (conditions and _ends_smaller(changes, unlike)):
            remedy = Remedy(with_containers_merged(changes), (*conditions, *trials.conditions(changes)))
            unlike.setdefault(frozenset(map(repr, changes)), remedy)
    return tuple(unlike.values())


def _ends_smaller(changes: tuple[Change, ...], known: Mapping[frozenset[str], Remedy]) -> bool:
    """Whether a known fix contains a fix without its smaller pod."""
    return any(each <= frozenset(map(repr, changes)) for each in known)


def _plan(trials: Trials, way: Way, case: Case, verdict: Verdict, steps: int) -> tuple[Change, ...]:
    """Return the changes of one kind, in sequence, after which a workload runs; none if it doesn't run.

    Args:
        trials: Trials of the workload.
        way: The next changes, the best first.
        case: The cluster.
        verdict: The result for the workload.
        steps: Max number of changes in sequence.
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
    """Return changes in order. If two changes set the same value, only the last one is kept."""
    places = {(each.key, each.origin, each.property) for each in rest if each.property[-1] != "containers"}
    return (*(each for each in first if (each.key, each.origin, each.property) not in places), *rest)


def _is_nearer(after: Verdict, before: Verdict) -> bool:
    """Whether a reason that kept the pods from running is gone."""
    return bool(_against(before) - _against(after))


def _against(verdict: Verdict) -> set[tuple[str, str]]:
    found = {("", each.text) for each in verdict.reasons if each.answer is Answer.NO}
    return found | {(each.pool.name, text) for each in verdict.pools for text in each.refusing}


def _pool_changes(case: Case, verdict: Verdict, runs: Runs) -> Iterator[tuple[Change, ...]]:
    """Yield the changes that an engineer would try first: of pools, and of pod settings that no pool decides."""
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
    yield from (tuple(tag_node_group(verdict.demand, each, _node(case, each.pool))) for each in near)


def _with_larger_gpus(case: Case, verdict: Verdict, near: Iterable[PoolVerdict]) -> Iterator[tuple[Change, ...]]:
    """Yield types whose GPUs have more memory, for a program whose model may not fit the GPUs of the pool."""
    if not any(map(programs, verdict.workload.containers)):
        return
    for each in near:
        memory = max_gpu_memory(each.pool, case)
        for above in [memory, *(times * memory for times in _MORE_MEMORY)] if memory else []:
            yield tuple(_suited(case, verdict, each, above))


def _suited(case: Case, verdict: Verdict, judged: PoolVerdict, more_memory: int | None = None) -> Iterator[Change]:
    """Yield changes with which a pool accepts a pod: its type, disk and labels, then tolerations and the rest."""
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
    yield from _moved(case, verdict, judged, selected | frozenset(chosen))
    yield from tolerating_plugins(pool, pool.taints, case)


def _is_of_types(key: str) -> bool:
    """Whether the instance type, or the requirements of a NodePool, set a label."""
    return key in (INSTANCE_TYPE, CAPACITY_TYPE, ZONE) or any(
        is_of_the_type(key, kind) for kind in ("karpenter", "auto-mode")
    )


def _moved(
    case: Case, verdict: Verdict, judged: PoolVerdict, selected: frozenset[str] = frozenset()
) -> Iterator[Change]:
    """Yield changes that allow a pod on a pool: corrected typos, then tolerations, labels and the device."""
    nodes = case.nodes(judged.pool)
    typos = [each for each in corrected(verdict.workload, nodes) if selected.isdisjoint(each.value)]
    yield from typos
    fixed = frozenset(key for each in typos if each.property[-1] == "nodeSelector" for key in each.value)
    yield from moved(verdict.demand, verdict.workload, judged.pool.taints, _node(case, judged.pool), selected | fixed)


def _corrections(case: Case, verdict: Verdict, runs: Runs) -> Iterator[tuple[Change, ...]]:
    """Yield changes of the pod, if it selects a label with a typo: the corrected label, tolerations and the rest."""
    for each in _near(case, verdict):
        if typos := tuple(corrected(verdict.workload, case.nodes(each.pool))):
            yield typos
            yield tuple(_moved(case, verdict, each))


def _pod_changes(case: Case, verdict: Verdict, runs: Runs) -> Iterator[tuple[Change, ...]]:
    """Yield tolerations, selectors, the device that a node offers, and the removal of a runtime class."""
    yield tuple(without_runtime(verdict.workload))
    for each in _near(case, verdict):
        yield tuple(_moved(case, verdict, each))
        yield tuple(moved(verdict.demand, verdict.workload, each.pool.taints, _node(case, each.pool)))


def _smaller(case: Case, verdict: Verdict, runs: Runs) -> Iterator[tuple[Change, ...]]:
    """Yield pods that are small enough for a node or a quota."""
    yield tuple(within(case.shortages(verdict.workload), verdict.workload))
    for each in _near(case, verdict):
        node = _node(case, each.pool)
        lower = tuple(smaller(verdict.demand, verdict.workload, node))
        yield (*_moved(case, verdict, each), *lower) if lower else ()


def _smaller_as_believed(case: Case, verdict: Verdict, runs: Runs) -> Iterator[tuple[Change, ...]]:
    """Yield pods that are small enough for the autoscaler's view of a node."""
    for each in _near(case, verdict):
        node = _node(case, each.pool)
        lower = tuple(as_believed(verdict.demand, verdict.workload, node))
        yield (*_moved(case, verdict, each), *lower) if lower else ()


def _with_fewer(case: Case, verdict: Verdict, runs: Runs) -> Iterator[tuple[Change, ...]]:
    """Yield fewer pods, if a node accepts one of them."""
    if any(each.kind == "limit" for each in verdict.reasons) or case.shortages(verdict.workload):
        yield _fewer(case, verdict, runs)
    else:
        yield from _pod_changes(case, verdict, runs)


def _near(case: Case, verdict: Verdict) -> list[PoolVerdict]:
    """Return the nearest of the pools with GPUs."""
    gpu_pools = {id(each) for each in case.gpu_pools}
    return [each for each in verdict.pools if id(each.pool) in gpu_pools][:_NEAREST]


def _fewer(case: Case, verdict: Verdict, runs: Runs) -> tuple[Change, ...]:
    """Return the change to the max number of pods that run on pools with room for them; none if no number runs."""
    limited = any(each.kind == "limit" for each in verdict.reasons)
    taking = [each for each in verdict.pools if each.answer is not Answer.NO] if limited else []
    rest, holding = (verdict.workload.replicas or 1) - 1, [each.holds or 0 for each in taking]
    most = min(sum(holding), rest) if holding else rest
    counts = range(most, 0, -1)
    scaler = workload_scaler(verdict.workload, case)

    def to(count: int) -> tuple[Change, ...]:
        return tuple(fewer(verdict.workload, count) if scaler is None else bounded(scaler, count))

    # If a number of pods runs, fewer run too.
    first = bisect_left(counts, True, key=lambda count: runs(to(count)))
    return to(counts[first]) if first < len(counts) else ()


def _node(case: Case, pool: Pool) -> NodeToBe:
    """Return the node that a pod must fit on. EC2 may choose any type of a group, Karpenter chooses one that fits."""
    choose = min if pool.is_group else max
    return choose(case.nodes(pool), key=lambda each: (each.most.get(GPU, 0), each.most.get("memory", 0)))


def _with_more_nodes(case: Case, verdict: Verdict, taking: Iterable[PoolVerdict]) -> Iterator[tuple[Change, ...]]:
    replicas, judged = verdict.workload.replicas or 1, list(taking)
    missing = max(replicas - sum(each.holds or 0 for each in judged), 1)
    for each in judged:
        yield tuple(more_nodes(verdict.demand, each, missing, case))
        yield tuple(more_nodes(verdict.demand, each, replicas, case))


Remedies = Mapping[int, tuple[tuple[Remedy, ...], SmallestType | None]]


def fixes_by_workload(given: Input, case: Case, verdicts: Iterable[Verdict]) -> Remedies:
    """Return the fixes for the first results that are no, one for workloads that are alike, by id of the result."""
    found: dict[int, tuple[tuple[Remedy, ...], SmallestType | None]] = {}
    seen: set[tuple[object, ...]] = set()
    listed = list(verdicts)
    running = frozenset(each.workload.name for each in (*case.verdicts, *listed) if each.answer is Answer.YES)
    for verdict in listed:
        workload = verdict.workload
        kind = workload.owner.kind, workload.namespace, workload.replicas, id(workload.pod)
        if verdict.answer is not Answer.NO or workload.is_daemon_set or not workload.asks_for_gpu or kind in seen:
            continue
        if len(seen) == _WORKLOADS:
            break
        seen.add(kind)
        would_do = remedies(given, case, verdict, running)
        found[id(workload)] = would_do, None if would_do else smallest_type(case, verdict)
    return found
