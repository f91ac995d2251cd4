"""How a service reads what is written: what counts as a number, and what as nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from gpu_facts.light import dataclass, regex
from gpu_preflight.reading.unknown import Unknown, known_number

# Placeholders of the programs that people fill in templates with.
_FILLED_IN = regex(r"\$\{|\{\{|\$\(|\$[A-Za-z_]|<[A-Za-z_ .-]+>|PLACEHOLDER|REPLACE_?|CHANGE_?ME|YOUR_|__[A-Z]")
_FUNCTION = "Fn::"
_DECIMAL = regex(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a service reads values.

    Attributes:
        types: Whether a value is read as one of a type, by the type's name in JSON Schema.
        empty_is_absent: Whether an empty text is read as if the field were not there.
        closed: Whether a field that a schema of fields does not name is one that the service does not know.
        reader: Who reads them, as messages call it.
    """

    types: Mapping[str, Callable[[Any], bool]]
    empty_is_absent: bool = False
    closed: bool = False
    reader: str = "the service"

    def is_absent(self, value: Any) -> bool:
        """Whether a field with a value is as good as not there."""
        return value is None or (self.empty_is_absent and value == "")


def is_open(value: Any) -> bool:
    """Whether a value is known at deployment only, or filled in by another program before."""
    if isinstance(value, dict):
        return any(map(is_open_key, value)) and len(value) == 1
    return isinstance(value, Unknown) or (isinstance(value, str) and _FILLED_IN.search(value) is not None)


def is_open_key(key: Any) -> bool:
    """Whether what a key brings is known at deployment only: a function of a template, or a name filled in."""
    return is_open(key) or str(key).startswith(_FUNCTION)


def parse_number(value: Any) -> float | int | None:
    """Return a number that is written as one or as text, ``None`` for anything else."""
    whole = known_number(value)
    if whole is not None or isinstance(value, bool):
        return whole
    if isinstance(value, (int, float)):
        return value
    return float(value) if isinstance(value, str) and _DECIMAL.fullmatch(value) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


_STRUCTURES: dict[str, Callable[[Any], bool]] = {
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}
# CloudFormation reads scalars of every spelling: "3" is a number, true a text.
# Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/parameters-section-structure.html (2026-11)
CLOUDFORMATION = Dialect(
    types={
        **_STRUCTURES,
        "string": lambda value: isinstance(value, (str, int, float)),
        "integer": lambda value: parse_number(value) is not None,
        "number": lambda value: parse_number(value) is not None,
        "boolean": lambda value: isinstance(value, bool) or str(value).lower() in ("true", "false"),
    },
)
_STRICT: dict[str, Callable[[Any], bool]] = {
    **_STRUCTURES,
    "string": lambda value: isinstance(value, str),
    "integer": _is_whole,
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
}
# An API server decodes its own objects into Go's types, in which an empty text is none.
KUBERNETES = Dialect(types=_STRICT, empty_is_absent=True, closed=True)
# Of a custom resource it asks the definition.
CUSTOM_RESOURCE = Dialect(types=_STRICT, closed=True)
# Values of charts have no types that are known.
CHART = Dialect(types={}, closed=True)
# eksctl makes a text of a scalar where it wants one, and nothing else of a text.
# Source: kubernetes-sigs/yaml v1.6.0 yaml.go convertToJSONableObject (2026-11)
EKSCTL = Dialect(types=_STRICT | {"string": CLOUDFORMATION.types["string"]}, closed=True, reader="eksctl")
