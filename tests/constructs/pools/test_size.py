"""A size is either, and each number in it has its range."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_constructs import Static, UpTo

# How the CDK hands out a number that is known at deployment only.
TOKEN = -1.8881545897087626e289


@pytest.mark.parametrize(
    ("kind", "says", "error", "message"),
    [
        (UpTo, {"gpus": 0}, ValueError, "size: gpus must be at least 1, got 0; delete the pool to switch it off"),
        (UpTo, {"gpus": "8"}, TypeError, "size: gpus must be a whole number, got '8'"),
        (UpTo, {"gpus": 8.5}, TypeError, "size: gpus must be a whole number, got 8.5"),
        (UpTo, {"gpus": float("nan")}, TypeError, "size: gpus must be a whole number, got nan"),
        (
            UpTo,
            {"gpus": TOKEN},
            ValueError,
            "size: gpus must be known at synth, got a token; write a number",
        ),
        (UpTo, {"gpus": 8, "vcpus": "9"}, TypeError, "size: vcpus must be a whole number, got '9'"),
        (UpTo, {"gpus": 8, "vcpus": -1}, ValueError, "size: vcpus must be at least 0, got -1"),
        (UpTo, {"gpus": 8, "memory_gib": -1}, ValueError, "size: memory_gib must be at least 0, got -1"),
        (UpTo, {"gpus": 8, "weight": 0}, ValueError, "size: weight must be at least 1, got 0"),
        (UpTo, {"gpus": 8, "weight": 101}, ValueError, "size: weight must be at most 100, got 101; lower it"),
        (Static, {"nodes": -1}, ValueError, "size: nodes must be at least 0, got -1"),
        (Static, {"nodes": "2"}, TypeError, "size: nodes must be a whole number, got '2'"),
        (Static, {"nodes": 2, "spare": -1}, ValueError, "size: spare must be at least 0, got -1"),
        (Static, {"nodes": 2, "spare": 1.0}, TypeError, "size: spare must be a whole number, got 1.0"),
    ],
)
def test_refuses_a_number(kind: Any, says: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as refused:
        kind(**says)

    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (UpTo, {"gpus": 1, "vcpus": 0, "memory_gib": 0, "weight": 1}),
        (UpTo, {"gpus": 1, "weight": 100}),
        (Static, {"nodes": 0, "spare": 0}),
    ],
)
def test_takes_the_nearest_right_number(kind: Any, says: dict[str, Any]) -> None:
    made = kind(**says)

    assert {argument: getattr(made, argument) for argument in says} == says


def test_what_a_static_pool_has_not_cannot_be_said() -> None:
    for argument in ("weight", "vcpus", "memory_gib"):
        with pytest.raises(TypeError, match=argument):
            Static(**{"nodes": 2, argument: 8})
