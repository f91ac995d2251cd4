"""The parts of an app, which find each other by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aws_cdk as cdk

from gpu_constructs import NodeShape


@dataclass
class World:
    """Objects that parts find, and leave for later ones.

    Attributes:
        stack: The stack.
        made: Constructs by their name.
        shapes: Shapes by the name of their pool.
    """

    stack: cdk.Stack
    made: dict[str, Any] = field(default_factory=dict)
    shapes: dict[str, NodeShape] = field(default_factory=dict)

    @property
    def cluster(self) -> Any:
        """The cluster."""
        return self.made["cluster"]


@dataclass(frozen=True)
class Part:
    """A construct of an app.

    Attributes:
        name: Its name, by which other parts find it.
        make: Makes it, or raises what the library raises.
        needs: Names of parts without which it is left out.
        options: The drawn options, for people.
    """

    name: str
    make: Callable[[World], Any]
    needs: tuple[str, ...] = ()
    options: Any = None


def part(
    construct: Callable[..., Any], name: str, given: dict[str, Any] | None = None, needs: tuple[str, ...] = ()
) -> Part:
    """Return a construct that takes the cluster, values, and other parts by their name."""

    def make(world: World) -> Any:
        found = {key: world.made[each] for key, each in _references(given)}
        rest = {key: each for key, each in (given or {}).items() if key not in found}
        return construct(world.stack, name.title(), cluster=world.cluster, **rest, **found)

    return Part(name, make, ("cluster", *needs, *(each for _, each in _references(given))), given)


@dataclass(frozen=True)
class Made:
    """A part that is an argument of another.

    Attributes:
        name: Its name.
    """

    name: str


def _references(given: dict[str, Any] | None) -> list[tuple[str, str]]:
    return [(key, each.name) for key, each in (given or {}).items() if isinstance(each, Made)]
