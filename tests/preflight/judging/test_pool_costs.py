"""The min and max costs of pools now, the costs that a change adds, and the quotas to raise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_facts.hardware.catalogue import instance_type
from gpu_preflight.case import Case
from gpu_preflight.judging.explain import explain
from gpu_preflight.judging.pool_costs import (
    Figure,
    PoolCost,
    added,
    added_gpus,
    known_part,
    pool_costs,
    quota_increases,
    total,
    unpriced_types,
)
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.unknown import Unknown
from tests.preflight.readers import pool

TYPES = ("g6.xlarge", "g6.2xlarge")
SMALL, LARGE = (instance_type(each).usd_per_hour or 0 for each in TYPES)


def cost_of(**changes: Any) -> PoolCost:
    """The cost of a group of 1 to 3 nodes without workloads."""
    found = {"instance_types": TYPES, "min_nodes": 1, "max_nodes": 3, "capacity_types": ("on-demand",), **changes}
    [cost] = pool_costs([explain(Case(Cluster(name="demo", pools=(pool(**found),))))])
    return cost


def test_a_group_costs_its_cheapest_type_at_least_and_its_most_expensive_one_at_most() -> None:
    cost = cost_of()

    assert cost.min_usd_per_hour == pytest.approx(SMALL)
    # EC2 chooses the type of a node that runs.
    assert cost.requested_usd_per_hour == pytest.approx(LARGE)
    assert cost.max_usd_per_hour == pytest.approx(3 * LARGE)
    assert (cost.requested_nodes, cost.max_gpus, cost.unknown) == (1, 3, "")


@pytest.mark.parametrize(
    ("changes", "figures", "why"),
    [
        ({"max_nodes": None}, (SMALL, LARGE, None), "no known bound"),
        ({"instance_types": ("p5e.48xlarge",)}, (None, None, None), "p5e.48xlarge has no list price"),
        ({"instance_types": ("p5e.48xlarge",), "min_nodes": 0}, (0, 0, None), "p5e.48xlarge has no list price"),
        ({"instance_types": ("g9.xlarge", *TYPES)}, (None, None, None), "instance types aren't known"),
        ({"min_nodes": None}, (None, None, 3 * LARGE), "smallest number of nodes isn't known"),
        ({"zones": ("cn-north-1a",)}, (None, None, None), "no list price in US dollars"),
        ({"max_nodes": 0, "min_nodes": 0}, (0, 0, 0), ""),
    ],
)
def test_a_figure_that_is_not_known_is_none_and_never_zero(
    changes: Any, figures: tuple[float | None, ...], why: str
) -> None:
    cost = cost_of(**changes)

    found = cost.min_usd_per_hour, cost.requested_usd_per_hour, cost.max_usd_per_hour
    assert found == tuple(each if each is None else pytest.approx(each) for each in figures)
    assert why in cost.unknown
    assert bool(cost.unknown) is (None in figures)


@pytest.mark.parametrize(
    ("zone", "dollars", "unpriced"),
    [("us-east-1a", 1.05, ()), ("us-gov-west-1a", 1.33, ()), ("cn-north-1a", 0, ("g4dn.xlarge",))],
)
def test_a_sum_uses_the_prices_of_the_region_and_lists_types_without_one(
    zone: str, dollars: float, unpriced: tuple[str, ...]
) -> None:
    cost = cost_of(instance_types=("g4dn.xlarge",), max_nodes=2, zones=(zone,))

    assert round(known_part([cost], "max"), 2) == dollars
    assert unpriced_types([cost]) == unpriced


def known(pool: str = "a", **changes: Any) -> PoolCost:
    """The cost of a pool of which everything is known."""
    return replace(PoolCost(cluster="demo", pool=pool, max_usd_per_hour=10.0, max_gpus=8, max_nodes=1), **changes)


UNKNOWN = known("spill", max_usd_per_hour=None, max_gpus=None, max_nodes=None, unknown="it has no known bound")


@pytest.mark.parametrize(
    ("before", "after", "more"),
    [
        ([known()], [known()], (0, 0)),
        ([known()], [known(max_usd_per_hour=25.0, max_gpus=16)], (15, 8)),
        ([known()], [], (-10, -8)),
        ([known(), UNKNOWN], [known(max_usd_per_hour=25.0), UNKNOWN], (15, 0)),
        ([known(), UNKNOWN], [known(), replace(UNKNOWN, instance_types=("g6.xlarge",))], (None, None)),
        ([known()], [known(), UNKNOWN], (None, None)),
        ([UNKNOWN], [], (None, None)),
    ],
)
def test_a_pool_that_is_not_known_adds_nothing_only_if_it_stays(
    before: list[PoolCost], after: list[PoolCost], more: tuple[float | None, int | None]
) -> None:
    assert (added(before, after, "max"), added_gpus(before, after)) == more


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({"instance_types": ()}, True),
        ({"instance_types": ("g9.xlarge",)}, True),
        ({"instance_types": (), "max_nodes": 0}, False),
        ({"instance_types": ("m5.large",)}, False),
        ({"instance_types": (), "kind": "managed", "properties": {"AmiType": "AL2023_x86_64_STANDARD"}}, False),
        ({"instance_types": ("g9.xlarge",), "kind": "managed", "properties": {"InstanceTypes": ["g9.xlarge"]}}, True),
    ],
)
def test_a_group_whose_types_are_not_known_has_an_unknown_cost(changes: Any, counts: bool) -> None:
    found = {"min_nodes": 0, "max_nodes": 3, "properties": {"InstanceTypes": [Unknown("Type")]}, **changes}
    costs = pool_costs([explain(Case(Cluster(name="demo", pools=(pool(**found),))))])

    assert [(each.max_gpus, each.max_usd_per_hour, each.max_nodes) for each in costs] == [(None, None, 3)] * counts
    assert all("instance types aren't known" in each.unknown for each in costs)


def test_a_group_of_which_one_type_is_not_known_has_an_unknown_cost() -> None:
    cost, other = (cost_of(properties={"InstanceTypes": ["g6.xlarge", Unknown(each)]}) for each in ("T", "U"))

    assert (cost.max_gpus, cost.max_usd_per_hour) == (None, None)
    assert added_gpus([cost], [cost]) == 0
    assert added_gpus([cost], [other]) is None


@pytest.mark.parametrize("bound", [{"max_nodes": 200}, {"limits": {"nvidia.com/gpu": 80}}])
def test_another_bound_of_a_pool_of_unknown_types_adds_an_unknown_number(bound: Any) -> None:
    before = replace(UNKNOWN, max_nodes=2, limits={"nvidia.com/gpu": 8})

    assert (added([before], [before], "max"), added_gpus([before], [before])) == (0, 0)
    after = replace(before, **bound)
    assert (added([before], [after], "max"), added_gpus([before], [after])) == (None, None)


@pytest.mark.parametrize("figure", ["min", "requested", "max"])
def test_a_sum_with_an_unknown_part_is_unknown(figure: Figure) -> None:
    changes: Any = {f"{figure}_usd_per_hour": None}

    assert total([known(), known("b", **changes)], figure) is None
    assert total([known(), known("b")], "max") == 20


def test_a_pool_that_gets_a_bound_needs_no_more_of_a_quota() -> None:
    code = "L-DB2E81BA"
    types: Any = {"instance_types": ("g6.xlarge",), "capacity_types": ("on-demand",)}
    unbounded = replace(UNKNOWN, pool="a", region="us-east-1", **types)
    bounded, other = (known(each, region="us-east-1", vcpus={code: 16}, **types) for each in ("a", "b"))

    assert quota_increases([unbounded], [bounded]) == ()
    assert [each.after for each in quota_increases([replace(unbounded, region="us-west-2")], [bounded])] == [16]
    assert [each.after for each in quota_increases([unbounded], [unbounded, other])] == [16]


def test_each_account_has_a_quota_in_each_region() -> None:
    def needs(vcpus: int, region: str | None, account: str | None, code: str = "L-417A185B") -> PoolCost:
        return known(region=region, account=account, vcpus={code: vcpus})

    before = [needs(96, "us-east-1", "1"), needs(96, "eu-west-1", "1")]
    after = [
        *(needs(192, "us-east-1", "1"), needs(96, "us-east-1", "1"), needs(96, "eu-west-1", "1")),
        *(needs(48, "us-east-1", "2"), needs(8, None, None, "L-DB2E81BA")),
    ]

    found = [
        (each.quota, each.region, each.account, each.before, each.after) for each in quota_increases(before, after)
    ]

    assert sorted(found, key=str) == [
        ("L-417A185B", "us-east-1", "1", 96, 288),
        ("L-417A185B", "us-east-1", "2", 0, 48),
        ("L-DB2E81BA", None, None, 0, 8),
    ]
