"""Rules in CEL that definitions of custom resources hold, asked of a library that the extra ``cel`` installs.

Source: https://kubernetes.io/docs/reference/using-api/cel/ (2026-11)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from typing import Any

from gpu_facts.schemas import Schema, find_schema, find_source
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.versions import is_partly_unknown
from gpu_preflight.schema.dialect import is_open
from gpu_preflight.schema.fields import schema_kind

INSTALL = "pip install 'gpu-constructs[cel]', with Python 3.11 or newer"
_LIBRARY = "cel"
# Asks how an object was before.
_BEFORE = "oldSelf"


def can_ask() -> bool:
    """Whether the library is installed."""
    return find_spec(_LIBRARY) is not None


def has_rules(each: Object) -> bool:
    """Whether rules in CEL are known of an object's kind."""
    source = find_source(schema_kind(each))
    return source is not None and source.rules


def broken_rules(each: Object) -> Iterator[tuple[str, str]]:
    """Yield path and message of each rule that an object breaks; what is known at deployment only breaks none."""
    schema = find_schema(schema_kind(each)) if has_rules(each) and can_ask() else None
    if schema is not None:
        yield from _broken(_apply_defaults(dict(each.content), schema), schema, "")


def _apply_defaults(value: Any, schema: Schema) -> Any:
    """Return a value with the defaults that an API server fills in before it asks, and without what is null."""
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [_apply_defaults(each, items) for each in value]
    if not isinstance(value, dict):
        return value
    fields = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    given = {
        str(key): _apply_defaults(each, fields.get(key) or (others if isinstance(others, Mapping) else {}))
        for key, each in value.items()
        if each is not None
    }
    defaults = {key: each["default"] for key, each in fields.items() if "default" in each and key not in given}
    return {**given, **defaults}


def _broken(value: Any, schema: Schema, path: str) -> Iterator[tuple[str, str]]:
    rules = schema.get("rules")
    if rules and not is_partly_unknown(value) and not _is_filled_in_later(value):
        yield from ((path, message) for rule, message in rules if _BEFORE not in rule and not _holds(rule, value))
    if isinstance(value, list):
        items = schema.get("items") or {}
        for index, each in enumerate(value):
            yield from _broken(each, items, f"{path}[{index}]")
    elif isinstance(value, dict):
        others = schema.get("additionalProperties")
        for key, each in value.items():
            inner = (schema.get("properties") or {}).get(key) or others
            if isinstance(inner, Mapping):
                yield from _broken(each, inner, f"{path}.{key}" if path else key)


def _is_filled_in_later(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return is_open(value) or any(map(_is_filled_in_later, parts))


def _holds(rule: str, value: Any) -> bool:
    """Whether a rule holds; one that ends in an error does not."""
    import cel

    try:
        context = cel.Context(variables={"self": value}, functions={"find": _find, "split": _split})
    except (OverflowError, TypeError, ValueError):
        # A number that no API server holds either, and says so itself.
        return True
    try:
        return _compiled(rule).execute(context) is True
    except (KeyError, RuntimeError, TypeError, ValueError):
        return False


@cache
def _compiled(rule: str) -> Any:
    import cel

    return cel.compile(rule)


def _find(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found.group() if found else ""


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator)
