"""What a planted fault is: one change of an app, or of the second version of one, and what a report should name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.rehearsal.faults.assembly import CloudAssembly

Change = Callable[[CloudAssembly], None]
PairChange = Callable[[CloudAssembly, CloudAssembly], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """What is known of a fault.

    Attributes:
        id: Its name.
        description: The fault, in a sentence.
        consequence: What happens on AWS.
        cause: Patterns. A line of a report names the cause if it contains each of them.
        changes: Types of the resources, or kinds of the objects, that differ.
        source: Where the consequence is documented.
    """

    id: str
    description: str
    consequence: str
    cause: tuple[str, ...]
    changes: frozenset[str]
    source: str

    def is_named_in(self, line: str) -> bool:
        """Whether a line of a report names the cause."""
        return all(re.search(each, line, re.IGNORECASE | re.DOTALL) for each in self.cause)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault(Described):
    """A fault of an app that is deployed for the first time.

    Attributes:
        change: Plants it.
    """

    change: Change


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair(Described):
    """A second deployment that fails, loses something or leaves something running.

    Attributes:
        change: Edits the old and the new version.
        app: Name of the app that both are versions of.
    """

    change: PairChange
    app: str


def fault(*, consequence: str, cause: tuple[str, ...], changes: str, source: str) -> Callable[[Change], Fault]:
    """Make a function a fault: its name is the id, its docstring the description."""

    def make(change: Change) -> Fault:
        return Fault(
            id=change.__name__.replace("_", "-"),
            description=inspect.getdoc(change) or "",
            consequence=consequence,
            cause=cause,
            changes=frozenset(changes.split()),
            source=source,
            change=change,
        )

    return make


def pair(
    *, consequence: str, cause: tuple[str, ...], changes: str, source: str, app: str = "mine"
) -> Callable[[PairChange], Pair]:
    """Make a function a pair: its name is the id, its docstring the description."""

    def make(change: PairChange) -> Pair:
        return Pair(
            id=change.__name__.replace("_", "-"),
            description=inspect.getdoc(change) or "",
            consequence=consequence,
            cause=cause,
            changes=frozenset(changes.split()),
            source=source,
            change=change,
            app=app,
        )

    return make
