"""A view as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from functools import cache
from typing import Any

from gpu_preflight.report.finding_view import SHOWN, View

_ATOMS = frozenset((str, int, float, bool, type(None)))


def render(view: View) -> str:
    """Return a view as indented JSON. It is ASCII with escapes, so that no name breaks an encoding."""
    return json.dumps(_as_json(view), indent=2) + "\n"


def _as_json(value: Any) -> Any:
    """Return a value as data for JSON. A dataclass becomes an object with its fields in camelCase."""
    kind = value.__class__
    if kind in _ATOMS:
        return value
    if kind is tuple or kind is list:
        return [_as_json(each) for each in value]
    if kind is dict:
        return {key: _as_json(each) for key, each in value.items()}
    if isinstance(value, Enum):
        return value.value
    return {key: _as_json(getattr(value, name)) for name, key in keys(kind).items()}


@cache
def keys(kind: Any) -> Mapping[str, str]:
    """Return the attributes of a dataclass that an output shows, each with its key, such as ``usdPerHour``."""
    names = SHOWN.get(kind) or [each.name for each in fields(kind)]
    return {name: re.sub(r"_([a-z])", lambda found: found[1].upper(), name) for name in names}
