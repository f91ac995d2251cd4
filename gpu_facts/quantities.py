"""Kubernetes quantities, as text and in base units: CPU in thousandths, everything else in whole units."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final

from gpu_facts.light import regex
from gpu_facts.resources import DISK

Resources = Mapping[str, int]

# Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/ (2026-08)
_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{unit: Decimal(1000) ** power for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{unit: Decimal(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}
_QUANTITY = regex(
    r"([+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30}))(?:([eE][+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII
)
GIB: Final = 1024**3
MIB: Final = 1024**2


@lru_cache(maxsize=4096)
def decimal_value(text: str) -> Decimal | None:
    """Return the value of a quantity, for CPU in cores, or ``None`` if the text isn't a quantity."""
    found = _QUANTITY.fullmatch(text)
    if not found:
        return None
    number, exponent, suffix = found.groups()
    try:
        return Decimal(number + exponent) if exponent else Decimal(number) * _SUFFIXES[suffix or ""]
    except InvalidOperation:  # pragma: no cover
        return None


def quantity(name: str, value: Any) -> int | None:
    """Return the amount of a resource in base units, rounded up, or ``None`` if the value isn't a quantity."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    amount = decimal_value(str(value).strip())
    if amount is None:
        return None
    scaled = amount * 1000 if name == "cpu" else amount
    return int(scaled.to_integral_value(rounding="ROUND_CEILING"))


def millicores(cpus: float) -> str:
    """Return virtual CPUs as text, rounded to a thousandth, the smallest amount in Kubernetes."""
    return f"{round(cpus * 1000)}m"


def resources(values: Any) -> dict[str, int]:
    """Return the resources of a mapping that are quantities."""
    found = {name: quantity(name, value) for name, value in values.items()} if isinstance(values, Mapping) else {}
    return {name: amount for name, amount in found.items() if amount is not None}


def add(*parts: Resources) -> dict[str, int]:
    """Return the sum of resources."""
    total: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def pod_requests(pod: Mapping[str, Any]) -> dict[str, int]:
    """Return the total requests of a pod's containers that run as long as the pod, in base units."""
    sidecars = (each for each in pod.get("initContainers") or () if each.get("restartPolicy") == "Always")
    return add(*(_requests(each.get("resources") or {}) for each in (*(pod.get("containers") or ()), *sidecars)))


def _requests(written: Mapping[str, Any]) -> dict[str, int]:
    return resources(written.get("limits")) | resources(written.get("requests"))


def total(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the sum of resources as text. A resource that only one part has keeps its spelling."""
    amounts: dict[str, list[str]] = {}
    for part in parts:
        for name, amount in part.items():
            amounts.setdefault(name, []).append(amount)
    return {name: each[0] if len(each) == 1 else _written(name, each) for name, each in amounts.items()}


def _written(name: str, amounts: Iterable[str]) -> str:
    base = sum(quantity(name, each) or 0 for each in amounts)
    if name == "cpu":
        return f"{base}m"
    mebibytes, rest = divmod(base, MIB)
    return str(base) if rest else f"{mebibytes}Mi"


def show(name: str, amount: int) -> str:
    """Return an amount for messages, e.g. ``3920m`` or ``14.2Gi``."""
    if name == "cpu":
        return f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"
    if name in ("memory", DISK) or name.startswith("hugepages-"):
        unit, size = ("Gi", GIB) if abs(amount) >= GIB else ("Mi", MIB)
        return f"{amount / size:.1f}".rstrip("0").rstrip(".") + unit
    return str(amount)


def distinct(name: str, left: int, right: int) -> tuple[str, str]:
    """Return two amounts for messages, with enough digits to show their difference."""
    shown = show(name, left), show(name, right)
    return shown if shown[0] != shown[1] else (f"{left / MIB:.0f}Mi", f"{right / MIB:.0f}Mi")


def count(number: int, noun: str) -> str:
    """Return a number with its noun, e.g. ``2 pools``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
