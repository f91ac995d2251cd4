"""Values of charts, as Helm merges them.

Sources: https://helm.sh/docs/intro/using_helm/, https://fluxcd.io/flux/components/helm/helmreleases/ (2026-11)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpu_facts.light_patterns import regex
from gpu_preflight.reading.embedded import parse_embedded
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, mapping

_INDEX = regex(r"(.+)\[(\d{1,3})\]")
_MAX_INDEX = 100
_DOT = regex(r"(?<!\\)\.")


def read_values(owner: Object, text: Any) -> dict[str, Any]:
    """Return values that are written as a text of YAML."""
    return mapping(parse_embedded(owner.origin.file, text if isinstance(text, (str, Unknown)) else None))


def merged(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """Return values on top of others."""
    both = {
        key: merged(left[key], right[key])
        for key in left.keys() & right.keys()
        if isinstance(left[key], dict) and isinstance(right[key], dict)
    }
    return {**left, **right, **both}


def with_parameter(values: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return values with one more at a path such as ``a.b[0].c``; a dot of a key is written with a backslash."""
    keys = [each.replace("\\.", ".") for each in _DOT.split(path)]
    return _put(values, keys, value)


def _put(values: Mapping[str, Any], keys: list[str], value: Any) -> dict[str, Any]:
    head, rest = keys[0], keys[1:]
    if found := _INDEX.fullmatch(head):
        return {**values, found[1]: _item(values.get(found[1]), int(found[2]), rest, value)}
    return {**values, head: _put(mapping(values.get(head)), rest, value) if rest else value}


def _item(listed: Any, index: int, rest: list[str], value: Any) -> list[Any]:
    found, place = list(listed) if isinstance(listed, list) else [], min(index, _MAX_INDEX)
    found += [{} for _ in range(place + 1 - len(found))]
    found[place] = _put(mapping(found[place]), rest, value) if rest else value
    return found


def typed(value: Any) -> Any:
    """Return a value as ``helm --set`` types it."""
    if not isinstance(value, str):
        return value
    known = {"true": True, "false": False, "null": None}
    return int(value) if re.fullmatch(r"-?(0|[1-9]\d{0,17})", value) else known.get(value, value)
