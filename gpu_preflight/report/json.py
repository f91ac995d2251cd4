"""A view as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from functools import cache
from typing import Any

from gpu_facts.light import read_package_data
from gpu_preflight.report.finding_view import SHOWN, View


def render(view: View) -> str:
    """Return a view as indented JSON; characters beyond ASCII are escaped, so that no name breaks an encoding."""
    return json.dumps(view, indent=2, default=_as_json) + "\n"


def _as_json(value: Any) -> Any:
    """Return a value as one that JSON has: a dataclass as an object with its fields in camelCase."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    return {_key(name): getattr(value, name) for name in shown(type(value))}


def shown(kind: type) -> tuple[str, ...]:
    """Return the attributes of a dataclass that an output shows."""
    if kind not in SHOWN:
        SHOWN[kind] = tuple(each.name for each in fields(kind))
    return SHOWN[kind]


@cache
def _key(name: str) -> str:
    """Return the key of an attribute: ``usdPerHour`` of ``usd_per_hour``."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def schema() -> str:
    """Return the JSON schema of what `render` returns."""
    return read_package_data("gpu_preflight.report", "schema.json").decode()
