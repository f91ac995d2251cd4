"""Values that a template takes from the parameter store: ``{{resolve:ssm:name}}``.

Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/dynamic-references-ssm.html (2026-11)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

_REFERENCE = re.compile(r"\{\{resolve:([a-z-]+):([^}]*)\}\}")


def resolve(value: Any, stored: Callable[[str], str]) -> Any:
    """Return a value with every reference replaced.

    Args:
        value: Properties, functions applied.
        stored: Reads a parameter by its name, which may end with a version: ``name:3``.

    Raises:
        ValueError: It refers to another service, which is not played.
    """
    if isinstance(value, Mapping):
        return {key: resolve(each, stored) for key, each in value.items()}
    if isinstance(value, list):
        return [resolve(each, stored) for each in value]
    return _REFERENCE.sub(lambda found: _read(found, stored), value) if isinstance(value, str) else value


def _read(found: re.Match[str], stored: Callable[[str], str]) -> str:
    if found[1] != "ssm":
        raise ValueError(f"dynamic reference {found[0]}: service must be 'ssm', got {found[1]!r}")
    return stored(found[2])
