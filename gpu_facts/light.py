"""Dataclasses, regular expressions, data files and names of packages with a short start-up time.

``dataclasses`` of Python 3.11 compiles up to six methods of each class at import, which took a third of the CPU time of
``check``. This module compiles only ``__init__``. Type checkers see the decorator of the standard library.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import re
import sys
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass", "lazy_names", "read_package_data", "regex"]

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, order=False, **options):
        """Make a class a dataclass. ``frozen`` gives it a hash. Only type checkers reject an assignment.

        Without a check of assignments at run time, the creation of an instance takes half the time.
        """
        # Imported here because packages with lazy names need no dataclass, and it takes 9 ms.
        import dataclasses

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
    import dataclasses

    compared = attrgetter(*(each.name for each in dataclasses.fields(made) if each.compare))

    def equal(self: object, other: object) -> bool:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: object) -> int:
        return hash(compared(self))

    made.__eq__ = equal
    if "__hash__" not in made.__dict__ or made.__dict__["__hash__"] is None:
        made.__hash__ = hashed if frozen else None


def _repr(self: Any) -> str:
    import dataclasses

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


_LINE = regex(r"^from (\S+) import (\w+) as \2$", re.MULTILINE)
_OF_THE_CDK = ("aws_cdk", "constructs", "jsii", "cdk8s", "cdk8s_plus_28")


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, whose names load at first use.

    Each name is declared once, in the stub ``__init__.pyi``. Type checkers, editors and this function read it.
    """
    homes = _homes(package)

    def load(name: str) -> Any:
        if name not in homes:
            raise _unknown(package, name)
        value = getattr(_module(homes[name], name), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted({*vars(sys.modules[package]), *homes}), sorted(homes)


def _homes(package: str) -> dict[str, str]:
    """Return the module of each name, from its stub. A package without a stub exports nothing.

    ``pkgutil.get_data`` would load a package that isn't imported yet, and wouldn't set it as an attribute of its
    parent. A later ``import gpu_constructs.teams`` finds the loaded module and doesn't set the attribute either.
    """
    spec: Any = importlib.util.find_spec(package)
    try:
        stub = spec.loader.get_data(os.path.join(spec.submodule_search_locations[0], "__init__.pyi")).decode()
    except OSError:
        return {}
    return {name: home for home, name in _LINE.findall(stub) if not name.startswith("_")}


def _unknown(package: str, name: str) -> Exception:
    """Return the error for a name that a package doesn't have, with the folder or the spelling that exists."""
    here = importlib.import_module(package).__path__
    folders = [each.name for each in pkgutil.iter_modules(here, f"{package}.") if each.ispkg] if name[:1] != "_" else []
    for folder in folders:
        if name in _homes(folder):
            return ImportError(f"{name} is one folder down: from {folder} import {name}", name=package)
    # Not for names that are only similar, because apps use hasattr() to test whether a release has a name.
    for known in _homes(package):
        if known.lower() == name.lower():
            return ImportError(f"cannot import name {name!r} from {package!r}; did you mean {known!r}?", name=package)
    return AttributeError(f"module {package!r} has no attribute {name!r}")


def _module(home: str, name: str) -> Any:
    try:
        return importlib.import_module(home)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _OF_THE_CDK:
            raise
        raise ModuleNotFoundError(
            f"{name} needs the AWS CDK: pip install 'gpu-constructs[cdk]'", name=missing.name
        ) from None
