"""How a change of a value is shown in one line."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.judging.deployed import leaf_changes

LONG = "registry.example.com/models/of/a/long/path/" + "x" * 40


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (1, 2, ["it: 1 -> 2"]),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, ["it.b: 2 -> 3"]),
        (
            [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 200}}],
            [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 300}}],
            ["it.Ebs.VolumeSize: 200 -> 300"],
        ),
        ([{"Key": "a", "Value": "1"}], [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}], ["it[b]: none -> 2"]),
        ([{"x": 1}, {"x": 2}], [{"x": 1}, {"x": 3}], ["it: x 2 -> none", "it: none -> x 3"]),
        # The same key twice names no member.
        (
            [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}],
            [{"key": "a", "effect": "NoSchedule"}],
            ["it: key a, effect NoExecute -> none"],
        ),
        # Another order alone.
        ([{"x": 1}, {"x": 2}], [{"x": 2}, {"x": 1}], ["it: {'x': 1}, {'x': 2} -> {'x': 2}, {'x': 1}"]),
        (["a", "b"], ["a", "c"], ["it: a, b -> a, c"]),
        (f"{LONG}:1", f"{LONG}:2", ["it: ..." + "x" * 19 + ":1 -> ..." + "x" * 19 + ":2"]),
    ],
)
def test_a_change_shows_the_value_that_differs(before: Any, after: Any, expected: list[str]) -> None:
    assert leaf_changes("it", before, after) == expected
