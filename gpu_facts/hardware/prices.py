"""Prices and quotas of instance types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from gpu_facts.hardware.catalogue import InstanceType
from gpu_facts.hardware.regions import region_partition
from gpu_facts.light import dataclass, read_package_data

# Where prices are in dollars; others are in yuan or euro, which no sum of dollars takes, or are not public.
_IN_DOLLARS = ("aws", "aws-us-gov")
# Whose prices are taken for those of every commercial region.
_COMMERCIAL = "us-east-1"
# As the AWS Pricing Calculator and Infracost count a month (2026-11).
HOURS_PER_MONTH: Final = 730


@cache
def _document() -> dict[str, Any]:
    return dict(json.loads(read_package_data("gpu_facts.hardware", "prices.json").decode()))


def prices_read() -> Mapping[str, str]:
    """Return source and date (``source``, ``as_of``) of the prices of GovCloud."""
    return {key: str(_document()[key]) for key in ("source", "as_of")}


def usd_per_hour(row: InstanceType, region: str | None) -> float | None:
    """Return the on-demand list price in a region, US dollars an hour; ``None`` where there is none.

    Of a commercial region, and where no region is known, it is that of us-east-1.
    """
    if region is not None and region_partition(region) not in _IN_DOLLARS:
        return None
    own = _document()["regions"].get(region)
    return row.usd_per_hour if own is None else own.get(row.name)


def price_text(price: float | None, listed: str | None) -> str:
    """Return a price as people say it, with the region whose list it is of."""
    if price is None:
        return "without a list price in US dollars"
    return f"{price:,.2f} USD an hour on demand, list price of {listed}"


def price_list(region: str | None) -> str:
    """Return the region whose list the price in a region is taken from."""
    return region if region is not None and region in _document()["regions"] else _COMMERCIAL


@dataclass(frozen=True, kw_only=True, slots=True)
class Quota:
    """A quota of Service Quotas, service ``ec2``.

    Attributes:
        code: Its code, ``L-...``.
        name: Its name.
        quota_family: Family of the catalogue that it is for.
        purchase_option: How the instances are bought: ``on-demand`` or ``spot``.
        generations: Beginnings of the EC2 families that it is for; empty for all of the quota family.
    """

    code: str
    name: str
    quota_family: str
    purchase_option: str
    generations: tuple[str, ...] = ()

    def counts(self, row: InstanceType, capacity_type: str) -> bool:
        """Whether instances of a type, bought that way, count against it."""
        alike = (self.quota_family, self.purchase_option) == (row.quota_family, capacity_type)
        return alike and (not self.generations or row.family.startswith(self.generations))


# Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html (2026-08-21).
# Of spot P6 no source says which one counts it.
QUOTAS = (
    Quota(
        code="L-DB2E81BA",
        name="Running On-Demand G and VT instances",
        quota_family="G and VT",
        purchase_option="on-demand",
    ),
    Quota(
        code="L-417A185B",
        name="Running On-Demand P instances",
        quota_family="P",
        purchase_option="on-demand",
    ),
    Quota(
        code="L-3819A6DF",
        name="All G and VT Spot Instance Requests",
        quota_family="G and VT",
        purchase_option="spot",
    ),
    Quota(
        code="L-7212CCBC",
        name="All P4, P3 and P2 Spot Instance Requests",
        quota_family="P",
        purchase_option="spot",
        generations=("p2", "p3", "p4"),
    ),
    Quota(
        code="L-C4BD4855",
        name="All P5 Spot Instance Requests",
        quota_family="P",
        purchase_option="spot",
        generations=("p5",),
    ),
)


def find_quota(row: InstanceType, capacity_type: str) -> Quota | None:
    """Return the quota that instances of a type count against; ``None`` where there is none or none is documented.

    Args:
        row: The instance type.
        capacity_type: ``on-demand``, ``spot``, ``reserved`` or ``capacity-block``.
    """
    return next((each for each in QUOTAS if each.counts(row, capacity_type)), None)
