"""An operator of a mutation: one mistake, made in place."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from tests.mutations.written import Written

Change = Callable[[Written], bool]
# Before a source that is a miss of preflight itself: which inputs, written without looking at its fixtures, showed it.
MEASURED = "measured: "
_ISSUES = ("/issues/", "/pull/")


@dataclass(frozen=True, slots=True)
class Operator:
    """One mistake.

    Attributes:
        id: Its name.
        says: The mistake, in a sentence.
        family: The part of a cluster it is made in.
        source: The people who made it, or the page that states why it is one.
        unseen: Why it cannot be seen before deployment; ``None`` where it can.
        change: Makes it in an input, and says whether there was a place for it.
    """

    id: str
    says: str
    family: str
    source: str
    unseen: str | None
    change: Change

    @property
    def happened(self) -> bool:
        """Whether people made the mistake, or preflight missed it."""
        return self.source.startswith(MEASURED) or any(each in self.source for each in _ISSUES)


def operator(source: str, *, unseen: str | None = None) -> Callable[[Change], Operator]:
    """Make a function an operator: its name is the id, its docstring says the mistake, its module is the family."""

    def make(change: Change) -> Operator:
        family = change.__module__.rsplit(".", 1)[-1].replace("_", " ")
        return Operator(change.__name__, inspect.getdoc(change) or "", family, source, unseen, change)

    return make
