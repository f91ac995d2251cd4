"""Finds where a value breaks a schema: the part of JSON Schema that CloudFormation and Kubernetes use.

Values that are known at deployment only are never wrong.
Source: https://json-schema.org/draft-07/json-schema-validation.html (2026-11)
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import SequenceMatcher
from functools import cache
from typing import Any, Literal

from gpu_facts.light import dataclass, regex
from gpu_facts.refusals import near
from gpu_facts.schemas import Schema
from gpu_preflight.reading.unknown import Unknown, known_number
from gpu_preflight.reading.versions import is_partly_unknown

FaultKind = Literal["value", "unknown", "missing"]
# Max number of words in a listed choice, so that it fits on a line.
_LISTED = 8
_LONGEST = 60
# Words, and numbers in them: AL2023_x86_64, WhenEmpty, on-demand.
_PARTS = regex(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_CLOSE = 0.7
# Placeholders of programs that render templates.
_FILLED_IN = regex(r"\$\{|\{\{|\$\(|\$[A-Za-z_]|<[A-Za-z_ .-]+>|PLACEHOLDER|REPLACE_?|CHANGE_?ME|YOUR_|__[A-Z]")
_FUNCTION = "Fn::"
_DECIMAL = regex(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "a mapping",
    "string": "a string",
}
# Frequent patterns in words. The pattern of quantities begins like this in every version.
_PATTERNS = {
    "^(([0-9]+(s|m|h))+|Never)$": "be a duration of hours, minutes or seconds, such as 720h, or Never",
    "^([0-9]+(s|m|h))+$": "be a duration of hours, minutes or seconds, such as 48h",
    "^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$": "be a duration of hours and minutes, such as 8h30m",
    "^((100|[0-9]{1,2})%|[0-9]+)$": "be a number or a percentage, such as 2 or 10%",
}
_QUANTITY = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
_MAX_TEXT, _MAX_TEXT_FOR_SLOW_PATTERNS = 1_000, 30
_FORMS = frozenset(("allOf", "anyOf", "if", "not", "oneOf"))
_OF_FIELDS = frozenset(
    (
        "required",
        "requiredXor",
        "requiredOr",
        "dependentRequired",
        "dependentExcluded",
        "minProperties",
        "maxProperties",
    )
)
# An index into a list.
_KEY_OF_LIST = "[{}]"


@dataclass(frozen=True, slots=True)
class Fault:
    """A field that a service rejects as it is written.

    Attributes:
        kind: Whether its value is wrong, the service doesn't have the field, or it is missing.
        path: Its path, e.g. ``spec.template.spec.taints[0].effect``; empty for the whole value.
        rule: The rule for its value, after "must". For a missing or unknown field, the text after its name.
        got: Its value as it is written.
        nearest: The right value or field that the user most likely meant.
        newer: Whether the service may accept it in a version newer than the schema.
    """

    kind: FaultKind
    path: str
    rule: str
    got: Any = None
    nearest: str | None = None
    newer: bool = False

    @property
    def text(self) -> str:
        """The fault in one line."""
        hint = f"; did you mean {self.nearest!r}?" if self.nearest is not None else ""
        if self.kind == "value":
            hint = hint or self._quotes_hint
            return f"{self.path or 'it'} must {self.rule}, got {_format_value(self.got)}{hint}"
        return f"{self.path} {self.rule}{hint}"

    @property
    def _quotes_hint(self) -> str:
        """The fix if only the quotes of the value are wrong; empty otherwise."""
        if self.rule == f"be {_TYPES['string']}" and isinstance(self.got, (int, float)):
            return "; write it in quotes"
        kinds = [each for each in ("integer", "number", "boolean") if self.rule == f"be {_TYPES[each]}"]
        if isinstance(self.got, str) and any(CLOUDFORMATION.types[each](self.got) for each in kinds):
            return "; write it without quotes"
        return ""


def _format_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def choice_rule(words: Iterable[Any]) -> str:
    """Return a choice in words. A long choice is a number."""
    listed = [str(each) or "''" for each in words]
    return f"be one of {', '.join(listed)}" if len(listed) <= _LISTED else f"be one of {len(listed)} known values"


def meant(text: Any, words: Iterable[Any]) -> str | None:
    """Return the word that was most likely meant: with other case or separators, or with nearly the same spelling."""
    if not isinstance(text, str):
        return None
    known = [each for each in words if isinstance(each, str) and each]
    plain = _plain(text)
    return next((each for each in known if _plain(each) == plain), None) or near(text, known, closeness=_CLOSE)


def is_slip(text: Any, word: str | None) -> bool:
    """Whether a word can only be a typo for a known word, and not a word that a service adds later.

    New words are longer than earlier ones, or have an additional part: ``AL2023_x86_64_NEURON`` was added after
    ``AL2023_x86_64_NVIDIA``, and both after ``AL2023_x86_64``.
    """
    if not isinstance(text, str) or word is None:
        return False
    if _plain(text) == _plain(word):
        return True
    parts, known = _parts(text), _parts(word)
    if len(parts) == len(known):
        return _are_typos(parts, known)
    rest = iter(known)
    return len(parts) > 1 and all(each in rest for each in parts)


def is_typo(text: str, word: str) -> bool:
    """Whether a name can only be another name with different letters in one word."""
    return _plain(text) == _plain(word) or _are_typos(_parts(text), _parts(word))


def is_slip_for_one(text: str, words: Iterable[str]) -> bool:
    """Whether a name can only be a typo for the nearest of some words."""
    nearest = near(text, words)
    return nearest is not None and is_typo(text, nearest)


def _plain(word: str) -> str:
    return "".join(each for each in word.lower() if each.isalnum())


def _parts(word: str) -> list[str]:
    return [each.lower() for each in _PARTS.findall(word)]


def _are_typos(text: list[str], words: list[str]) -> bool:
    return len(text) == len(words) and all(map(_is_typo, text, words))


def _is_typo(text: str, word: str) -> bool:
    if text.isdigit() or word.isdigit():
        return text == word
    return text == word or SequenceMatcher(None, text, word).ratio() >= _CLOSE


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a service reads values.

    Attributes:
        types: Whether a value has a type, by the type's name in JSON Schema.
        empty_is_absent: Whether an empty text counts as a missing field.
        closed: Whether the service rejects a field that a schema with fields doesn't name.
        reader: Name of the service in messages.
    """

    types: Mapping[str, Callable[[Any], bool]]
    empty_is_absent: bool = False
    closed: bool = False
    reader: str = "its API"

    def is_absent(self, value: Any) -> bool:
        """Whether a field with this value counts as missing."""
        return value is None or (self.empty_is_absent and value == "")


