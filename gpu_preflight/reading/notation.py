"""YAML: loading with positions and duplicate keys, scalars as go-yaml reads them, and writing.

The module decides the type of a word without quotes: a text, a number, a boolean or null.

kubectl, helm, eksctl, Argo CD, Flux and nodeadm read YAML with kubernetes-sigs/yaml, which converts it to JSON.
Sources: kubernetes-sigs/yaml v1.6.0 yaml.go, yaml/go-yaml v2.4.3 resolve.go, Go 1.26 strconv, encoding/json (2026-11)
"""

from __future__ import annotations

import binascii
import re
import struct
from base64 import b64decode
from collections.abc import Hashable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeGuard

import yaml

from gpu_facts.light import dataclass, regex

# Max number of digits in a written number. Python's time to read more digits grows quickly.
MAX_DIGITS = 100
_WORDS: Mapping[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -float("inf")),
}
_BEGINS_A_NUMBER = frozenset("+-.0123456789")
# Go reads the base from the prefix of the digits. A single zero as prefix means base eight.
_WHOLE = regex(r"([+-]?)(?:0([xX])([0-9a-fA-F]+)|0([bB])([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))", re.ASCII)
_FLOAT = regex(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
# If a number starts with its point, underscores are allowed only between digits. In other numbers they are allowed
# everywhere.
_POINT_FIRST = regex(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?", re.ASCII)
_INT64, _UINT64 = 2**63, 2**64
# From this power of ten, Go writes a number with an exponent.
_MOST_POWER = 6
_TAG = "tag:yaml.org,2002:"
# YAML 1.1, as PyYAML and SnakeYAML (its port to Java) resolve it.
_RESOLVER = yaml.resolver.Resolver()
_MERGE, _TEXT = f"{_TAG}merge", f"{_TAG}str"
# A word without quotes and without a tag. Its type depends on the reader of the document.
_PLAIN = f"{_TAG}plain"
_NODE_TAGS = {yaml.ScalarNode: _TEXT, yaml.SequenceNode: f"{_TAG}seq", yaml.MappingNode: f"{_TAG}map"}
_TYPES = {"int": int, "float": float, "bool": bool, "null": type(None)}
# A key and its value.
_Entry = tuple[Any, Any]
# Max number of repeated keys that are reported for one text.
_MAX_REPEATED = 100
# Keys that identify a CloudFormation template and a Kubernetes object.
_OF_TEMPLATES, _OF_OBJECTS = {"AWSTemplateFormatVersion", "Resources"}, {"apiVersion", "kind"}
_SCALAR_TAGS = {bool: "bool", int: "int", float: "float", type(None): "null", str: "str"}
# Longer than any line, so that no text is folded.
_WIDTH = 1_000_000


@lru_cache(maxsize=65536)
def scalar(text: str) -> Any:
    """Return the value that kubernetes-sigs/yaml reads from a word without quotes, as in JSON.

    Raises:
        ValueError: It is a number of too many digits.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _BEGINS_A_NUMBER:
        return text
    if text[0] == "." and not _POINT_FIRST.fullmatch(text):
        return text
    number = _number(text.replace("_", ""))
    return text if number is None else number


def _number(text: str) -> int | float | None:
    whole, broken = _WHOLE.fullmatch(text), _FLOAT.fullmatch(text)
    if (whole or broken) and len(text) > MAX_DIGITS:
        raise ValueError(f"a number of more than {MAX_DIGITS} digits")
    if whole and (found := _whole(whole)) is not None:
        return found
    return _as_json(float(text)) if broken else None


def _whole(found: re.Match[str]) -> int | None:
    """Return a whole number; ``None`` if it doesn't fit into 64 bits."""
    sign, hexadecimal, of_hexadecimal, binary, of_binary, octal, decimal = found.groups()
    base = 16 if hexadecimal else 2 if binary else 8 if octal else 10
    amount = int(of_hexadecimal or of_binary or octal or decimal, base)
    signed = -amount if sign == "-" else amount
    return signed if -_INT64 <= signed < (_INT64 if sign else _UINT64) else None


def _as_json(number: float) -> int | float | None:
    """Return a number as it is read from JSON, without a point if it is whole; ``None`` if it is too large."""
    if number in (float("inf"), -float("inf")):
        return None
    return int(number) if number.is_integer() and abs(number) < _INT64 else number


@lru_cache(maxsize=65536)
def scalar_of_template(text: str) -> Any:
    """Return the value that CloudFormation reads from a word without quotes. A number of base 60 is a text.

    Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/template-formats.html (2026-11): YAML 1.1
    without dates.
    """
    kind = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False)).removeprefix(_TAG)  # type: ignore[no-untyped-call]
    if kind in ("int", "float") and ":" not in text:
        if len(text) > MAX_DIGITS:
            raise ValueError(f"a number of more than {MAX_DIGITS} digits")
        node = yaml.ScalarNode(f"{_TAG}{kind}", text)
        maker = yaml.constructor.SafeConstructor()
        return maker.construct_yaml_int(node) if kind == "int" else maker.construct_yaml_float(node)
    if kind == "bool":
        return text.lower() in ("yes", "true", "on")
    return None if kind == "null" else text


