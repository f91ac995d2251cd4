"""Places for what a cluster has once, whoever comes first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from constructs import Construct

_Made = TypeVar("_Made")
_Asker = TypeVar("_Asker", bound=Hashable)


@dataclass(frozen=True, eq=False, slots=True)
class Applied:
    """What was applied to a cluster.

    Attributes:
        construct: What applies it.
        manifests: The objects.
    """

    construct: Construct
    manifests: Sequence[Mapping[str, Any]]


class Once(Generic[_Made]):
    """What is made at most once, by the first who needs it."""

    def __init__(self) -> None:
        self._made: _Made | None = None

    @property
    def made(self) -> _Made | None:
        """What was made; ``None`` until then."""
        return self._made

    def get_or_make(self, make: Callable[[], _Made]) -> _Made:
        """Return what was made, or else make it."""
        if self._made is None:
            self._made = make()
        return self._made


class Meeting(Generic[_Asker]):
    """One who serves and many who ask, in whatever order they come. Who asks twice is served once."""

    def __init__(self) -> None:
        self._askers: dict[_Asker, None] = {}
        self._serve: Callable[[_Asker], None] | None = None

    def ask(self, asker: _Asker) -> None:
        """Have somebody served: now, or when the one who serves has come."""
        if asker not in self._askers:
            self._askers[asker] = None
            if self._serve is not None:
                self._serve(asker)

    def serve(self, serve: Callable[[_Asker], None]) -> None:
        """Call ``serve`` for each who asks, those who came before and those who come after."""
        self._serve = serve
        for asker in tuple(self._askers):
            serve(asker)
