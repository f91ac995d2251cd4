"""Two values as they are written, compared and shown."""

from __future__ import annotations

from typing import Any

from gpu_constructs.preflight.reading.unknown import Unknown

_SHOWN = 60


def plain(value: Any) -> Any:
    """Return a value to compare; one that only deployment knows is its expression."""
    if isinstance(value, Unknown):
        return value.expression
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def differ(before: Any, after: Any) -> bool:
    """Whether two values are written differently."""
    return bool(plain(before) != plain(after))


def moved(name: str, before: Any, after: Any) -> str:
    """Return how a value changes, in one line."""
    return f"{name}: {_shown(before)} -> {_shown(after)}"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict):
        text = ", ".join(f"{key} {_inside(each)}" for key, each in value.items())
    elif isinstance(value, list):
        text = ", ".join(str(plain(each)) for each in value)
    else:
        text = str(plain(value))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _inside(value: Any) -> str:
    return f"({', '.join(str(plain(each)) for each in value)})" if isinstance(value, list) else str(plain(value))