def key(value: Any) -> str | None:
    """Return the key that kubernetes-sigs/yaml reads from a value; ``None`` for null, which can't be a key."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _short(value)
    return None if value is None else str(value)


def parse_key(text: str) -> str | None:
    """Return the key that a word without quotes means; ``None`` for null."""
    value = scalar(text)
    # A number with a point, or a too large one, is converted through 32 bits, even if it is whole.
    is_float = isinstance(value, int) and not isinstance(value, bool) and not _WHOLE.fullmatch(text.replace("_", ""))
    return key(float(value) if is_float else value)


def _short(number: float) -> str:
    """Return a number as Go's ``strconv.FormatFloat(number, 'g', -1, 32)`` writes it."""
    (single,) = struct.unpack("f", struct.pack("f", number))
    words = {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}
    if str(single) in words:
        return words[str(single)]
    digits, _, exponent = _shortest(single).partition("e")
    power = int(exponent)
    if not -4 <= power < _MOST_POWER:
        return f"{digits}e{power:+03d}"
    decimals = len(digits.lstrip("-").replace(".", "")) - 1 - power
    return f"{single:.{max(decimals, 0)}f}"


def _shortest(single: float) -> str:
    """Return the shortest digits from which 32 bits give the same number."""
    packed = struct.pack("f", single)
    texts = (f"{single:.{digits}e}" for digits in range(9))
    return next(each for each in texts if struct.pack("f", float(each)) == packed)


try:
    from yaml import CSafeLoader as SafeLoader
except ImportError:  # PyYAML without libyaml, as in a zipapp: ten times slower, and with other error messages.
    from yaml import SafeLoader  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class RepeatedKey:
    """A key that occurs twice in one mapping, where the last value counts, or that is read as another key.

    Attributes:
        name: The key.
        line: Line of the first occurrence, from 1.
        again: Line of the second occurrence.
        outermost: Whether the mapping is the document itself.
        read_as: The key that is read, if it differs from the written one; empty for a repeated key.
    """

    name: str
    line: int
    again: int
    outermost: bool
    read_as: str = ""


