"""The price of an instance in its region."""

from __future__ import annotations

from datetime import date

import pytest

from gpu_facts.hardware.catalogue import catalogue, instance_type
from gpu_facts.hardware.regions import prices_read, usd_per_hour


@pytest.mark.parametrize(
    ("name", "region", "dollars"),
    [
        ("p5.48xlarge", None, 55.04),
        ("p5.48xlarge", "eu-north-1", 55.04),
        ("p5.48xlarge", "us-gov-west-1", 66.048),
        # It is not sold there.
        ("p5.48xlarge", "us-gov-east-1", None),
        ("g4dn.xlarge", "cn-north-1", None),
        # Prices in euro, prices that are not public, and a region of which nothing is known.
        ("g4dn.xlarge", "eusc-de-east-1", None),
        ("g4dn.xlarge", "us-iso-east-1", None),
        ("g4dn.xlarge", "nz-south-1", None),
        ("p5e.48xlarge", "us-east-2", None),
    ],
)
def test_a_price_is_the_regions_or_a_substitute(name: str, region: str | None, dollars: float | None) -> None:
    assert usd_per_hour(instance_type(name), region) == dollars


def test_govcloud_costs_more() -> None:
    shared = [row for row in catalogue().values() if row.usd_per_hour and usd_per_hour(row, "us-gov-west-1")]

    assert len(shared) > 10
    for row in shared:
        assert 1.1 < (usd_per_hour(row, "us-gov-west-1") or 0) / (row.usd_per_hour or 1) < 1.4, row.name


def test_it_says_when_it_was_read() -> None:
    assert date.fromisoformat(prices_read()["as_of"]) <= date(2026, 11, 21)
    assert "karpenter-provider-aws" in prices_read()["source"]
