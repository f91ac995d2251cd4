"""Replicas over all pools together: the room in several small pools, their zones, and facts about only one pool."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_facts.labels import ZONE
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.label_values import exactly
from gpu_preflight.scheduling.replica_capacity import shortage
from gpu_preflight.scheduling.topology import Evenly, Topology
from gpu_preflight.scheduling.verdict import PoolVerdict
from tests.preflight.readers import pool
from tests.preflight.scheduling.samples import node, wanted

YES, NO, UNKNOWN = Answer.YES, Answer.NO, Answer.UNKNOWN


def holding(pods: int | None, zone: str = "a", answer: Answer = YES, may: Any = ...) -> PoolVerdict:
    """A pool of one zone that holds so many pods."""
    there = node(labels={ZONE: exactly(*zone.split(","))})
    most = pods if may is ... else may
    return PoolVerdict(pool(name=zone), answer, (), nodes_taking=(there,), holds=pods, may_hold=most)


def answers(replicas: Any, *pools: PoolVerdict, topology: Topology | None = None) -> list[Answer]:
    return [each.answer for each in shortage(wanted(replicas=replicas, topology=topology or Topology()), pools)]


@pytest.mark.parametrize(
    ("replicas", "pools", "expected"),
    [
        (5, [holding(2, "a"), holding(2, "b"), holding(2, "c")], []),
        (6, [holding(2, "a"), holding(2, "b"), holding(2, "c")], []),
        (7, [holding(2, "a"), holding(2, "b"), holding(2, "c")], [NO]),
        (7, [holding(2), holding(None)], []),
        (7, [holding(2), holding(None, answer=NO)], [NO]),
        (7, [holding(2), holding(None, answer=UNKNOWN)], [UNKNOWN]),
        (7, [holding(2), holding(6, answer=UNKNOWN)], [UNKNOWN]),
        (9, [holding(2), holding(6, answer=UNKNOWN)], [NO]),
        (3, [holding(2, may=3)], [UNKNOWN]),
        (4, [holding(2, may=3)], [NO]),
        (4, [holding(2, may=None)], [UNKNOWN]),
        (4, [holding(2, answer=NO)], []),
        (0, [holding(0)], []),
        (None, [holding(1)], []),
    ],
)
def test_replicas_over_all_pools(replicas: Any, pools: list[PoolVerdict], expected: list[Answer]) -> None:
    assert answers(replicas, *pools) == expected


@pytest.mark.parametrize(
    ("replicas", "zones", "topology", "expected"),
    [
        (3, "abc", Topology(one_per_zone=True), []),
        (4, "abc", Topology(one_per_zone=True), [NO]),
        (2, "ab", Topology(over_zones=Evenly(1, 2)), []),
        (2, "a", Topology(over_zones=Evenly(1, 2)), [NO]),
        (1, "a", Topology(over_zones=Evenly(1, 2)), []),
        (2, "a", Topology(over_zones=Evenly(2, 2)), []),
        (2, "ab", Topology(over_zones=Evenly(1, 3)), []),
        (3, "ab", Topology(over_zones=Evenly(1, 3)), [NO]),
        (2, ["a,b,c"], Topology(over_zones=Evenly(1, 3)), []),
        (6, "abc", Topology(over_zones=Evenly(1)), []),
    ],
)
def test_zones_over_all_pools(replicas: int, zones: Any, topology: Topology, expected: list[Answer]) -> None:
    assert answers(replicas, *(holding(2, zone) for zone in zones), topology=topology) == expected


@pytest.mark.parametrize(
    ("skew", "nodes", "expected"),
    [(1, 1, [NO]), (1, 0, [UNKNOWN]), (4, 1, []), (4, 0, []), (0, 1, [])],
)
def test_a_full_zone_holds_the_others_back_as_far_as_the_skew_says(
    skew: int, nodes: int, expected: list[Answer]
) -> None:
    # A zone that has no node yet is not counted by the scheduler.
    full = replace(holding(1, "a"), pool=pool(name="a", min_nodes=nodes))

    assert answers(5, full, holding(6, "b"), topology=Topology(over_zones=Evenly(skew) if skew else None)) == expected


def test_what_each_zone_has_for_certain_is_spread_by_itself() -> None:
    pools = holding(1, "a", may=4), holding(4, "b")

    assert answers(4, *pools, topology=Topology(over_zones=Evenly(1))) == [UNKNOWN]
    assert answers(3, *pools, topology=Topology(over_zones=Evenly(1))) == []


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (Topology(one_per_zone=True), [UNKNOWN]),
        (Topology(over_zones=Evenly(1, 3)), [UNKNOWN]),
        (Topology(over_zones=Evenly(1)), []),
        (Topology(over_zones=Evenly(4, 3)), []),
    ],
)
def test_in_how_many_zones_nodes_are_may_not_be_known(topology: Topology, expected: list[Answer]) -> None:
    unknown = PoolVerdict(pool(), YES, (), nodes_taking=(node(),), holds=9, may_hold=9)

    assert answers(4, unknown, topology=topology) == expected
