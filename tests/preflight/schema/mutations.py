"""A value with one field of it changed."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

Path = tuple[str | int, ...]
# Next to these, one field is removed and another is added.
_INSTEAD: tuple[Any, ...] = ("Bogus", -7, 10**9, True, [], {}, ["x"], {"x": "y"}, "x" * 300)


def mutants(value: Any, random: Random, count: int) -> Iterator[tuple[Path, Any]]:
    """Yield a value with one field of it changed each time, and where."""
    places = [each for each in _places(value) if each]
    for _ in range(count):
        place = random.choice(places)
        changed = copy.deepcopy(value)
        holder = changed
        for step in place[:-1]:
            holder = holder[step]
        _change(holder, place[-1], random)
        yield place, changed


def _places(value: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    pairs: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in pairs:
        yield from _places(each, (*path, key))


def _change(holder: Any, key: Any, random: Random) -> None:
    how = random.randrange(4)
    if how == 0 and isinstance(holder, dict):
        del holder[key]
    elif how == 1 and isinstance(holder, dict):
        holder[f"{key}x"] = holder.pop(key)
    elif how == 2 and isinstance(holder[key], str):
        holder[key] = random.choice((holder[key].swapcase(), holder[key][:-1], f"{holder[key]}s"))
    else:
        holder[key] = random.choice(_INSTEAD)
