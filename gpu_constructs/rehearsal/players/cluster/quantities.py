"""Quantities of Kubernetes, as numbers.

Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re
from decimal import Decimal

_UNITS = {
    "": Decimal(1),
    "n": Decimal(10) ** -9,
    "u": Decimal(10) ** -6,
    "m": Decimal(10) ** -3,
    **{unit: Decimal(10) ** (3 * power) for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{f"{unit}i": Decimal(2) ** (10 * power) for power, unit in enumerate(("K", "M", "G", "T", "P", "E"), 1)},
}
_WRITTEN = re.compile(r"([+-]?[0-9.]+)(?:[eE]([+-]?\d+)|([numkKMGTPE]?i?))")


def number(written: object) -> Decimal:
    """Return what a quantity amounts to.

    Raises:
        ValueError: It is none.
    """
    found = _WRITTEN.fullmatch(str(written))
    if found is None or (found[3] or "") not in _UNITS:
        raise ValueError(f"quantity must be a number with a unit of Kubernetes, got {written!r}")
    return Decimal(found[1]) * (Decimal(10) ** int(found[2]) if found[2] else _UNITS[found[3] or ""])
