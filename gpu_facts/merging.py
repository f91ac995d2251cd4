"""Recursive merge of mappings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def _replaced(_: str, __: Any, theirs: Any) -> Any:
    return theirs


def merged(
    values: Mapping[str, Any], more: Mapping[str, Any], *, other: Callable[[str, Any, Any], Any] = _replaced
) -> dict[str, Any]:
    """Return values with others merged into them, mapping by mapping.

    Args:
        values: Existing values.
        more: Values that take precedence.
        other: Function for a key whose values aren't both mappings, called with the key and both values. Default: the
            value of ``more``.
    """
    found = dict(values)
    for key, value in more.items():
        ours = found.get(key)
        if isinstance(ours, Mapping) and isinstance(value, Mapping):
            found[key] = merged(ours, value, other=other)
        else:
            found[key] = other(key, ours, value)
    return found