def is_open(value: Any) -> bool:
    """Whether a value is known at deployment only, or set earlier by another program."""
    if isinstance(value, dict):
        return any(map(is_open_key, value)) and len(value) == 1
    return isinstance(value, Unknown) or (isinstance(value, str) and _FILLED_IN.search(value) is not None)


def is_open_key(key: Any) -> bool:
    """Whether the content of a key is known at deployment only: a function of a template, or a rendered name."""
    return is_open(key) or str(key).startswith(_FUNCTION)


def parse_number(value: Any) -> float | int | None:
    """Return a number that is written as a number or as text; ``None`` for anything else."""
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
# CloudFormation accepts scalars in every notation: "3" is a number, true a text.
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
# An API server decodes its own objects into Go types, where an empty text is a missing one.
KUBERNETES = Dialect(types=_STRICT, empty_is_absent=True, closed=True)
# For a custom resource, it uses the definition.
CUSTOM_RESOURCE = Dialect(types=_STRICT, closed=True)
# The types of chart values aren't known.
CHART = Dialect(types={}, closed=True)
# eksctl converts a scalar to text if the field is a text. It doesn't convert a text to another type.
# Source: kubernetes-sigs/yaml v1.6.0 yaml.go convertToJSONableObject (2026-11)
EKSCTL = Dialect(types=_STRICT | {"string": CLOUDFORMATION.types["string"]}, closed=True, reader="eksctl")


