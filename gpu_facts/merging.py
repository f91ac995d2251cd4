"""Values laid over others, mapping by mapping."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def _replaced(_: str, __: Any, theirs: Any) -> Any:
    return theirs


def merged(
    values: Mapping[str, Any], more: Mapping[str, Any], *, other: Callable[[str, Any, Any], Any] = _replaced
) -> dict[str, Any]:
    """Return values with others laid over them, mapping by mapping.

    Args:
        values: What is there.
        more: What is laid over it.
        other: What becomes of a key whose two values are no mappings both, by key and values. Default: the value that
            is laid over.
    """
    found = dict(values)
    for key, value in more.items():
        ours = found.get(key)
        if isinstance(ours, Mapping) and isinstance(value, Mapping):
            found[key] = merged(ours, value, other=other)
        else:
            found[key] = other(key, ours, value)
    return found
