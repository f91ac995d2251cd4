"""Workloads next to each other: a certain rejection fits in no way, and jobs wait for services only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_facts.resources import GPU
from gpu_preflight.model.answer import Answer
from gpu_preflight.scheduling import packing
from gpu_preflight.scheduling.crowd import check_contention
from gpu_preflight.scheduling.demand import Demand
from gpu_preflight.scheduling.pool_limits import room
from gpu_preflight.scheduling.verdict import PoolVerdict, Verdict
from tests.preflight.scheduling.samples import node, wanted
from tests.preflight.scheduling.test_crowds import crowds, taking
from tests.preflight.scheduling.test_packing import judged, placed_in_some_way

YES, NO, UNKNOWN = Answer.YES, Answer.NO, Answer.UNKNOWN


def asking(
    name: str, replicas: int, *pools: PoolVerdict, kind: str = "Deployment", priority: int = 0, gpus: int = 1
) -> Verdict:
    """Pods of some kind that some pools take."""
    demanded = wanted(replicas=replicas, **{GPU: gpus})
    owner = replace(demanded.workload.owner, content={**demanded.workload.owner.content, "kind": kind})
    origin = replace(owner.origin, path=name)
    pods = replace(demanded.workload, name=name, owner=owner, origin=origin, priority=priority)
    found = replace(demanded, workload=pods)
    return Verdict(pods, YES, tuple(with_room(found, each) for each in pools), (), found)


def with_room(demanded: Demand, judged: PoolVerdict) -> PoolVerdict:
    """A pool with the room that it has for pods."""
    holds, may_hold = room(demanded, judged.pool, list(judged.nodes_taking))
    return replace(judged, holds=holds, may_hold=may_hold)


def answers(*verdicts: Verdict) -> list[Answer]:
    return [each.answer for each in check_contention(verdicts)]


def four() -> PoolVerdict:
    """A pool of one node with four GPUs."""
    found: PoolVerdict = taking("p", node("g6.12xlarge", has={"pods": 100, "cpu": 40_000, GPU: 4}), max_nodes=1)
    return found


def test_two_services_share_what_there_is() -> None:
    there = four()

    assert answers(asking("a", 2, there), asking("b", 2, there)) == [YES, YES]
    assert answers(asking("a", 3, there), asking("b", 3, there)) == [YES, NO]


def test_jobs_are_tried_on_what_services_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """Services are put onto nodes twice, for themselves and for all jobs, however many jobs there are."""
    placed: list[str] = []
    place_all = packing._place_all

    def counted(group: list[Verdict], *rest: Any) -> Any:
        placed.extend(each.workload.name for each in group)
        return place_all(group, *rest)

    monkeypatch.setattr(packing, "_place_all", counted)
    there = four()
    jobs = [asking(f"job {number}", 1, there, kind="Job", priority=number) for number in range(9)]

    found = answers(asking("a", 1, there), asking("b", 2, there), *jobs)

    assert found == [YES] * 11
    assert placed.count("a") == 2


def test_the_one_of_higher_priority_stays() -> None:
    there = four()

    assert answers(asking("a", 3, there), asking("b", 3, there, priority=9)) == [NO, YES]


def test_jobs_run_one_after_another_and_next_to_services() -> None:
    there = four()

    assert answers(asking("a", 4, there, kind="JobSet"), asking("b", 4, there, kind="JobSet")) == [YES, YES]
    assert answers(asking("a", 4, there, kind="JobSet"), asking("b", 1, there)) == [NO, YES]
    assert answers(asking("a", 3, there, kind="JobSet"), asking("b", 1, there)) == [YES, YES]


def test_parts_of_one_job_run_at_once() -> None:
    there = four()
    master, worker = asking("a", 1, there, kind="PyTorchJob"), asking("b", 4, there, kind="PyTorchJob")
    part = replace(worker, workload=replace(worker.workload, origin=master.workload.origin))

    assert sorted(each.value for each in answers(master, part)) == ["no", "yes"]


def test_a_pool_without_bound_takes_all() -> None:
    there = taking("p", node("g6.12xlarge", has={"pods": 100, "cpu": 40_000, GPU: 4}))

    assert answers(asking("a", 40, there), asking("b", 40, there)) == [YES, YES]


@settings(max_examples=80)
@given(st.integers(0, 2**32 - 1))
def test_what_fits_in_some_way_is_not_refused(seed: int) -> None:
    """Brute force: where all pods can be placed, no answer is no for want of room beside others."""
    found = judged(seed)

    if placed_in_some_way(found):
        assert all(each.rule != "GPU374" or each.answer is not NO for one in found.verdicts for each in one.reasons)


@settings(max_examples=60)
@given(crowds())
def test_contention_is_checked_for_any_requests(crowd: list[Verdict]) -> None:
    settled = check_contention(crowd)

    assert [each.workload for each in settled] == [each.workload for each in crowd]