class Judge:
    """Checks values as one service reads them.

    Attributes:
        dialect: How the service reads them.
    """

    def __init__(self, dialect: Dialect) -> None:
        """Store the dialect of the service."""
        self.dialect = dialect

    def faults(self, value: Any, schema: Schema, path: str = "") -> Iterator[Fault]:
        """Yield where a value breaks a schema."""
        if self.dialect.is_absent(value) or is_open(value):
            return
        wrong_type = self._wrong_type(value, schema, path)
        if wrong_type:
            yield wrong_type
            return
        if not _FORMS.isdisjoint(schema):
            yield from self._check_composition(value, schema, path)
        if isinstance(value, dict):
            yield from self._check_mapping(value, schema, path)
        elif isinstance(value, list):
            yield from self._check_list(value, schema, path)
        else:
            yield from self._check_scalar(value, schema, path)

    def _wrong_type(self, value: Any, schema: Schema, path: str) -> Fault | None:
        kinds = schema.get("type")
        if kinds is None:
            return None
        listed = [kinds] if isinstance(kinds, str) else kinds
        if any(self.dialect.types[each](value) for each in listed):
            return None
        return Fault("value", path, f"be {' or '.join(_TYPES[each] for each in listed)}", value)

    def _check_scalar(self, value: Any, schema: Schema, path: str) -> Iterator[Fault]:
        yield from _check_enum(value, schema, path)
        number = parse_number(value)
        if number is not None and not (isinstance(value, str) and _is_text(schema)):
            yield from (Fault("value", path, rule, value) for rule in _check_number(number, schema))
        # YAML reads 1.30 as 1.3. A service that reads the text keeps 1.30.
        if isinstance(value, str) or (_is_text(schema) and not isinstance(value, float)):
            yield from (Fault("value", path, rule, value) for rule in _check_text(_scalar(value), schema))

    def _check_list(self, value: list[Any], schema: Schema, path: str) -> Iterator[Fault]:
        if not any(isinstance(each, Unknown) for each in value):
            yield from (Fault("value", path, rule, value) for rule in _check_length(value, schema, "Items", "items"))
        if schema.get("uniqueItems") and (twice := _twice(value)) is not None:
            yield Fault("value", path, "contain each item once", twice)
        items = schema.get("items")
        if isinstance(items, Mapping):
            for index, each in enumerate(value):
                yield from self.faults(each, items, f"{path}{_KEY_OF_LIST.format(index)}")

    def _check_mapping(self, value: dict[str, Any], schema: Schema, path: str) -> Iterator[Fault]:
        if not _OF_FIELDS.isdisjoint(schema) and not any(map(is_open_key, value)):
            given = {key: each for key, each in value.items() if not self.dialect.is_absent(each)}
            yield from (replace(each, path=_inside(path, each.path)) for each in _check_fields(given, schema))
            yield from (
                Fault("value", path, rule, value) for rule in _check_length(given, schema, "Properties", "entries")
            )
        for key, each in value.items():
            yield from self.field(str(key), each, schema, path)

    def field(self, key: str, value: Any, schema: Schema, path: str = "") -> Iterator[Fault]:
        """Yield where a field of a mapping breaks the mapping's schema."""
        inner = self._field_schema(key, schema)
        if inner is None and value is not None and not is_open_key(key):
            yield self._unknown_field(key, schema.get("properties") or {}, path)
        elif isinstance(inner, Mapping):
            yield from self.faults(value, inner, _inside(path, key))

    def _unknown_field(self, key: str, fields: Iterable[str], path: str) -> Fault:
        nearest, rule = meant(key, fields), f"isn't a field that {self.dialect.reader} accepts"
        return Fault("unknown", _inside(path, key), rule, None, nearest, not is_slip(key, nearest))

    def _field_schema(self, key: str, schema: Schema) -> Schema | bool | None:
        """Return the schema of a field; ``None`` if there is none with its name."""
        fields = schema.get("properties") or {}
        if key in fields:
            found: Schema = fields[key]
            return found
        for pattern, each in (schema.get("patternProperties") or {}).items():
            if _search(pattern, key):
                return dict(each)
        others = schema.get("additionalProperties")
        if others is False or (others is None and fields and self.dialect.closed and not schema.get("open")):
            return None
        return others if isinstance(others, Mapping) else True

    def _check_composition(self, value: Any, schema: Schema, path: str) -> Iterator[Fault]:
        for each in schema.get("allOf", ()):
            yield from self.faults(value, each, path)
        if "if" in schema and not is_partly_unknown(value):
            branch = schema.get("else" if self._breaks(value, schema["if"]) else "then")
            yield from self.faults(value, branch, path) if branch else ()
        for word in ("anyOf", "oneOf"):
            if word in schema and all(self._breaks(value, each) for each in schema[word]):
                yield from self._nearest_form(value, schema[word], path)
        if is_partly_unknown(value):
            return
        if "oneOf" in schema and sum(not self._breaks(value, each) for each in schema["oneOf"]) > 1:
            yield Fault("value", path, "match exactly one of its forms", value)
        if "not" in schema and not self._breaks(value, schema["not"]):
            yield Fault("value", path, "not match that form", value)

    def _breaks(self, value: Any, schema: Schema) -> bool:
        return next(self.faults(value, schema), None) is not None

    def _nearest_form(self, value: Any, forms: Iterable[Schema], path: str) -> Iterator[Fault]:
        yield from min((list(self.faults(value, each, path)) for each in forms), key=len)


def _is_text(schema: Schema) -> bool:
    return schema.get("type") == "string"


