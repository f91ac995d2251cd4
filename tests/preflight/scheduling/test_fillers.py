"""Services without GPUs on GPU nodes: their possible share is kept free, and a certain result holds in every case."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from hypothesis import assume, given
from hypothesis import strategies as st

from gpu_facts.resources import GPU
from gpu_preflight.model.answer import Answer
from gpu_preflight.scheduling.crowd import check_contention
from gpu_preflight.scheduling.verdict import PoolVerdict, Verdict
from tests.preflight.scheduling.samples import node, wanted
from tests.preflight.scheduling.test_crowd import NO, UNKNOWN, YES, asking, with_room
from tests.preflight.scheduling.test_crowds import taking


def nodes(count: int | None, cpus: int = 4, gpus: int = 1, name: str = "gpu") -> PoolVerdict:
    """A pool of nodes that have some CPUs and GPUs."""
    found: PoolVerdict = taking(name, node("g6.12xlarge", has={"pods": 100, "cpu": cpus, GPU: gpus}), max_nodes=count)
    return found


def asks(name: str, replicas: int, cpus: int, *pools: PoolVerdict, kind: str = "Deployment", gpus: int = 1) -> Verdict:
    """Pods that ask for CPUs, with or without GPUs."""
    devices = {GPU: gpus} if gpus else {}
    demanded = wanted(replicas=replicas, spec={}, cpu=f"{cpus}m", **devices)
    like = asking(name, replicas, *pools, kind=kind)
    pods = replace(demanded.workload, name=name, owner=like.workload.owner, origin=like.workload.origin)
    found = replace(demanded, workload=pods)
    return Verdict(pods, YES, tuple(with_room(found, each) for each in pools), (), found)


def answer(asked: Verdict, *services: Verdict) -> Answer:
    [found] = check_contention([asked], services)
    return found.answer


def test_services_that_fill_the_nodes_leave_open_whether_a_gpu_pod_runs() -> None:
    there = nodes(2)

    assert answer(asks("serve", 2, 2, there), asks("web", 8, 1, there, gpus=0)) is UNKNOWN
    assert answer(asks("serve", 2, 2, there), asks("web", 1, 1, there, gpus=0)) is YES


def test_they_may_lie_evenly_or_fill_one_node_after_another() -> None:
    there = nodes(3)

    assert answer(asks("serve", 1, 4, there), asks("web", 3, 1, there, gpus=0)) is UNKNOWN
    assert answer(asks("serve", 3, 3, there), asks("web", 2, 1, there, gpus=0)) is UNKNOWN


def test_a_job_finds_services_where_they_are() -> None:
    there = nodes(2)

    assert answer(asks("train", 1, 2, there, kind="Job"), asks("web", 7, 1, there, gpus=0)) is NO
    assert answer(asks("train", 1, 2, there, kind="Job"), asks("web", 6, 1, there, gpus=0)) is UNKNOWN
    assert answer(asks("train", 1, 2, there, kind="Job"), asks("web", 2, 1, there, gpus=0)) is YES


def test_who_has_priority_comes_first() -> None:
    there = nodes(2)
    web, serve = asks("web", 7, 1, there, gpus=0), asks("serve", 1, 2, there)

    def at(priority: int, verdict: Verdict) -> Verdict:
        return replace(verdict, workload=replace(verdict.workload, priority=priority))

    first = at(9, serve)
    patient = replace(first, workload=replace(first.workload, preempts=False))
    assert answer(serve, at(9, web)) is NO
    assert answer(first, web) is YES
    assert answer(patient, web) is UNKNOWN


def test_a_pool_of_their_own_does_not_keep_them_off() -> None:
    gpu, other = nodes(1), nodes(9, gpus=0, name="cpu")

    found = answer(asks("train", 1, 4, gpu, kind="Job"), asks("web", 6, 1, gpu, other, gpus=0))

    assert found is UNKNOWN


def test_a_pool_without_bound_has_room_for_all() -> None:
    there = nodes(None)

    assert answer(asks("serve", 9, 2, there), asks("web", 90, 1, there, gpus=0)) is YES


@given(st.integers(1, 3), st.integers(2, 8), st.integers(1, 4), st.integers(1, 3), st.integers(1, 7))
def test_a_no_is_so_wherever_the_services_lie(count: int, cpus: int, asked: int, each: int, services: int) -> None:
    """Brute force: every number of services on every node."""
    there = nodes(count, cpus)
    assume(asked <= cpus)
    assume(services <= count * (cpus // each))
    ways = [way for way in product(range(cpus // each + 1), repeat=count) if sum(way) == services]

    found = answer(asks("train", 1, asked, there, kind="Job"), asks("web", services, each, there, gpus=0))

    runs = [any(cpus - held * each >= asked for held in way) for way in ways]
    assert found is not NO or not any(runs)
    assert found is not YES or all(runs)
