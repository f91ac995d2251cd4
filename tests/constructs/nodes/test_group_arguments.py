"""Requirements on the arguments of every kind of node group, on both sides of each limit, without a stack."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_constructs.nodes import group_arguments
from gpu_constructs.nodes.bootstrap import Bootstrap
from gpu_constructs.nodes.group_arguments import (
    MAX_INSTANCE_TYPES,
    check_group,
    refuse_unless_values,
)
from gpu_constructs.pools.capacity import CapacityBlock, OnDemand, Reservation, Spot
from gpu_constructs.pools.disruption import NodeRepair
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.size import ScalingOptions
from gpu_facts.hardware.catalogue import instance_type

WHO = "Test/Nodes"
NOW = datetime(2027, 1, 1, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)
# How the CDK hands out a number that is known at deployment only.
TOKEN = -1.8881545897087626e289
L4 = NodeShape(instance_types=("g6.xlarge",))
BY_CLAIM = NodeShape(instance_types=("g6.xlarge",), device_manager="dra")


def block(**changes: Any) -> CapacityBlock:
    """A block of four p5.48xlarge that begins tomorrow."""
    given = {"starts": NOW + 24 * HOUR, "ends": NOW + 48 * HOUR, "instances": 4}
    return CapacityBlock(**{"id": "cr-01000000000000000", "availability_zone": "us-east-1a", **given, **changes})


H100 = NodeShape(instance_types=("p5.48xlarge",))


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The warnings; the CDK and the clock are fixed."""
    found: list[tuple[str, str]] = []
    annotations = SimpleNamespace(
        of=lambda group: SimpleNamespace(add_warning_v2=lambda id, text: found.append((f"{group} {id}", text)))
    )
    stand_in = SimpleNamespace(
        Annotations=annotations, Token=SimpleNamespace(is_unresolved=lambda number: number == TOKEN)
    )
    monkeypatch.setattr(group_arguments, "cdk", stand_in)
    monkeypatch.setattr(group_arguments, "check_subnets", lambda *_, **__: None)
    return found


def checked(**changes: Any) -> Any:
    """Return where the nodes of a group may start."""
    says = {"name": "l4", "shape": L4, "capacity": OnDemand(), "min_nodes": 0, "max_nodes": 2, "subnets": None}
    cluster = SimpleNamespace(subnets=lambda given, *, who, zone: [given, who, zone])
    return check_group("group", who=WHO, cluster=cluster, **{**says, **changes})  # type: ignore[arg-type]


def test_nodes_start_where_it_is_said_in_the_zone_of_what_is_reserved(warned: Any) -> None:
    reserved = Reservation(availability_zone="us-east-1b", id="cr-01000000000000000")

    assert checked(subnets=["a"]) == [["a"], WHO, None]
    assert checked(capacity=reserved) == [None, WHO, "us-east-1b"]
    assert warned == []


def test_the_subnets_are_checked_for_the_nodes_of_the_group(warned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(group_arguments, "check_subnets", lambda *of, **says: seen.append((of, says)))

    chosen = checked(max_nodes=7)

    [(of, says)] = seen
    assert of == ("group",)
    assert says.pop("cluster").subnets
    assert says == {"who": WHO, "shape": L4, "subnets": chosen, "max_nodes": 7}


TYPES = [f"g9.{number}xlarge" for number in range(MAX_INSTANCE_TYPES + 1)]
ROWS = [replace(instance_type("g6.xlarge"), name=name) for name in TYPES]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"name": "L 4"}, ValueError, "name must be "),
        ({"name": None}, TypeError, "name must be "),
        ({"shape": "g6.xlarge"}, TypeError, "shape must be a NodeShape, got 'g6.xlarge'"),
        ({"capacity": "spot"}, TypeError, "capacity must be OnDemand(), Spot(), "),
        (
            {"shape": H100, "capacity": block(instances=2), "max_nodes": 3},
            ValueError,
            "max_nodes must be the 2 instances of the Capacity Block, got 3",
        ),
        (
            {"capacity": block()},
            ValueError,
            "capacity must be one that EC2 sells 'g6.xlarge' with, on-demand, spot, got CapacityBlock",
        ),
        (
            {"shape": NodeShape(instance_types=("g6.xlarge",), purpose="training"), "capacity": Spot()},
            ValueError,
            "capacity must not be Spot() if the shape's purpose is 'training', got Spot()",
        ),
        (
            {"shape": NodeShape(instance_types=ROWS)},
            ValueError,
            "shape must have at most 20 instance types, got 21",
        ),
        (
            {"shape": NodeShape(instance_types=("g6.xlarge", "g6.12xlarge", "g5.xlarge"))},
            ValueError,
            "shape must have instance types with one number of GPUs, got {'g6.xlarge': 1, 'g6.12xlarge': 4, "
            "'g5.xlarge': 1}; make one group per number, because cluster autoscaler uses the first type for all of "
            "them",
        ),
        ({"min_nodes": -1}, ValueError, "min_nodes must be at least 0, got -1"),
        ({"min_nodes": "1"}, TypeError, "min_nodes must be a whole number, got '1'"),
        ({"min_nodes": 1.0}, TypeError, "min_nodes must be a whole number, got 1.0"),
        ({"min_nodes": float("nan")}, TypeError, "min_nodes must be a whole number, got nan"),
        ({"max_nodes": 0}, ValueError, "max_nodes must be at least 1, got 0; delete the group to switch it off"),
        ({"max_nodes": float("inf")}, TypeError, "max_nodes must be a whole number, got inf"),
        ({"max_nodes": None}, TypeError, "max_nodes must be a whole number, got None"),
        ({"min_nodes": 3}, ValueError, "max_nodes must be at least min_nodes, got 2 and 3"),
        (
            {"shape": BY_CLAIM},
            ValueError,
            "min_nodes must be at least 1 with device_manager='dra', got 0; raise it, because cluster autoscaler "
            "reads the devices of existing nodes only, and so never launches the first node",
        ),
        (
            {"shape": H100, "capacity": block(), "min_nodes": 1, "max_nodes": 4},
            ValueError,
            (
                "min_nodes must be 0 with a Capacity Block, got 1; remove it, because every launch "
                "fails before the block starts"
            ),
        ),
        (
            {"shape": H100, "capacity": block(), "max_nodes": 3},
            ValueError,
            "max_nodes must be the 4 instances of the Capacity Block, got 3",
        ),
        (
            {"shape": H100, "capacity": block(), "max_nodes": 5},
            ValueError,
            "max_nodes must be the 4 instances of the Capacity Block, got 5",
        ),
    ],
)
def test_refuses_groups(warned: Any, changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as refused:
        checked(**changes)

    assert str(refused.value).startswith(f"{WHO}: {message}")
    assert warned == []


@pytest.mark.parametrize(
    "changes",
    [
        {"min_nodes": 2},
        {"min_nodes": 0, "max_nodes": 1},
        {"min_nodes": TOKEN},
        {"max_nodes": TOKEN},
        {"min_nodes": 3, "max_nodes": TOKEN},
        {"min_nodes": TOKEN, "max_nodes": TOKEN},
        {"shape": BY_CLAIM, "min_nodes": 1},
        {"shape": BY_CLAIM, "min_nodes": TOKEN},
        {"shape": H100, "capacity": block(), "max_nodes": 4},
        {"shape": H100, "capacity": block(), "max_nodes": TOKEN},
        {"shape": NodeShape(instance_types=ROWS[:MAX_INSTANCE_TYPES])},
        {"shape": NodeShape(instance_types=("g6.12xlarge", "g6.24xlarge")), "max_nodes": 1},
        {"shape": NodeShape(instance_types=("g6.xlarge",), purpose="training"), "capacity": Spot(checkpointed=True)},
    ],
)
def test_accepts_the_nearest_group(warned: Any, changes: dict[str, Any]) -> None:
    assert checked(**changes)


SIZES = st.one_of(st.integers(-1, 4), st.just(TOKEN))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SIZES, SIZES)
def test_a_group_has_sizes_that_can_be(warned: Any, least: Any, most: Any) -> None:
    """Each number in its order, and one that is not known at no place in particular."""
    known = [each for each in (0, least, most) if each != TOKEN]
    can_be = known == sorted(known) and most != 0

    try:
        checked(min_nodes=least, max_nodes=most)
    except ValueError:
        assert not can_be
    else:
        assert can_be


