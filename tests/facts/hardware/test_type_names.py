"""Names of GPU types that EC2 does not sell, and those that it may sell by now."""

from __future__ import annotations

import pytest

from gpu_facts.hardware.catalogue import may_be_newer, why_not_sold


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("p3.2xlarge", "p3.2xlarge is retired; use a size of family g6e"),
        ("g5.2xlage", "EC2 has no type g5.2xlage; did you mean 'g5.2xlarge'?"),
        ("g5.3xlarge", "EC2 has no type g5.3xlarge; did you mean 'g5.xlarge'?"),
        ("ml.g5.2xlarge", "EC2 has no type ml.g5.2xlarge; did you mean 'g5.2xlarge'?"),
        ("g66.xlarge", "EC2 has no type g66.xlarge; did you mean 'g6.xlarge'?"),
    ],
)
def test_a_type_that_is_not_sold(name: str, why: str) -> None:
    assert why_not_sold(name) == why
    assert not may_be_newer(name)


@pytest.mark.parametrize("name", ["g5.2xlarge", "m6i.large", "g4ad.xlarge", "c7gn.metal", ""])
def test_nothing_is_said_of_others(name: str) -> None:
    assert why_not_sold(name) is None
    assert not may_be_newer(name)


@pytest.mark.parametrize("name", ["g8.xlarge", "p7.48xlarge", "p6-b400.48xlarge"])
def test_a_type_may_be_newer_than_the_catalogue(name: str) -> None:
    assert may_be_newer(name)
    assert why_not_sold(name) is None
