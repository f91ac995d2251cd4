"""Scheduled actions change the sizes of an Auto Scaling group."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.cluster.pools import resized
from gpu_preflight.model.cluster import Pool
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import Unknown
from tests.preflight.readers import pool

ALWAYS = {"Recurrence": "0 8 * * 1-5"}


def made(name: str, properties: dict[str, Any]) -> Resource:
    return Resource("app.json", f"app/{name}", "AWS::AutoScaling::ScheduledAction", properties, name, (), {}, False)


def action(**said: Any) -> Resource:
    properties = {"AutoScalingGroupName": "gpu", **ALWAYS, **said}
    return made("Action", properties)


def beside(least: int, most: int, *actions: Resource) -> Pool:
    named = {"AutoScalingGroupName": "gpu"}
    [found] = resized([pool(kind="self-managed", min_nodes=least, max_nodes=most, properties=named)], actions)
    return found


@pytest.mark.parametrize(
    ("least", "most", "said", "resized_", "closes"),
    [
        (0, 0, {"MinSize": 2, "MaxSize": 2}, True, True),
        (2, 2, {"MinSize": 0, "MaxSize": 0, "DesiredCapacity": 0}, True, True),
        (0, 4, {"MinSize": 1}, True, False),
        (0, 4, {"DesiredCapacity": "2"}, True, False),
        (1, 4, {"MinSize": 2}, False, False),
        (1, 4, {"MaxSize": 8}, False, False),
    ],
)
def test_it_may_give_nodes_or_take_all(
    least: int, most: int, said: dict[str, Any], resized_: bool, closes: bool
) -> None:
    found = beside(least, most, action(**said))

    assert (found.resized, found.closes) == (resized_, closes)


def test_the_group_may_have_as_many_as_an_action_allows() -> None:
    assert beside(0, 0, action(MinSize=2, MaxSize=2)).max_nodes == 2
    assert beside(1, 4, action(MaxSize=8)).max_nodes == 8


def test_an_action_of_another_group_changes_nothing() -> None:
    other = made("B", {"AutoScalingGroupName": "b", "MinSize": 2, "MaxSize": 2})

    found = beside(0, 0, other)

    assert (found.resized, found.max_nodes) == (False, 0)


@pytest.mark.parametrize("size", ["MinSize", "DesiredCapacity", "MaxSize"])
def test_a_size_that_only_deployment_tells_may_be_any(size: str) -> None:
    found = beside(1, 4, action(**{size: Unknown("${Night}")}))

    assert (found.resized, found.closes, found.max_nodes) == (True, True, None)
