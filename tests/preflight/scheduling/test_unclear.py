"""Where deployment chooses from a list, each choice is checked, and only an arbitrary value leaves the answer open."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.reading.unknown import Unknown
from gpu_preflight.scheduling.unclear import openings
from tests.preflight.readers import pool

ANYTHING = Unknown("${Type}")


def among(*values: Any) -> Unknown:
    """One of some values."""
    return Unknown("${Map}", values)


@pytest.mark.parametrize(
    ("types", "is_open"),
    [
        (["g6.xlarge"], False),
        (ANYTHING, True),
        (["g6.xlarge", ANYTHING], True),
        (among(["g6.xlarge"], ["g5.xlarge"]), False),
        ([among("g6.xlarge", "g5.xlarge")], False),
        (among(["g6.xlarge"], [ANYTHING]), True),
        ([among("g6.xlarge", ANYTHING)], True),
        (None, False),
    ],
)
def test_an_instance_type_is_open_when_it_may_be_anything(types: Any, is_open: bool) -> None:
    assert bool(openings(pool(properties={"InstanceTypes": types})).types) is is_open


@pytest.mark.parametrize(
    ("ami_type", "system", "is_open"),
    [
        ("AL2023_x86_64_NVIDIA", "al2023", False),
        (ANYTHING, "unknown", True),
        (among("AL2023_x86_64_NVIDIA", "AL2023_ARM_64_NVIDIA"), "al2023", False),
        (among("AL2023_x86_64_NVIDIA", "AL2023_x86_64_STANDARD"), "al2023", True),
        (among("AL2023_x86_64_NVIDIA", "BOTTLEROCKET_x86_64_NVIDIA"), "unknown", True),
    ],
)
def test_an_image_is_open_when_its_choices_differ(ami_type: Any, system: Any, is_open: bool) -> None:
    assert bool(openings(pool(operating_system=system, properties={"AmiType": ami_type})).image) is is_open
