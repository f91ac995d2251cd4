"""Planted faults: one change of an app, or of its second version, with the cause that a report should name."""

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
    """A planted fault, its consequence and its source.

    Attributes:
        id: Its name.
        description: The fault, in a sentence.
        consequence: The effect on AWS or in the cluster.
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
        change: Function that plants it.
    """

    change: Change


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair(Described):
    """A second deployment that fails, loses something or leaves something running.

    Attributes:
        change: Function that edits the old and the new version.
        app: Name of the app.
    """

    change: PairChange
    app: str


def fault(*, consequence: str, cause: tuple[str, ...], changes: str, source: str) -> Callable[[Change], Fault]:
    """Turn a function into a fault. Its name is the id, and its docstring is the description."""

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
    """Turn a function into a pair. Its name is the id, and its docstring is the description."""

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
