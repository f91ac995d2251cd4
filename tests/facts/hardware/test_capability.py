"""Instance types by demands in the words of a command line."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_constructs.facts.hardware.capability import Bound, Capability, matching
from gpu_constructs.facts.hardware.catalogue import catalogue


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


def test_a_figure_that_nobody_states_keeps_no_bound() -> None:
    assert not Bound.parse(">=0").holds(None)


@pytest.mark.parametrize(
    ("demands", "names"),
    [
        ({"models": ("h200",)}, {"p5e.48xlarge", "p5en.48xlarge"}),
        ({"families": ("g6",), "gpus": (Bound(">", 4),)}, {"g6.48xlarge"}),
        ({"families": ("p4de", "p4d")}, {"p4d.24xlarge", "p4de.24xlarge"}),
        ({"families": ("g5g",), "architecture": "x86_64"}, set()),
        ({"models": ("L4",), "gpus": (Bound(">=", 2), Bound("<", 8))}, {"g6.12xlarge", "g6.24xlarge"}),
        ({"families": ("g6",), "memory_gib": (Bound("<=", 16),)}, {"g6.xlarge"}),
        ({"families": ("g6",), "vcpus": (Bound("=", 192),)}, {"g6.48xlarge"}),
        ({"families": ("g6",), "max_usd_per_hour": 0.9}, {"g6.xlarge"}),
    ],
)
def test_demands(demands: dict[str, Any], names: set[str]) -> None:
    assert {each.name for each in matching(Capability(**demands))} == names


@pytest.mark.parametrize("switch", ["efa", "mig", "local_nvme"])
def test_switches_leave_some_types_and_take_others(switch: str) -> None:
    found = matching(Capability(**{switch: True}))

    assert 0 < len(found) < len(catalogue())


def test_bought_as_a_block() -> None:
    found = matching(Capability(purchase_option="capacity-block"))

    assert all("capacity-block" in each.purchase_options for each in found)
    assert "g6.xlarge" not in {each.name for each in found}


def test_memory_of_a_gpu_is_in_gib() -> None:
    assert {each.gpu_model for each in matching(Capability(gpu_memory_gib=(Bound("=", 80),)))} >= {"H100"}


def test_orders() -> None:
    family = Capability(families=("g6", "p5e"))
    by_price, by_gpus = matching(family), matching(family, order="gpus")

    assert by_price[0].name == "g6.xlarge"
    assert by_price[-1].usd_per_hour is None
    assert [each.gpus for each in by_gpus] == sorted((each.gpus for each in by_gpus), reverse=True)
    assert [each.name for each in matching(family, order="name")] == sorted(each.name for each in by_price)


@pytest.mark.parametrize(
    ("demands", "message"),
    [
        ({"models": ("H1000",)}, r"instances: gpu must be one of .*, got 'H1000'; did you mean 'H100'\?"),
        ({"families": ("g6x",)}, r"instances: family must be one of .*, got 'g6x'; did you mean"),
    ],
)
def test_refuses_unknown_names(demands: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Capability(**demands)
