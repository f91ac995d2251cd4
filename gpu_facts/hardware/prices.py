"""What an instance costs where it runs: GovCloud's own prices, from `prices.json`, and elsewhere those of us-east-1."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from gpu_facts.data_files import data_of
from gpu_facts.hardware.catalogue import InstanceType
from gpu_facts.hardware.regions import partition_of

# Where prices are in dollars; others are in yuan or euro, which no sum of dollars takes, or are not public.
_IN_DOLLARS = ("aws", "aws-us-gov")
# Whose prices are taken for those of every commercial region.
_COMMERCIAL = "us-east-1"
# As the AWS Pricing Calculator and Infracost count a month (2026-11).
HOURS_PER_MONTH: Final = 730


@cache
def _document() -> dict[str, Any]:
    return dict(json.loads(data_of("gpu_facts.hardware", "prices.json").decode()))


def prices_read() -> Mapping[str, str]:
    """Return source and date (``source``, ``as_of``) of the prices of GovCloud."""
    return {key: str(_document()[key]) for key in ("source", "as_of")}


def usd_per_hour(row: InstanceType, region: str | None) -> float | None:
    """Return the on-demand list price in a region, US dollars an hour; ``None`` where there is none.

    Of a commercial region, and where no region is known, it is that of us-east-1.
    """
    if region is not None and partition_of(region) not in _IN_DOLLARS:
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
