"""The smallest change with which a workload that stays Pending runs: judged, and only then told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from gpu_constructs.facts.hardware.prices import usd_per_hour
from gpu_constructs.facts.resources import GPU
from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.judging.check import check
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Pool, Workload
from gpu_constructs.preflight.node.nodes import NodeToBe
from gpu_constructs.preflight.reading.inputs import Input
from gpu_constructs.preflight.remedies.change import Change, changed, patch_of
from gpu_constructs.preflight.remedies.of_pools import more_nodes, other_type, smallest_first
from gpu_constructs.preflight.remedies.of_workloads import fewer, of_pod
from gpu_constructs.preflight.scheduling.claims import claimed_gpus
from gpu_constructs.preflight.scheduling.verdict import PoolVerdict, Verdict

# Pools that are looked at, and pairs of pools and pods from which on none is: each remedy is judged anew.
_NEAREST = 3
_MOST_PAIRS = 20_000


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
        usd_per_hour: On-demand list price in us-east-1, US dollars an hour; ``None`` where there is none.
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
    found: list[tuple[Change, ...]] = []
    for way in _ways(case, verdict):
        changes = _first_that_runs(given, case, verdict.workload, way)
        if changes and changes not in found:
            found.append(changes)
    return tuple(map(Remedy, found))


def _ways(case: Case, verdict: Verdict) -> Iterator[Iterator[tuple[Change, ...]]]:
    """Yield ways to go about it, each as candidates, the smallest change first."""
    gpu_pools = {id(each) for each in case.gpu_pools}
    near = [each for each in verdict.pools if id(each.pool) in gpu_pools][:_NEAREST]
    short = [each for each in verdict.reasons if each.kind == "limit"]
    if short:
        taking = [each for each in verdict.pools if each.answer is not Answer.NO]
        yield _with_fewer(verdict, taking)
        yield _with_more_nodes(case, verdict, taking)
        return
    yield (tuple(of_pod(verdict.demand, verdict.workload, each.pool.taints, _node(case, each.pool))) for each in near)
    yield (_of_pool(case, verdict, each) for each in near)


def _node(case: Case, pool: Pool) -> NodeToBe:
    """Return the node that a pod has to fit: EC2 chooses among the types of a group, Karpenter takes what fits."""
    choose = min if pool.is_group else max
    return choose(case.nodes(pool), key=lambda each: (each.most.get(GPU, 0), each.most.get("memory", 0)))


def _with_fewer(verdict: Verdict, taking: Iterable[PoolVerdict]) -> Iterator[tuple[Change, ...]]:
    most = sum(each.holds or 0 for each in taking)
    for replicas in range(min(most, (verdict.workload.replicas or 1) - 1), 0, -1):
        yield tuple(fewer(verdict.workload, replicas))


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
    return (*types, *(each for each in besides if each.property.endswith(("tolerations", "nodeSelector"))))


def _first_that_runs(
    given: Input, case: Case, workload: Workload, candidates: Iterable[tuple[Change, ...]]
) -> tuple[Change, ...]:
    return next(
        (each for each in candidates if each and _runs(changed(given, workload.owner, each), case, workload)), ()
    )


def _runs(given: Input, case: Case, workload: Workload) -> bool:
    """Judge the changed input anew."""
    report = check(given)
    verdicts = chain.from_iterable(
        report.explanation(each).verdicts for each in report.cases if each.cluster.name == case.cluster.name
    )
    answers = [each.answer for each in verdicts if each.workload.name == workload.name]
    return bool(answers) and all(each is Answer.YES for each in answers)


def smallest_type(case: Case, verdict: Verdict) -> SmallestType | None:
    """Return the smallest type for a pod that fits no node of any pool, ``None`` where one fits or none is known."""
    wanted = verdict.demand.requests
    claimed = claimed_gpus(verdict.workload, case.cluster)
    gpus = verdict.demand.gpus or (claimed.count if claimed else None)
    if not gpus or not all(any(one.kind == "resource" for one in each.reasons) for each in verdict.pools):
        return None
    for row in smallest_first():
        memory = (row.memory_mib or 0) * 2**20
        enough = (row.vcpus or 0) * 1000 > wanted.get("cpu", 0) and memory > wanted.get("memory", 0)
        if row.gpus >= gpus and enough and row.is_driven:
            return SmallestType(row.name, usd_per_hour(row, None))
    return None


Remedies = Mapping[int, tuple[tuple[Remedy, ...], SmallestType | None]]


def remedies_of(given: Input, case: Case, verdicts: Iterable[Verdict]) -> Remedies:
    """Return the remedies of each verdict that says no, by the identity of its workload."""
    found: dict[int, tuple[tuple[Remedy, ...], SmallestType | None]] = {}
    for each in verdicts:
        if each.answer is Answer.NO and not each.workload.on_each_node and each.workload.asks_for_gpu:
            would_do = remedies(given, case, each)
            found[id(each.workload)] = would_do, None if would_do else smallest_type(case, each)
    return found
