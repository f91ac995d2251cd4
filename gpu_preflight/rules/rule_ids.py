"""Ids of rules as people write them, and those that are retired: people accept findings by id."""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import MappingProxyType

from gpu_facts.light_dataclasses import dataclass
from gpu_facts.light_patterns import regex
from gpu_facts.refusals import did_you_mean

# An id as it is said: gpu120, GPU-120, 120.
_SAID = regex(r"(?:GPU)?[-_ ]?(\d{3})", re.IGNORECASE)
# Slips of an id: letters that look like digits, zeros too many or too few.
_SLIP = regex(r"(?:GPU)?[-_ ]?0*([0-9OIL]{1,3})", re.IGNORECASE)
_LOOKS_LIKE = str.maketrans("OIL", "011")


@dataclass(frozen=True, kw_only=True, slots=True)
class Retired:
    """A rule that is no more. Its id is never given again.

    Attributes:
        title: What it found.
        date: Day it went, ISO 8601.
        now: Ids of the rules that find it now.
        why: Who says it now, where no rule does.
    """

    title: str
    date: str
    now: tuple[str, ...] = ()
    why: str = ""


RETIRED = MappingProxyType(
    {
        "GPU047": Retired(title="Several network interfaces in a public subnet", date="2026-11-21", now=("GPU105",)),
        "GPU109": Retired(
            title="Node repair that EKS refuses", date="2026-11-21", why="EKS says it itself when the group is made"
        ),
        "GPU136": Retired(title="Disk in a zone where the pools have no nodes", date="2026-11-21", now=("GPU120",)),
        "GPU138": Retired(title="Pods that keep apart by zone, and too few zones", date="2026-11-21", now=("GPU120",)),
        "GPU199": Retired(
            title="Requirement on labels of the other Karpenter",
            date="2026-11-21",
            now=("GPU120",),
            why="for pods that need the NodePool",
        ),
        "GPU234": Retired(title="Field that the API does not have", date="2026-11-22", now=("GPU302",)),
    }
)


def rule_id(text: str) -> str:
    """Return the id that somebody says, without its prefix or in small letters too."""
    said = _SAID.fullmatch(text.strip())
    return f"GPU{said[1]}" if said else text


def id_hint(text: str, known: Iterable[str]) -> str:
    """Return what helps with an id that no rule has: that it is retired, or ``; did you mean 'GPU120'?``."""
    if retired := RETIRED.get(rule_id(text)):
        found = f"{' and '.join(retired.now)} finds it now" if retired.now else ""
        told = ", ".join(each for each in (found, retired.why) if each)
        return f"; it was {retired.title!r}, retired on {retired.date}: {told}"
    ids = tuple(known)
    slip = _SLIP.fullmatch(text.strip())
    meant = f"GPU{slip[1].upper().translate(_LOOKS_LIKE):0>3}" if slip else ""
    return f"; did you mean {meant!r}?" if meant in ids else did_you_mean(text, ids)
