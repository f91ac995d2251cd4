"""What an instance costs where it runs: GovCloud's own prices, from `prices.json`, and elsewhere those of us-east-1."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from gpu_constructs.facts.hardware.catalogue import InstanceType

# Where prices are in yuan, which no sum of dollars takes.
_CHINA = "cn-"


@cache
def _document() -> dict[str, Any]:
    return dict(json.loads(files("gpu_constructs.facts.hardware").joinpath("prices.json").read_text()))


def prices_read() -> Mapping[str, str]:
    """Return source and date (``source``, ``as_of``) of the prices of GovCloud."""
    return {key: str(_document()[key]) for key in ("source", "as_of")}


def usd_per_hour(row: InstanceType, region: str | None) -> float | None:
    """Return the on-demand list price in a region, US dollars an hour; ``None`` where there is none.

    Of a commercial region, or one that is not known, it is that of us-east-1.
    """
    if region is not None and region.startswith(_CHINA):
        return None
    own = _document()["regions"].get(region)
    return row.usd_per_hour if own is None else own.get(row.name)
