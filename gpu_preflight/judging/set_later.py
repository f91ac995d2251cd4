"""Applies values that only deployment sets to results.

A "runs" becomes conditional or lists the value as an assumption.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property

from gpu_preflight.case import Case
from gpu_preflight.cluster.objects.storage import claimed, storage_class, volume_of
from gpu_preflight.cluster.open_values import OpenValue, shortened
from gpu_preflight.judging.reach import Reach
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.reason import Reason
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.objects import Origin
from gpu_preflight.scheduling.assumptions import conditions
from gpu_preflight.scheduling.enough import OF_ALL_POOLS
from gpu_preflight.scheduling.verdict import PoolVerdict, Verdict


class SetLater:
    """The values of a case that only deployment sets, by what they decide.

    A value of a workload, of its storage or of a pool makes a "runs" conditional, unless deployments usually set it. A
    "runs" lists the other values in `restsOn`.

    Args:
        case: The cluster.
    """

    def __init__(self, case: Case) -> None:
        self._case, self._reach = case, Reach(case)
        self._pool_values: dict[int, list[OpenValue]] = {}
        self._workload_values: dict[int, list[OpenValue]] = {}
        self._shared_values: list[OpenValue] = []
        for value in case.open_values:
            pools, workloads = list(self._reach.pools(value.owner)), self._workloads(value)
            for pool in pools:
                self._pool_values.setdefault(id(pool), []).append(value)
            for workload in workloads:
                self._workload_values.setdefault(id(workload), []).append(value)
            if value.is_size or not (pools or any(each.asks_for_gpu for each in workloads)):
                self._shared_values.append(value)

    def on(self, verdict: Verdict) -> Verdict:
        """Return the verdict with the effect of these values. Only a yes or a conditional result changes."""
        if not self._case.open_values or verdict.workload.is_placed or verdict.answer is Answer.NO:
            return verdict
        own = self._workload_values.get(id(verdict.workload), [])
        deciding = (each for each in (*own, *self._shared_values) if not (each.is_usual or each.is_size))
        decided = verdict.answer is Answer.YES or bool(conditions(verdict.reasons, verdict.pools))
        held = list(map(_reason, deciding)) if decided else []
        pools = tuple(map(self._pool, verdict.pools))
        if held or any(new is not old for new, old in zip(pools, verdict.pools, strict=True)):
            kept_reasons = (each for each in verdict.reasons if each.rule not in OF_ALL_POOLS)
            judged = tuple(sorted(pools, key=lambda each: each.distance))
            rests_on = verdict.rests_on
            verdict = replace(self._case.over(verdict, judged, (*kept_reasons, *held)), rests_on=rests_on)
        values_of_candidates = (
            one for each in pools if each.answer is not Answer.NO for one in self._pool_values.get(id(each.pool), ())
        )
        every = (*own, *values_of_candidates, *self._shared_values)
        # A conditional result names the values that decide in its conditions.
        shown = [each for each in every if verdict.answer is Answer.YES or each.is_usual or each.is_size]
        return replace(verdict, rests_on=(*verdict.rests_on, *_listed(shown)))

    def _pool(self, judged: PoolVerdict) -> PoolVerdict:
        values = [each for each in self._pool_values.get(id(judged.pool), ()) if not each.is_usual]
        if not judged.is_conditional or not values:
            return judged
        return judged.because(Answer.UNKNOWN, (*judged.reasons, *map(_reason, values)))

    def _workloads(self, value: OpenValue) -> Iterable[Workload]:
        return [*self._reach.workloads(value.owner), *self._storing.get(value.origin, ())]

    @cached_property
    def _storing(self) -> dict[Origin, list[Workload]]:
        """Workloads by their claims, the classes of these and the volumes that these name."""
        found: dict[Origin, list[Workload]] = {}
        for workload in self._case.cluster.workloads:
            for origin in self._storage(workload):
                found.setdefault(origin, []).append(workload)
        return found

    def _storage(self, workload: Workload) -> Iterator[Origin]:
        cluster = self._case.cluster
        for claim in claimed(workload, cluster):
            own = cluster.volume_claims.get((workload.namespace, claim.name or ""))
            for each in (own, storage_class(claim, cluster), volume_of(claim, cluster)):
                if each is not None:
                    yield each.origin


def _reason(value: OpenValue) -> Reason:
    condition = f"deployment sets {value.text} to a value with which these pods run"
    text = f"{value.text} is known at deployment only"
    if value.is_condition:
        condition = f"the condition of {value.origin.path} is true"
        text = f"whether {value.origin.path} is created is known at deployment only"
    return Reason(Answer.UNKNOWN, "value", text, condition=condition)


def _listed(values: Iterable[OpenValue]) -> Iterator[str]:
    """Yield each value with its first place, and how many more places it has."""
    places: dict[str, list[str]] = {}
    for each in values:
        if each.is_condition:
            yield f"the condition of {each.origin.path} is true"
            continue
        found = places.setdefault(each.expression, [])
        found += [each.place] if each.place not in found else []
    for expression, found in places.items():
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield f"deployment sets {shortened(expression)} ({found[0]}{more})"
