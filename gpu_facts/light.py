"""Dataclasses, regular expressions and data files with a short start-up time, for the command line.

``dataclasses`` of Python 3.11 compiles up to six methods of each class at import, which took a third of the CPU time of
``check``. This module compiles only ``__init__``. Type checkers see the decorator of the standard library.
"""

from __future__ import annotations

import dataclasses
import pkgutil
import re
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass", "read_package_data", "regex"]

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, order=False, **options):
        """Make a class a dataclass. ``frozen`` gives it a hash. Only type checkers reject an assignment.

        Without a check of assignments at run time, the creation of an instance takes half the time.
        """
        if cls is None:
            return lambda each: dataclass(each, frozen=frozen, order=order, **options)
        if order:
            return dataclasses.dataclass(frozen=frozen, order=order, **options)(cls)
        made = dataclasses.dataclass(repr=False, eq=False, **options)(cls)
        if "__eq__" not in cls.__dict__:
            _compare_fields(made, frozen)
        if "__repr__" not in cls.__dict__:
            made.__repr__ = _repr
        return made


def _compare_fields(made: Any, frozen: bool) -> None:
    compared = attrgetter(*(each.name for each in dataclasses.fields(made) if each.compare))

    def equal(self: object, other: object) -> bool:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: object) -> int:
        return hash(compared(self))

    made.__eq__ = equal
    if "__hash__" not in made.__dict__ or made.__dict__["__hash__"] is None:
        made.__hash__ = hashed if frozen else None


def _repr(self: Any) -> str:
    said = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({said})"


if TYPE_CHECKING:
    from re import compile as regex
else:

    class regex:
        """A regular expression that is compiled at its first use."""

        def __init__(self, pattern: str, flags: int = 0) -> None:
            self._said = pattern, flags

        def __getattr__(self, name: str) -> Any:
            """Return an attribute of the compiled expression, and cache the expression."""
            value = getattr(re.compile(*self._said), name)
            setattr(self, name, value)
            return value


def read_package_data(package: str, name: str) -> bytes:
    """Return a file of a package. It doesn't import ``importlib.resources``, which takes 7 ms.

    Raises:
        FileNotFoundError: The package has no such file.
    """
    data = pkgutil.get_data(package, name)
    if data is None:
        raise FileNotFoundError(f"{package} has no {name}")
    return data