DIFFER = (
    " differ in vCPU or memory: cluster autoscaler assumes g6.xlarge for all of them, and a pod that fits only that "
    "one can stay Pending on another"
)


@pytest.mark.parametrize(
    ("shape", "warnings"),
    [
        (L4, []),
        (NodeShape(instance_types=("g6.xlarge", "g5.xlarge")), []),
        (
            NodeShape(instance_types=("g6.xlarge", "g6.2xlarge")),
            [("group gpu-constructs:mixedSizes", f"g6.xlarge, g6.2xlarge{DIFFER}")],
        ),
        (
            NodeShape(instance_types=("g6.xlarge", "g6e.xlarge")),
            [("group gpu-constructs:mixedSizes", f"g6.xlarge, g6e.xlarge{DIFFER}")],
        ),
        (
            NodeShape(instance_types=("g6.xlarge", "g6f.xlarge")),
            [
                (
                    "group gpu-constructs:lastDriverBranch",
                    "g6f.xlarge: the NVIDIA driver branch of the current EKS images is the last one for this GPU",
                )
            ],
        ),
        (
            NodeShape(instance_types=("g6f.large", "gr6f.4xlarge")),
            [
                (
                    "group gpu-constructs:lastDriverBranch",
                    "g6f.large, gr6f.4xlarge: the NVIDIA driver branch of the current EKS images is the last one for "
                    "this GPU",
                ),
                (
                    "group gpu-constructs:mixedSizes",
                    "g6f.large, gr6f.4xlarge" + DIFFER.replace("g6.xlarge", "g6f.large"),
                ),
            ],
        ),
    ],
)
def test_warns_of_types_that_end_or_differ(warned: Any, shape: NodeShape, warnings: list[tuple[str, str]]) -> None:
    checked(shape=shape)

    assert warned == warnings


OPTIONS = ScalingOptions(unneeded_minutes=5)


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ({}, None),
        ({"node_repair": NodeRepair()}, None),
        ({"scaling_options": OPTIONS}, None),
        ({"bootstrap": None}, "bootstrap must be a Bootstrap, got None; write Bootstrap(...)"),
        ({"bootstrap": "1.36"}, "bootstrap must be a Bootstrap, got '1.36'; write Bootstrap(...)"),
        ({"node_repair": True}, "node_repair must be a NodeRepair, got True; write NodeRepair(...)"),
        ({"scaling_options": {}}, ("scaling_options must be a ScalingOptions, got {}; write ScalingOptions(...)")),
    ],
)
def test_values_are_what_they_are_called(says: dict[str, Any], message: str | None) -> None:
    given = {"bootstrap": Bootstrap(), **says}

    if message is None:
        refuse_unless_values(WHO, **given)
    else:
        with pytest.raises(TypeError) as refused:
            refuse_unless_values(WHO, **given)
        assert str(refused.value) == f"{WHO}: {message}"
