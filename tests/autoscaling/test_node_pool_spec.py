"""What both kinds of NodePools say is one value, which checks itself and keeps what it was given."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_constructs import CapacityBlock, Disruption, NodeShape, OnDemand, Reservation, Spot
from gpu_constructs.autoscaling.node_pool_spec import NodePoolSpec

L4 = NodeShape(instance_types=("g6.xlarge",))
RESERVED = Reservation(availability_zone="us-east-1a", id="cr-0a1")


def spec(**changes: Any) -> NodePoolSpec:
    """A valid pool, with ``changes`` applied."""
    says: dict[str, Any] = {"who": "Test/Pool", "name": "l4", "shape": L4, "capacity": OnDemand(), "max_gpus": 8}
    return NodePoolSpec(**says | changes)


def test_one_way_of_buying_is_a_list_of_one() -> None:
    assert spec(capacity=Spot()).capacities == (Spot(),)


def test_a_list_of_ways_cannot_be_changed_afterwards() -> None:
    ways = [Spot(), OnDemand()]
    made = spec(capacity=ways)
    ways.clear()

    assert made.capacities == (Spot(), OnDemand())


@pytest.mark.parametrize(
    ("changes", "profile"),
    [
        ({}, Disruption.training()),
        ({"shape": NodeShape(instance_types=("g6.xlarge",), purpose="inference")}, Disruption.inference()),
        ({"max_gpus": None, "replicas": 2}, Disruption.static()),
        ({"disruption": Disruption(consolidation="Balanced")}, Disruption(consolidation="Balanced")),
    ],
)
def test_nodes_go_as_told_or_as_suits_what_runs_on_them(changes: dict[str, Any], profile: Disruption) -> None:
    assert spec(**changes).profile == profile


@pytest.mark.parametrize(
    ("changes", "spare"),
    [({}, 1), ({"capacity": RESERVED}, 0), ({"capacity": (RESERVED, OnDemand())}, 1), ({"spare_nodes": 3}, 3)],
)
def test_a_static_pool_has_a_node_to_spare_where_instances_are_not_counted(changes: dict[str, Any], spare: int) -> None:
    assert spec(**{"max_gpus": None, "replicas": 2} | changes).spare == spare


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"name": "L 4"}, ValueError, r"^Test/Pool: name must be"),
        ({"shape": "g6.xlarge"}, TypeError, r"^Test/Pool: shape must be a NodeShape, got 'g6.xlarge'"),
        ({"capacity": ()}, ValueError, r"^Test/Pool: capacity must name at least one way of buying, got none"),
        ({"capacity": (Spot(), Spot())}, ValueError, r"^Test/Pool: capacity must differ"),
        ({"capacity": "spot"}, TypeError, r"^Test/Pool: capacity must be OnDemand\(\)"),
        ({"capacity": (Spot(), "spot")}, TypeError, r"^Test/Pool: capacity must be OnDemand\(\)"),
        ({"capacity": CapacityBlock}, TypeError, r"^Test/Pool: capacity must be OnDemand\(\)"),
        ({"disruption": "WhenEmpty"}, TypeError, r"^Test/Pool: disruption must be a Disruption, got 'WhenEmpty'"),
        ({"replicas": 1}, ValueError, r"^Test/Pool: either max_gpus or replicas must be given, got 8 and 1"),
    ],
)
def test_refuses(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        spec(**changes)
