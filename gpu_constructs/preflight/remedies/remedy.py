"""The smallest change with which a workload that stays Pending runs: judged, and only then told."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from gpu_constructs.facts.hardware.catalogue import InstanceType
from gpu_constructs.facts.hardware.prices import usd_per_hour
from gpu_constructs.facts.hardware.regions import is_unseen
from gpu_constructs.facts.labels import ARCH, OLD_ARCH
from gpu_constructs.facts.quantities import Resources
from gpu_constructs.facts.resources import DEVICE_CLASS, EFA, GPU
from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.cluster.subnets import region_of_cluster
from gpu_constructs.preflight.judging.check import check
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Pool
from gpu_constructs.preflight.model.workload import Workload
from gpu_constructs.preflight.node.instance_labels import Labels, autoscaler_labels, kubelet_labels
from gpu_constructs.preflight.node.node_size import allocatable
from gpu_constructs.preflight.node.nodes import NodeToBe
from gpu_constructs.preflight.reading.inputs import Input
from gpu_constructs.preflight.reading.objects import Origin
from gpu_constructs.preflight.reading.unknown import Unknown
from gpu_constructs.preflight.remedies.change import Change, changed, patch_of
from gpu_constructs.preflight.remedies.of_pools import more_nodes, other_type, smallest_first, told_of
from gpu_constructs.preflight.remedies.of_quotas import larger, within
from gpu_constructs.preflight.remedies.of_workloads import as_believed, fewer, of_pod
from gpu_constructs.preflight.scheduling.claims import claimed_gpus
from gpu_constructs.preflight.scheduling.demand import Demand
from gpu_constructs.preflight.scheduling.verdict import PoolVerdict, Verdict

# Each remedy is judged anew, so few are tried: for so many workloads that are unlike each other, on so many of the
# nearest pools, and none from so many pairs of pools and workloads on.
_WORKLOADS = 5
_NEAREST = 3
_MOST_PAIRS = 20_000
# What a type decides of what pods ask for, and the disk that EKS gives it.
_OF_TYPES = {"cpu", "memory", "pods", "ephemeral-storage", GPU, EFA, DEVICE_CLASS}
_PLAIN = Pool("plain", "managed", Origin("", ""), operating_system="al2023")
# Whether a workload runs with some changes made.
Runs = Callable[[tuple[Change, ...]], bool]
# A way to go about it: returns the smallest changes of its kind with which a workload runs, or none.
Way = Callable[[Runs], tuple[Change, ...]]


@dataclass(frozen=True, slots=True)
class Remedy:
    """Changes with which a workload runs.

    Attributes:
        changes: What to change, all of it.
    """

    changes: tuple[Change, ...]

    @property
    def text(self) -> str:
        """All of it in one line."""
        return ", and ".join(each.text for each in self.changes)

    @property
    def patch(self) -> dict[str, Any] | None:
        """The body of a strategic merge patch of the workload; ``None`` where nothing of it is changed."""
        return patch_of(self.changes)


@dataclass(frozen=True, slots=True)
class SmallestType:
    """The smallest instance type whose node has what a pod asks for.

    Attributes:
        name: Its name.
        usd_per_hour: On-demand list price in the region of the cluster, US dollars an hour; ``None`` where there is
            none.
    """

    name: str
    usd_per_hour: float | None


def remedies(given: Input, case: Case, verdict: Verdict) -> tuple[Remedy, ...]:
    """Return what would make a workload run: in itself, and in a pool, as far as each can be found.

    Args:
        given: What was read.
        case: The cluster.
        verdict: The verdict on the workload, which is no.
    """
    if len(case.cluster.pools) * len(case.cluster.workloads) > _MOST_PAIRS:
        return ()

    def runs(changes: tuple[Change, ...]) -> bool:
        return bool(changes) and _runs(changed(given, verdict.workload.owner, changes), case, verdict.workload)

    found = [changes for way in _ways(case, verdict) if (changes := way(runs))]
    return tuple(Remedy(each) for place, each in enumerate(found) if each not in found[:place])


def _ways(case: Case, verdict: Verdict) -> Iterator[Way]:
    """Yield the ways to go about it: in the workload, and in a pool."""
    if any(each.kind == "limit" for each in verdict.reasons):
        taking = [each for each in verdict.pools if each.answer is not Answer.NO]
        yield partial(_fewer, verdict, taking)
        yield partial(_first, _with_more_nodes(case, verdict, taking))
        return
    short = case.shortages(verdict.workload)
    if short:
        yield partial(_fewer, verdict, ())
        yield partial(_first, [tuple(within(short, verdict.workload))])
        yield partial(_first, [tuple(larger(short))])
        return
    gpu_pools = {id(each) for each in case.gpu_pools}
    near = [each for each in verdict.pools if id(each.pool) in gpu_pools][:_NEAREST]
    of_pods = (
        tuple(way(verdict.demand, verdict.workload, each.pool.taints, _node(case, each.pool)))
        for way in (of_pod, as_believed)
        for each in near
    )
    yield partial(_first, of_pods)
    yield partial(_first, (_of_pool(case, verdict, each) for each in near))
    yield partial(_first, (tuple(told_of(verdict.demand, each, _node(case, each.pool))) for each in near))


def _first(candidates: Iterable[tuple[Change, ...]], runs: Runs) -> tuple[Change, ...]:
    return next(filter(runs, candidates), ())


def _fewer(verdict: Verdict, taking: Iterable[PoolVerdict], runs: Runs) -> tuple[Change, ...]:
    """Return the change to the most pods that run, on pools that hold so many."""
    rest, holding = (verdict.workload.replicas or 1) - 1, [each.holds or 0 for each in taking]
    most = min(sum(holding), rest) if holding else rest
    counts = range(most, 0, -1)
    # Where some number of pods runs, fewer do.
    first = bisect_left(counts, True, key=lambda count: runs(tuple(fewer(verdict.workload, count))))
    return tuple(fewer(verdict.workload, counts[first])) if first < len(counts) else ()


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
    return (*types, *(each for each in besides if each.property[-1] in ("tolerations", "nodeSelector")))


def _runs(given: Input, case: Case, workload: Workload) -> bool:
    """Judge the changed input anew."""
    report = check(given)
    verdicts = chain.from_iterable(
        report.explanation(each).verdicts for each in report.cases if each.cluster.name == case.cluster.name
    )
    answers = [each.answer for each in verdicts if each.workload.name == workload.name]
    return bool(answers) and all(each is Answer.YES for each in answers)


def smallest_type(case: Case, verdict: Verdict) -> SmallestType | None:
    """Return the smallest type for a pod that fits no node of any pool, ``None`` where one fits or none is known.

    Its node is one of Amazon Linux 2023 as EKS sets it up, before the pods of DaemonSets. Of shares and slices, whose
    size the settings of a pool decide, none is known.
    """
    region = region_of_cluster(case.cluster)
    claimed, requests = claimed_gpus(verdict.workload, case.cluster), verdict.demand.requests
    gpus = requests.get(GPU) or (claimed.count if claimed else None)
    if (
        not gpus
        or any(each.kind == "refused" and each.answer is Answer.NO for each in verdict.reasons)
        or not requests.keys() <= _OF_TYPES
        or not all(any(one.kind == "resource" for one in each.reasons) for each in verdict.pools)
    ):
        return None
    return next(
        (
            SmallestType(row.name, usd_per_hour(row, region))
            for row in smallest_first()
            if row.is_driven and row.gpus >= gpus and _has(row, requests) and _is_selected(row, verdict.demand)
            if not is_unseen(row.name, region)
        ),
        None,
    )


def _has(row: InstanceType, wanted: Resources) -> bool:
    least, _ = allocatable(_PLAIN, row)
    large = all(wanted.get(name, 0) <= least.get(name, 0) for name in ("cpu", "memory", "ephemeral-storage"))
    return large and wanted.get(EFA, 0) <= (row.max_efa or 0)


def _is_selected(row: InstanceType, wanted: Demand) -> bool:
    """Whether a pod runs on nodes of a type, of whose pool any label may be; on Arm only one that says so."""
    if row.architecture != "x86_64" and not {ARCH, OLD_ARCH} & set(wanted.keys):
        return False
    of_pool: Labels = {key: Unknown(f"${{{key}}}") for key in wanted.keys}
    makers = [autoscaler_labels(row.name, kind) for kind in ("karpenter", "auto-mode")]
    labels = of_pool | makers[0] | makers[1] | kubelet_labels(row.name)
    return wanted.pod.selection.takes(labels) is not Answer.NO


Remedies = Mapping[int, tuple[tuple[Remedy, ...], SmallestType | None]]


def remedies_of(given: Input, case: Case, verdicts: Iterable[Verdict]) -> Remedies:
    """Return the remedies of the first verdicts that say no, one of workloads that are alike, by identity of it."""
    found: dict[int, tuple[tuple[Remedy, ...], SmallestType | None]] = {}
    seen: set[tuple[object, ...]] = set()
    for verdict in verdicts:
        workload = verdict.workload
        kind = workload.owner.kind, workload.namespace, workload.replicas, id(workload.pod)
        if verdict.answer is not Answer.NO or workload.on_each_node or not workload.asks_for_gpu or kind in seen:
            continue
        if len(seen) == _WORKLOADS:
            break
        seen.add(kind)
        would_do = remedies(given, case, verdict)
        found[id(workload)] = would_do, None if would_do else smallest_type(case, verdict)
    return found