class Loader(SafeLoader):
    """Reads YAML as kubernetes-sigs/yaml does, and templates with short tags as CloudFormation does.

    Args:
        stream: The text.
        most: Max number of values that ``<<`` may merge.
    """

    def __init__(self, stream: str, most: int) -> None:
        """Store the text."""
        super().__init__(stream)
        self.repeated: list[RepeatedKey] = []
        self._most, self._merged = most, 0
        self._flat: set[int] = set()
        self._is_template = self._is_object = False
        # How many characters are before the document that was read last.
        self.start = 0

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        """Return the tag of an untagged node. A word gets its type after the whole document is read."""
        return _PLAIN if kind is yaml.ScalarNode and implicit[0] else _NODE_TAGS[kind]

    def construct_document(self, node: yaml.Node) -> Any:
        """Return a document, with the types that its program reads."""
        keys = {each.value for each, _ in node.value if isinstance(each, yaml.ScalarNode)} if _is_map(node) else set()
        self._is_object = bool(keys & _OF_OBJECTS)
        self._is_template = bool(keys & _OF_TEMPLATES) and not self._is_object
        self._flat.clear()
        self.start = node.start_mark.index
        return super().construct_document(node)

    def plain(self, node: yaml.ScalarNode) -> Any:
        """Return the value of a word without quotes."""
        return scalar_of_template(node.value) if self._is_template else scalar(node.value)

    def intrinsic(self, suffix: str, node: yaml.Node) -> Any:
        """Return the value of a node with a custom tag: a CloudFormation function, which doesn't occur in an object."""
        value: Any = None
        name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
        if isinstance(node, yaml.ScalarNode):
            value = self.construct_scalar(node)
            if suffix == "GetAtt" and not self._is_object:
                value = value.split(".", 1)
        elif isinstance(node, yaml.SequenceNode):
            value = self.construct_sequence(node, deep=True)
        elif isinstance(node, yaml.MappingNode):
            value = self.construct_mapping(node, deep=True)
        return value if self._is_object else {name: value}

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Return a mapping whose keys are texts, as JSON has them."""
        self._flatten(node)
        return {self._key(each): self.construct_object(value, deep=deep) for each, value in node.value}

    def _key(self, node: yaml.ScalarNode) -> str:
        """Return a key. CloudFormation reads it as a text."""
        if node.tag == _TEXT or self._is_template:
            return str(node.value)
        found = parse_key(node.value) if node.tag == _PLAIN else key(self.construct_object(node))
        # Null isn't a key in JSON: kubectl rejects it. Other readers of the file may accept it.
        return str(node.value) if found is None else found

    def _flatten(self, node: yaml.MappingNode) -> None:
        """Replace ``<<`` by the merged values, once. Nested merges double their size, so the values are counted.

        The last key counts, at any position of ``<<``.
        Source: yaml/go-yaml v2.4.3 decode.go ``mapping`` (2026-11)
        """
        if not _is_map(node) or not all(isinstance(each, yaml.ScalarNode) for each, _ in node.value):
            raise yaml.constructor.ConstructorError(None, None, "a key must be a text", node.start_mark)
        if id(node) in self._flat:
            return
        self._flat.add(id(node))
        entries = node.value
        keys = {self._key(each) for each, _ in entries}
        if self._is_object and keys != {each.value for each, _ in entries}:
            self._note_read_as(entries)
        if len(keys) == len(entries) and "<<" not in keys:
            return
        # Set first, so that a mapping that merges itself ends.
        node.value = own = [each for each in entries if not _merges(each[0])]
        parts = [self._merging(value, node) if _merges(each) else [(each, value)] for each, value in entries]
        self._note_repeated(node, entries, parts)
        if len(own) == len(entries):
            return
        merged = [each for (place, _), part in zip(entries, parts, strict=True) if _merges(place) for each in part]
        node.value = [*merged, *own] if self._is_template else [each for part in parts for each in part]

    def _merging(self, source: yaml.Node, into: yaml.MappingNode) -> list[_Entry]:
        """Return the merged values. If several mappings are merged, the first one counts."""
        found: list[_Entry] = []
        for each in reversed(source.value) if isinstance(source, yaml.SequenceNode) else [source]:
            if not _is_map(each):
                raise yaml.constructor.ConstructorError(None, None, "<< must merge mappings", into.start_mark)
            self._flatten(each)
            self._merged += len(each.value)
            if self._merged > self._most:
                raise yaml.constructor.ConstructorError(None, None, "<< merges too much", into.start_mark)
            found += each.value
        return found

    def _note_read_as(self, entries: list[_Entry]) -> None:
        for place, _ in entries:
            found, line = self._key(place), place.start_mark.line + 1
            if place.tag == _PLAIN and found != place.value and len(self.repeated) < _MAX_REPEATED:
                self.repeated.append(RepeatedKey(place.value, line, line, outermost=False, read_as=found))

    def _note_repeated(self, node: yaml.MappingNode, entries: list[_Entry], parts: list[list[_Entry]]) -> None:
        """Record repeated keys, and keys that a later ``<<`` repeats. To override a merged value isn't a fault."""
        lines: dict[str, int] = {}
        outermost = node.start_mark.column == 0 and not node.flow_style
        for (place, _), part in zip(entries, parts, strict=True):
            line = place.start_mark.line + 1
            merges = _merges(place)
            if merges and self._is_template:
                continue
            for name in dict.fromkeys(self._key(each) for each, _ in part):
                if name in lines and len(self.repeated) < _MAX_REPEATED:
                    self.repeated.append(RepeatedKey(name, lines[name], line, outermost))
                if not merges or name in lines:
                    lines[name] = line


