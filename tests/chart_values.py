"""Whether the values we set exist in a pinned chart, which itself accepts any."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml


def unknown_values(defaults: Path, values: Mapping[str, Any]) -> list[str]:
    """Return the paths of values that the chart's own values file does not have.

    A value that is empty or absent there, such as resources or a claim, may have any keys.
    """
    known = yaml.safe_load(defaults.read_text())
    return [".".join(path) for path in _paths(values) if not _exists(known, path)]


def _paths(values: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(values, Mapping):
        return [path]
    return [found for key, value in values.items() for found in _paths(value, (*path, key))]


def _exists(known: Any, path: tuple[str, ...]) -> bool:
    for key in path:
        if known in ({}, None):
            return True
        if not isinstance(known, Mapping) or key not in known:
            return False
        known = known[key]
    return True
