"""Names of a package that load when they are first used.

Each name stands once, in the package's stub ``__init__.pyi``, which type checkers, editors and this module read.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Callable
from typing import Any

_LINE = re.compile(r"^from (\S+) import (\w+) as \2$", re.MULTILINE)
_OF_THE_CDK = ("aws_cdk", "constructs", "jsii", "cdk8s", "cdk8s_plus_28")


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package, from its stub."""
    stub = (pkgutil.get_data(package, "__init__.pyi") or b"").decode()
    homes = {name: home for home, name in _LINE.findall(stub) if not name.startswith("_")}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(_module(homes[name], name), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted({*vars(sys.modules[package]), *homes}), sorted(homes)


def _module(home: str, name: str) -> Any:
    try:
        return importlib.import_module(home)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _OF_THE_CDK:
            raise
        raise ModuleNotFoundError(
            f"{name} needs the AWS CDK: pip install 'gpu-constructs[cdk]'", name=missing.name
        ) from None
