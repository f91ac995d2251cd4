"""Figures and how others compare to them."""

from __future__ import annotations

import pytest

from gpu_facts.hardware.capability import Bound


@pytest.mark.parametrize(
    ("text", "below", "at", "above"),
    [
        (">=80", False, True, True),
        (">80", False, False, True),
        ("=80", False, True, False),
        ("80", False, True, False),
        ("<= 80", True, True, False),
        ("<80", True, False, False),
    ],
)
def test_bounds(text: str, below: bool, at: bool, above: bool) -> None:
    bound = Bound.parse(text)

    assert [bound.holds(amount) for amount in (79.9, 80, 80.1)] == [below, at, above]


@pytest.mark.parametrize("text", ["", "lots", ">=", "=>80", "80GiB", "-1", ">=1e9", "nan"])
def test_refuses_what_is_no_bound(text: str) -> None:
    with pytest.raises(ValueError, match="must be a number, with >=, >, =, <= or < before it, got"):
        Bound.parse(text)


def test_an_unstated_figure_is_outside_of_every_limit() -> None:
    assert not Bound.parse(">=0").holds(None)
