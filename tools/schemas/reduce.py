"""Reduction of schemas: prose is removed, and equal parts of schemas are stored once."""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

# Keywords that decide whether a value is valid.
_KEPT = (
    *("type", "enum", "const", "pattern", "nullable"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
    *("required", "requiredXor", "requiredOr", "dependentRequired", "dependentExcluded"),
)
_ONE = ("items", "additionalProperties", "not", "if", "then", "else")
_MANY = ("anyOf", "oneOf", "allOf")
_NAMED = ("properties", "patternProperties")
# Other spellings of these keywords.
_SPELLED = {"enumCaseInsensitive": "enumOfAnyCase", "x-kubernetes-preserve-unknown-fields": "open"}
# A shorter part isn't replaced by a reference.
_SMALL = 40


class Reducer:
    """Reduces schemas. A shared definition is reduced once.

    Attributes:
        definitions: Targets of ``$ref``, by the last part of the reference.
        rules: Whether to keep CEL rules, and the defaults that they need.
    """

    def __init__(self, definitions: Mapping[str, Any] | None = None, *, rules: bool = False) -> None:
        """Begin without anything reduced."""
        self.definitions, self.rules = definitions or {}, rules
        self._done: dict[str, Any] = {}

    def reduce(self, schema: Any, within: tuple[str, ...] = ()) -> Any:
        """Return a schema without prose and references. A recursive part accepts any value."""
        if not isinstance(schema, dict):
            return schema
        if isinstance(schema.get("$ref"), str):
            return self._referred(schema["$ref"].rpartition("/")[2], within)
        kept = {key: schema[key] for key in _KEPT if key in schema} | {
            ours: schema[key] for key, ours in _SPELLED.items() if key in schema
        }
        kept |= {key: self.reduce(schema[key], within) for key in _ONE if key in schema}
        kept |= {key: [self.reduce(each, within) for each in schema[key]] for key in _MANY if key in schema}
        for key in _NAMED:
            if schema.get(key):
                kept[key] = {name: self.reduce(each, within) for name, each in schema[key].items()}
        if self.rules:
            kept |= _rules(schema)
        return _mended(schema, kept)

    def _referred(self, name: str, within: tuple[str, ...]) -> Any:
        if name in within:
            return {}
        if name not in self._done:
            found = self.reduce(self.definitions[name], (*within, name))
            if within:
                # A part that was cut inside another one is complete elsewhere.
                return found
            self._done[name] = found
        return self._done[name]


def _rules(schema: Mapping[str, Any]) -> dict[str, Any]:
    rules = [[each["rule"], each.get("message", each["rule"])] for each in schema.get("x-kubernetes-validations", ())]
    default = {"default": schema["default"]} if "default" in schema else {}
    return {**default, **({"rules": rules} if rules else {})}


def _mended(schema: Mapping[str, Any], kept: dict[str, Any]) -> dict[str, Any]:
    """Return a reduced schema in our spelling of the dialects."""
    if schema.get("x-kubernetes-int-or-string"):
        kept |= {"type": ["integer", "string"]}
        kept.pop("anyOf", None)
    if schema.get("format") == "byte":
        # Go reads bytes of a list of numbers too.
        kept["type"] = ["array", "string"]
    pattern = kept.get("pattern")
    if pattern is not None and not is_pythons(pattern):
        del kept["pattern"]
    if "patternProperties" in kept:
        kept["patternProperties"] = {key: each for key, each in kept["patternProperties"].items() if is_pythons(key)}
    if isinstance(kept.get("dependentRequired"), Mapping) or "dependencies" in schema:
        lists = {key: each for key, each in (schema.get("dependencies") or {}).items() if isinstance(each, list)}
        kept["dependentRequired"] = lists | dict(kept.get("dependentRequired") or {})
    given = [key for key, each in (schema.get("properties") or {}).items() if "default" in each]
    if "required" in kept:
        kept["required"] = sorted(key for key in kept["required"] if key not in given)
    return {key: each for key, each in kept.items() if each not in ([], {}) or key in ("items", "additionalProperties")}


def is_pythons(pattern: str) -> bool:
    """Whether a regular expression of Go or JavaScript is valid in Python."""
    try:
        with warnings.catch_warnings():
            # Python 3.10 only warns about flags in the middle, which 3.11 rejects.
            warnings.simplefilter("error")
            re.compile(pattern)
    except (re.error, DeprecationWarning, FutureWarning):
        return False
    return True


def pack(kinds: Mapping[str, Any]) -> str:
    """Return schemas by kind as lines of JSON, with equal parts stored once.

    Each line is a part. ``{"$ref": 3}`` refers to the fourth line. The last line has the kinds.
    """
    interning = _Interning()
    roots = {kind: interning.intern(schema) for kind, schema in sorted(kinds.items())}
    return interning.written(roots)


class _Interning:
    """Assigns the same number to equal parts."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._parts: list[Any] = []

    def intern(self, value: Any) -> Any:
        """Return a value whose schemas are numbers."""
        if isinstance(value, list):
            return [self.intern(each) for each in value]
        if not isinstance(value, dict):
            return value
        inner = {key: self.intern(each) for key, each in sorted(value.items())}
        text = json.dumps(inner, sort_keys=True)
        if len(text) <= _SMALL:
            return inner
        number = self._numbers.setdefault(text, len(self._parts))
        if number == len(self._parts):
            self._parts.append(inner)
        return {"$ref": number}

    def written(self, roots: Mapping[str, Any]) -> str:
        """Return all parts as lines. A part with one use is inlined. Others precede their uses."""
        used = self._used(roots)
        kept = [number for number in range(len(self._parts)) if used[number] > 1]
        places = {number: place for place, number in enumerate(kept)}
        lines = [self._inlined(self._parts[number], places) for number in kept]
        return "".join(f"{_compact(each)}\n" for each in (*lines, self._inlined(roots, places)))

    def _used(self, roots: Mapping[str, Any]) -> Counter[int]:
        """Count the uses of each part in the written parts."""
        used: Counter[int] = Counter()
        todo: list[Any] = [roots]
        while todo:
            value = todo.pop()
            if isinstance(value, dict) and value.keys() == {"$ref"}:
                used[value["$ref"]] += 1
                if used[value["$ref"]] == 1:
                    todo.append(self._parts[value["$ref"]])
            elif isinstance(value, (dict, list)):
                todo.extend(value.values() if isinstance(value, dict) else value)
        return used

    def _inlined(self, value: Any, places: Mapping[int, int]) -> Any:
        if isinstance(value, list):
            return [self._inlined(each, places) for each in value]
        if not isinstance(value, dict):
            return value
        if value.keys() == {"$ref"} and isinstance(value["$ref"], int):
            number = value["$ref"]
            return {"$ref": places[number]} if number in places else self._inlined(self._parts[number], places)
        return {key: self._inlined(each, places) for key, each in value.items()}


def _compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
