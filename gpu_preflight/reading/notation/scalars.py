"""What a word without quotes is: a text, a number, a truth or nothing.

kubectl, helm, eksctl, Argo CD, Flux and nodeadm read YAML by kubernetes-sigs/yaml, which makes JSON of it.
Sources: kubernetes-sigs/yaml v1.6.0 yaml.go, yaml/go-yaml v2.4.3 resolve.go, Go 1.26 strconv, encoding/json (2026-11)
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import yaml

from gpu_facts.light_patterns import regex

# Of a number, as it is written; more of them take Python ever longer to read.
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
# Go reads the base off what stands before the digits; a zero alone means eight.
_WHOLE = regex(r"([+-]?)(?:0([xX])([0-9a-fA-F]+)|0([bB])([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))", re.ASCII)
_FLOAT = regex(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
# Behind a point that stands first, an underscore stands between digits only; elsewhere anywhere.
_POINT_FIRST = regex(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?", re.ASCII)
_INT64, _UINT64 = 2**63, 2**64
# From this power of ten on, Go writes a number with an exponent.
_MOST_POWER = 6
_TAG = "tag:yaml.org,2002:"
# YAML 1.1, as PyYAML and SnakeYAML, its port to Java, resolve it.
_RESOLVER = yaml.resolver.Resolver()


@lru_cache(maxsize=65536)
def scalar(text: str) -> Any:
    """Return what a word without quotes is to kubernetes-sigs/yaml, as JSON has it.

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
    """Return a whole number, ``None`` where 64 bits do not hold it."""
    sign, hexadecimal, of_hexadecimal, binary, of_binary, octal, decimal = found.groups()
    base = 16 if hexadecimal else 2 if binary else 8 if octal else 10
    amount = int(of_hexadecimal or of_binary or octal or decimal, base)
    signed = -amount if sign == "-" else amount
    return signed if -_INT64 <= signed < (_INT64 if sign else _UINT64) else None


def _as_json(number: float) -> int | float | None:
    """Return a number as it is read from JSON, where a whole one has no point; ``None`` where it is too large."""
    if number in (float("inf"), -float("inf")):
        return None
    return int(number) if number.is_integer() and abs(number) < _INT64 else number


@lru_cache(maxsize=65536)
def scalar_of_template(text: str) -> Any:
    """Return what a word without quotes is to CloudFormation, to which a number of base 60 is a text.

    Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/template-formats.html (2026-11), which
    says YAML 1.1 without dates
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
    """Return a value as the key that kubernetes-sigs/yaml makes of it, ``None`` for nothing, which can be none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _short(value)
    return None if value is None else str(value)


def key_of(text: str) -> str | None:
    """Return the key that a word without quotes is, ``None`` for nothing."""
    value = scalar(text)
    # A number with a point, or one too large, is read back from 32 bits, whole or not.
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
    """Return the fewest digits that 32 bits read back as the same number."""
    packed = struct.pack("f", single)
    texts = (f"{single:.{digits}e}" for digits in range(9))
    return next(each for each in texts if struct.pack("f", float(each)) == packed)
