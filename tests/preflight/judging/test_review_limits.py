"""Limits of a change: kept, exceeded or unknown, which fails, too."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.judging.cluster_changes import ClusterChange
from gpu_preflight.judging.pool_changes import PoolChange
from gpu_preflight.judging.pool_costs import PoolCost
from gpu_preflight.judging.review import Review, ReviewLimits, limit_results


def cost(usd_per_hour: float | None, gpus: int | None = 8, pool: str = "a") -> PoolCost:
    """The cost of a pool."""
    unknown = "it has no known bound" if usd_per_hour is None else ""
    nodes = None if usd_per_hour is None else 1
    return PoolCost(
        cluster="demo", pool=pool, max_usd_per_hour=usd_per_hour, max_gpus=gpus, max_nodes=nodes, unknown=unknown
    )


UNBOUNDED = cost(None, None, "spill")


@pytest.mark.parametrize(
    ("limits", "before", "after", "result", "value"),
    [
        ({"max_usd_per_month": 7300}, [], [cost(10)], "kept", 7300),
        ({"max_usd_per_month": 7299.99}, [], [cost(10)], "exceeded", 7300),
        # The same pool as before, but what all may cost isn't known.
        ({"max_usd_per_month": 1e9}, [UNBOUNDED], [UNBOUNDED], "unknown", None),
        ({"max_added_usd_per_month": 0}, [cost(10)], [cost(10)], "kept", 0),
        ({"max_added_usd_per_month": 0}, [cost(10)], [cost(9)], "kept", -730),
        ({"max_added_usd_per_month": 729}, [cost(10)], [cost(11)], "exceeded", 730),
        ({"max_added_usd_per_month": 729}, [cost(10), UNBOUNDED], [cost(10), UNBOUNDED], "kept", 0),
        ({"max_added_usd_per_month": 1e9}, [cost(10)], [cost(10), UNBOUNDED], "unknown", None),
        ({"max_added_gpus": 8}, [cost(10)], [cost(10, 16)], "kept", 8),
        ({"max_added_gpus": 7}, [cost(10)], [cost(10, 16)], "exceeded", 8),
        ({"max_added_gpus": 1e6}, [], [UNBOUNDED], "unknown", None),
    ],
)
def test_a_limit(limits: Any, before: Any, after: Any, result: str, value: float | None) -> None:
    [found] = limit_results(Review(costs_before=tuple(before), costs_after=tuple(after)), ReviewLimits(**limits))

    assert (found.result, found.value) == (result, value)
    assert ("pool spill: it has no known bound" in found.reasons) is (result == "unknown")


@pytest.mark.parametrize(
    ("review", "result"),
    [
        (Review(), "kept"),
        (Review(pools=(PoolChange("demo", "a", "managed", "replaced", drains=True),)), "exceeded"),
        (Review(pools=(PoolChange("demo", "a", "managed", "removed", drains=True),)), "exceeded"),
        (Review(pools=(PoolChange("demo", "a", "managed", "changed", drains=True),)), "exceeded"),
        (Review(pools=(PoolChange("demo", "a", "managed", "changed"),)), "kept"),
        (Review(pools=(PoolChange("demo", "a", "managed", "added"),)), "kept"),
        (Review(control_planes=(ClusterChange("demo", "replaced", "Name: a -> b"),)), "exceeded"),
        (Review(control_planes=(ClusterChange("demo", "too early", "Karpenter"),)), "kept"),
    ],
)
def test_a_drain_fails_where_that_is_asked(review: Review, result: str) -> None:
    [found] = limit_results(review, ReviewLimits(fail_on_replace=True))

    assert found.result == result
    assert bool(found.reasons) is (result == "exceeded")


def test_without_limits_there_are_no_results() -> None:
    assert limit_results(Review(costs_after=(UNBOUNDED,)), ReviewLimits()) == ()
