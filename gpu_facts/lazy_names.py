"""Names of a package that load at first use.

Each name is declared once, in the package's stub ``__init__.pyi``. Type checkers, editors and this module read it.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pkgutil
import re
import sys
from collections.abc import Callable
from typing import Any

_LINE = re.compile(r"^from (\S+) import (\w+) as \2$", re.MULTILINE)
_OF_THE_CDK = ("aws_cdk", "constructs", "jsii", "cdk8s", "cdk8s_plus_28")


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, from its stub."""
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
