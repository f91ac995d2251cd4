"""Sums of requests, as Kubernetes writes quantities."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal

REQUESTS = ("cpu", "memory", "ephemeral-storage")
_QUANTITY = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)(m|[kMGTP]|[KMGTP]i)?")
_BINARY = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTP", start=1)}
_SCALE: Mapping[str, int] = {"": 1, **{letter: 1000**power for power, letter in enumerate("kMGTP", start=1)}, **_BINARY}


def is_quantity(text: str) -> bool:
    """Whether a text is an amount of CPU, memory or storage."""
    return _QUANTITY.fullmatch(text) is not None


def total(requests: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the sum of requests; what one container alone asks for keeps its spelling."""
    amounts: dict[str, list[str]] = {}
    for each in requests:
        for name, amount in each.items():
            amounts.setdefault(name, []).append(amount)
    return {name: all_of[0] if len(all_of) == 1 else _sum(name, all_of) for name, all_of in amounts.items()}


def _sum(name: str, amounts: list[str]) -> str:
    base = sum((_amount(each) for each in amounts), Decimal())
    if name == "cpu":
        return f"{int(base * 1000)}m"
    mebibytes, rest = divmod(int(base), _BINARY["Mi"])
    return str(int(base)) if rest else f"{mebibytes}Mi"


def _amount(text: str) -> Decimal:
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return Decimal()
    number, unit = Decimal(found[1]), found[2] or ""
    return number / 1000 if unit == "m" else number * _SCALE[unit]
