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

    def dataclass(cls=None, /, *, order=False, **options):
        """Make a class a dataclass. ``frozen`` gives it a hash.

        Only type checkers reject an assignment, and only they see slots. Without a check at run time, the creation of
        an instance takes half the time. Few classes have instances in a run, so the first one compiles ``__init__``.
        """
        if cls is None:
            return lambda each: dataclass(each, order=order, **options)
        if order:
            # Imported here because packages with lazy names need no dataclass, and it takes 9 ms.
            import dataclasses

            return dataclasses.dataclass(order=order, **options)(cls)
        kw_only = options.get("kw_only", False)
        fields = _collect_fields(cls, kw_only)
        if "__init__" not in cls.__dict__:
            cls.__init__ = _AtFirstUse(cls, "__init__", lambda: _add_init(cls, fields))
        for name in _READ_BY_THE_LIBRARY:
            setattr(cls, name, _AtFirstUse(cls, name, lambda: _add_library_fields(cls, fields, kw_only)))
        if "__eq__" not in cls.__dict__:
            _compare_fields(cls, fields, options.get("frozen", False))
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = _repr
        return cls


# Attributes that functions of the standard library read, such as `dataclasses.replace`.
_READ_BY_THE_LIBRARY = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
# Attribute of a class: the default of each field, and whether it is keyword-only.
_FIELDS = "_light_fields"
_Fields = dict[str, tuple[Any, bool]]


class _AtFirstUse:
    """An attribute of a class. The first use calls a function that sets the attribute."""

    def __init__(self, home: type, name: str, add: Callable[[], None]) -> None:
        self._home, self._name, self._add = home, name, add

    def __get__(self, instance: object, owner: type) -> Any:
        self._add()
        # From the class itself: a subclass that calls super().__init__() has another one.
        value = vars(self._home)[self._name]
        return value.__get__(instance, owner) if hasattr(value, "__get__") else value


def _collect_fields(cls: Any, kw_only: bool) -> _Fields:
    """Return the fields of a class and of its bases, and store them in the class.

    Raises:
        TypeError: A field or a base needs the dataclass of the standard library.
    """
    from dataclasses import MISSING, Field
    from inspect import get_annotations

    fields: _Fields = {}
    for base in reversed(cls.__mro__[1:]):
        if "__dataclass_fields__" in vars(base) and _FIELDS not in vars(base):
            raise TypeError(f"{cls.__name__}: bases must be dataclasses of this module, got {base.__name__}")
        fields |= vars(base).get(_FIELDS, {})
    for name, annotation in get_annotations(cls).items():
        if not isinstance(annotation, str) or annotation.startswith(("ClassVar", "InitVar", "KW_ONLY")):
            raise TypeError(f"{cls.__name__}: annotation of {name} must be a type as text, got {annotation!r}")
        given = cls.__dict__.get(name, MISSING)
        fields[name] = given, kw_only
        if isinstance(given, Field):
            if given.kw_only is not MISSING or (not given.init and given.default_factory is not MISSING):
                raise TypeError(f"{cls.__name__}: field {name} must not set kw_only, or a factory without init")
            # As in the standard library, so that a field without a value is an AttributeError.
            if given.default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, given.default)
    setattr(cls, _FIELDS, fields)
    return fields


def _add_init(cls: Any, fields: _Fields) -> None:
    """Compile ``__init__``. The standard library takes four times as long for it.

    ``a: int``, ``b: int = 1`` and ``c: dict = field(default_factory=dict)`` become::

        def __init__(self, a, b=default_b, c=MISSING):
            self.a = a
            self.b = b
            self.c = default_c() if c is MISSING else c
    """
    from dataclasses import MISSING, Field

    values: dict[str, Any] = {"MISSING": MISSING}
    parameters: dict[bool, list[str]] = {False: [], True: []}
    lines = []
    for name, (given, kw_only) in fields.items():
        parameter, value, default = name, name, given
        if isinstance(given, Field):
            if not given.init:
                continue
            default = given.default
            if given.default_factory is not MISSING:
                values[f"default_{name}"] = given.default_factory
                parameter, value = f"{name}=MISSING", f"default_{name}() if {name} is MISSING else {name}"
        if default is not MISSING:
            values[f"default_{name}"] = default
            parameter = f"{name}=default_{name}"
        parameters[kw_only].append(parameter)
        lines.append(f"    self.{name} = {value}\n")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()\n")
    keywords = ["*", *parameters[True]] if parameters[True] else []
    head = ", ".join(("self", *parameters[False], *keywords))
    exec(f"def __init__({head}):\n{''.join(lines) or '    pass'}", values)
    made = values["__init__"]
    made.__module__, made.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    cls.__init__ = made


def _add_library_fields(cls: Any, fields: _Fields, kw_only: bool) -> None:
    """Set the attributes that the standard library reads. It makes them for a copy of the class."""
    import dataclasses
    from inspect import get_annotations

    left_out = ("__dict__", "__weakref__")
    own = {key: each for key, each in vars(cls).items() if key not in left_out and not isinstance(each, _AtFirstUse)}
    own |= {name: fields[name][0] for name in get_annotations(cls) if fields[name][0] is not dataclasses.MISSING}
    # The library would write the signature into an empty docstring.
    copy = type(cls)(cls.__name__, cls.__bases__, own | {"__doc__": "Copy."})
    dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(copy)
    for name in _READ_BY_THE_LIBRARY:
        setattr(cls, name, getattr(copy, name))


def _compare_fields(cls: Any, fields: _Fields, frozen: bool) -> None:
    """Set ``__eq__`` and ``__hash__``, which read the compared fields."""
    from dataclasses import Field

    left_out = {name for name, (given, _) in fields.items() if isinstance(given, Field) and not given.compare}
    compared = attrgetter(*(name for name in fields if name not in left_out))

    def equal(self: object, other: object) -> bool:
        """Compare the fields of two instances of one class."""
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    def field_hash(self: object) -> int:
        """Return the hash of the compared fields."""
        return hash(compared(self))

    cls.__eq__ = equal
    if "__hash__" not in cls.__dict__ or cls.__dict__["__hash__"] is None:
        cls.__hash__ = field_hash if frozen else None


def _repr(self: Any) -> str:
    import dataclasses

    shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({shown})"


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
        """Import the module of a name, and keep the name in the package."""
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
