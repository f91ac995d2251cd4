"""NodeUpdate says how EKS replaces nodes, and refuses what it would refuse."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from gpu_constructs import CapacityBlock, OnDemand, Reservation
from gpu_constructs.nodes import NodeUpdate

STARTS = datetime(2026, 12, 1, 11, 30, tzinfo=timezone.utc)
BLOCK = CapacityBlock(
    id="cr-0a100000000000000",
    availability_zone="us-east-1a",
    starts=STARTS,
    ends=STARTS + timedelta(days=1),
    instances=2,
)


@pytest.mark.parametrize(
    ("says", "emitted"),
    [
        ({}, {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}),
        ({"max_unavailable": 100}, {"maxUnavailable": 100, "updateStrategy": "MINIMAL"}),
        ({"max_unavailable": "1%"}, {"maxUnavailablePercentage": 1, "updateStrategy": "MINIMAL"}),
        (
            {"max_unavailable": "100%", "strategy": "DEFAULT"},
            {"maxUnavailablePercentage": 100, "updateStrategy": "DEFAULT"},
        ),
    ],
)
def test_is_what_the_api_calls_so(says: dict[str, Any], emitted: dict[str, Any]) -> None:
    assert NodeUpdate(**says).to_properties() == emitted


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"max_unavailable": 0}, ValueError, r"max_unavailable must be at least 1, got 0"),
        ({"max_unavailable": 101}, ValueError, r"max_unavailable must be at most 100, got 101"),
        ({"max_unavailable": "0%"}, ValueError, "must be a number or a percentage from '1%' to '100%', got '0%'"),
        ({"max_unavailable": "101%"}, ValueError, "a number or a percentage from '1%' to '100%', got '101%'"),
        ({"max_unavailable": "33"}, ValueError, "a number or a percentage from '1%' to '100%', got '33'"),
        ({"max_unavailable": 0.5}, TypeError, r"max_unavailable must be a whole number, got 0.5"),
        ({"strategy": "MINIMAL_"}, ValueError, r"strategy must be one of MINIMAL, DEFAULT, .*did you mean 'MINIMAL'"),
    ],
)
def test_refuses(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"node update: .*{message}"):
        NodeUpdate(**changes)


def test_a_block_has_nothing_to_launch_new_nodes_on() -> None:
    with pytest.raises(ValueError, match=r"Test: update must have strategy 'MINIMAL' .*got 'DEFAULT'.* \[GPU029\]"):
        NodeUpdate(strategy="DEFAULT").refuse_beside("Test", BLOCK)


@pytest.mark.parametrize(
    "capacity", [OnDemand(), Reservation(availability_zone="us-east-1a", id="cr-0a100000000000000")]
)
def test_other_capacity_may_have_spare_instances(capacity: Any) -> None:
    NodeUpdate(strategy="DEFAULT").refuse_beside("Test", capacity)
    NodeUpdate(strategy="MINIMAL").refuse_beside("Test", BLOCK)