def _inside(path: str, key: str) -> str:
    return f"{path}.{key}" if path and key else path or key


def _check_enum(value: Any, schema: Schema, path: str) -> Iterator[Fault]:
    words = schema.get("enum") or schema.get("enumOfAnyCase")
    if words is None:
        words = [schema["const"]] if "const" in schema else None
    if words is None:
        return
    word = _scalar(value).lower() if "enumOfAnyCase" in schema else _scalar(value)
    if word not in [_scalar(each).lower() if "enumOfAnyCase" in schema else _scalar(each) for each in words]:
        nearest = meant(value, words)
        yield Fault(
            "value", path, choice_rule(words), value, nearest, newer=not _is_surely_wrong(value, nearest, words)
        )


def _is_surely_wrong(value: Any, nearest: str | None, words: list[Any]) -> bool:
    """Whether a service can't have added a word later. YAML reads OFF as a boolean, other services as a word."""
    if isinstance(value, bool):
        return not any(str(each).lower() in ("on", "off", "yes", "no", "y", "n") for each in words)
    return not isinstance(value, str) or is_slip(value, nearest)


def _scalar(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_number(number: float, schema: Schema) -> Iterator[str]:
    if "minimum" in schema and number < schema["minimum"]:
        yield f"be at least {schema['minimum']}"
    if "maximum" in schema and number > schema["maximum"]:
        yield f"be at most {schema['maximum']}"
    if "exclusiveMinimum" in schema and number <= schema["exclusiveMinimum"]:
        yield f"be more than {schema['exclusiveMinimum']}"
    if "exclusiveMaximum" in schema and number >= schema["exclusiveMaximum"]:
        yield f"be less than {schema['exclusiveMaximum']}"
    if "multipleOf" in schema and number % schema["multipleOf"]:
        yield f"be a multiple of {schema['multipleOf']}"


def _check_text(value: str, schema: Schema) -> Iterator[str]:
    yield from _check_length(value, schema, "Length", "characters")
    pattern = schema.get("pattern")
    if pattern is not None and len(value) <= _longest(pattern) and not _search(pattern, value):
        quantity = "be a quantity, such as 500m or 16Gi" if pattern.startswith(_QUANTITY) else ""
        yield _PATTERNS.get(pattern) or quantity or f"match {pattern}"


def _longest(pattern: str) -> int:
    """Return the max length of a text for a pattern. With several unbounded repetitions, time grows as its power."""
    return _MAX_TEXT_FOR_SLOW_PATTERNS if pattern.count(".+") + pattern.count(".*") > 2 else _MAX_TEXT


def _check_length(value: Any, schema: Schema, word: str, what: str) -> Iterator[str]:
    if len(value) < schema.get(f"min{word}", 0):
        yield f"have at least {schema[f'min{word}']} {what}"
    if f"max{word}" in schema and len(value) > schema[f"max{word}"]:
        yield f"have at most {schema[f'max{word}']} {what}"


def _check_fields(given: Mapping[str, Any], schema: Schema) -> Iterator[Fault]:
    yield from (
        Fault("missing", key, "is missing, but required") for key in schema.get("required", ()) if key not in given
    )
    for keys in _lists(schema.get("requiredXor")):
        if sum(key in given for key in keys) != 1:
            yield Fault("missing", "", f"needs exactly one of {', '.join(keys)}")
    for keys in _lists(schema.get("requiredOr")):
        if not any(key in given for key in keys):
            yield Fault("missing", "", f"needs one of {', '.join(keys)}")
    for key, other in _pairs(given, schema.get("dependentRequired")):
        if other not in given:
            yield Fault("missing", other, f"is required with {key}")
    for key, other in _pairs(given, schema.get("dependentExcluded")):
        if other in given and key < other:
            yield Fault("value", "", f"have only one of {key} and {other}", dict(given))


def _pairs(given: Mapping[str, Any], others: Mapping[str, list[str]] | None) -> Iterator[tuple[str, str]]:
    """Yield each existing field, with each field that its rule names."""
    return ((key, other) for key, each in (others or {}).items() if key in given for other in each)


def _lists(value: Any) -> list[list[str]]:
    return [] if not value else [value] if isinstance(value[0], str) else list(value)


def _twice(value: list[Any]) -> Any:
    seen = set()
    for each in value:
        if is_open(each) or is_partly_unknown(each):
            continue
        text = json.dumps(each, sort_keys=True, default=str)
        if text in seen:
            return each
        seen.add(text)
    return None


def _search(pattern: str, text: str) -> bool:
    return _compiled(pattern).search(text) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)
