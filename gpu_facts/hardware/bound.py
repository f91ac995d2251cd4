"""A figure and how others must compare to it, in the words of a command line, e.g. ``>=80``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

from gpu_facts.light import dataclass, regex

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
    "": operator.eq,
}
_BOUND = regex(r"\s*(>=|<=|>|<|=|)\s*(\d{1,9}(?:\.\d{1,6})?)\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Bound:
    """A figure and how another compares to it.

    Attributes:
        sign: ``>=``, ``>``, ``=``, ``<=``, ``<``; empty is ``=``.
        amount: The figure.
    """

    sign: str
    amount: float

    @classmethod
    def parse(cls, text: str) -> Bound:
        """Read a bound, e.g. ``>=80``.

        Raises:
            ValueError: The text is no bound.
        """
        found = _BOUND.fullmatch(text)
        if not found:
            raise ValueError(f"must be a number, with >=, >, =, <= or < before it, got {text!r}")
        return cls(found.group(1), float(found.group(2)))

    def holds(self, amount: float | None) -> bool:
        """Whether a figure keeps the bound; one that no source states keeps none."""
        return amount is not None and _OPERATORS[self.sign](amount, self.amount)