def events(text: str) -> Iterator[yaml.Event]:
    """Yield the parser events of a text, without building values."""
    yield from yaml.parse(text, Loader=SafeLoader)


def _is_map(node: yaml.Node) -> TypeGuard[yaml.MappingNode]:
    return isinstance(node, yaml.MappingNode)


def _merges(place: yaml.Node) -> bool:
    return place.value == "<<" and place.tag in (_PLAIN, _MERGE)


def _as_tagged(loader: Loader, node: yaml.ScalarNode) -> Any:
    """Return a value for its tag. The value must have the tag's kind."""
    kind, value = node.tag.removeprefix(_TAG), scalar(loader.construct_scalar(node))
    if kind == "float" and type(value) is int:
        return value
    if type(value) is not _TYPES[kind]:
        raise yaml.constructor.ConstructorError(None, None, f"{node.value!r} is no {kind}", node.start_mark)
    return value


def _binary(loader: Loader, node: yaml.ScalarNode) -> str:
    try:
        return b64decode(loader.construct_scalar(node), validate=False).decode(errors="replace")
    except (binascii.Error, ValueError):
        raise yaml.constructor.ConstructorError(None, None, "!!binary must be base64", node.start_mark) from None


def _as_written(loader: Loader, node: yaml.ScalarNode) -> Any:
    return loader.construct_scalar(node)


def _refused(loader: Loader, node: yaml.Node) -> Any:
    raise yaml.constructor.ConstructorError(None, None, f"tag {node.tag}, which no manifest has", node.start_mark)


Loader.add_constructor(_PLAIN, Loader.plain)


Loader.add_multi_constructor("!", Loader.intrinsic)


for _kind in _TYPES:
    Loader.add_constructor(f"{_TAG}{_kind}", _as_tagged)


Loader.add_constructor(f"{_TAG}binary", _binary)


for _kind in ("timestamp", "value", "merge"):
    Loader.add_constructor(f"{_TAG}{_kind}", _as_written)


# JSON and CloudFormation don't have these types.
for _kind in ("set", "omap", "pairs"):
    Loader.add_constructor(f"{_TAG}{_kind}", _refused)


class _Dumper(yaml.SafeDumper):
    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        """Return the tag that a reader uses for an untagged node."""
        if kind is not yaml.ScalarNode:
            return f"{_TAG}{'seq' if kind is yaml.SequenceNode else 'map'}"
        return f"{_TAG}{_SCALAR_TAGS[type(scalar(value))] if implicit[0] else 'str'}"

    def ignore_aliases(self, data: Any) -> bool:
        """Whether to write a repeated value in full, without an alias."""
        return True


def written(content: Any) -> str:
    """Return a document as YAML."""
    return yaml.dump(content, Dumper=_Dumper, width=_WIDTH)
