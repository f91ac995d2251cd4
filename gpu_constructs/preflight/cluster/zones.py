"""Whether the nodes of a pool may stand in more than one Availability Zone."""

from __future__ import annotations

import re

from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Pool
from gpu_constructs.preflight.reading.unknown import Unknown

# The zones of a Region differ, whatever their names are.
_NTH_ZONE = re.compile(r"\$\{Fn::Select \[\"?(\d+)\"?,\"?\$\{Fn::GetAZs .*")


def spans_zones(pool: Pool) -> Answer:
    """Say whether the subnets of a pool are in more than one zone."""
    if not pool.zones:
        return Answer.UNKNOWN
    if len(set(pool.zones)) == 1:
        return Answer.NO
    named = {each for each in pool.zones if isinstance(each, str)}
    numbered = {found.group(1) for each in pool.zones if (found := _nth(each))}
    return Answer.YES if len(named) > 1 or len(numbered) > 1 else Answer.UNKNOWN


def _nth(zone: str | Unknown) -> re.Match[str] | None:
    return _NTH_ZONE.fullmatch(zone.expression) if isinstance(zone, Unknown) else None
