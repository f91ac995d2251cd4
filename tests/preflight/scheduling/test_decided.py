"""Preflight's results match the decisions of the real scheduler."""

from __future__ import annotations

import pytest

from tests.preflight.scheduling.decided import CASES, Decided
from tests.preflight.scheduling.told import Told, agrees


@pytest.mark.parametrize("name", CASES)
def test_preflight_says_what_was_decided(name: str) -> None:
    kept = Decided.read(name)

    told = Told(kept.world, [kept.pod]).fates(kept.pod["metadata"]["name"])

    assert kept.decided
    for place, fate in kept.decided.items():
        assert told[place] != "unknown"
        assert agrees(told[place], fate), f"{place}: told {told[place]}, decided {fate}"


@pytest.mark.parametrize("name", CASES)
def test_a_case_says_what_it_is_about(name: str) -> None:
    first = Decided.first_line(name)

    assert first.startswith("# ")
    assert first.endswith(".")
