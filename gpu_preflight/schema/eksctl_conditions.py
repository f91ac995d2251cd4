"""Conditions under which eksctl rejects a part of a config, with values that only deployment sets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from gpu_facts.light import dataclass
from gpu_facts.refusals import did_you_mean
from gpu_preflight.reading.eksctl.groups import canonical_family
from gpu_preflight.reading.unknown import Unknown, as_written, items, known_number, known_text, mapping
from gpu_preflight.reading.user_data import parse_embedded
from gpu_preflight.schema.validation import is_open

# Default Kubernetes minor version of this eksctl release.
# Source: eksctl-io/eksctl 99984ad pkg/apis/eksctl.io/v1alpha5/types.go ``DefaultVersion`` (2026-08-21)
_DEFAULT_MINOR = 34
# Whether a value meets a condition; ``None`` if only deployment decides it.
Condition = Callable[[Any], "bool | None"]


@dataclass(frozen=True, slots=True)
class Row:
    """Values that eksctl rejects together: a row rejects if all of its conditions are met.

    Attributes:
        conditions: A condition for each field, by its path in the group, or in the config after ``cluster.``.
        text: The rule that the values break. ``{}`` is the value of the first field.
        known: Words that the first field may have.
        late: Whether eksctl finds the fault only while it creates the group. It still creates the other groups.
    """

    conditions: Mapping[str, Condition]
    text: str
    known: tuple[str, ...] = ()
    late: bool = False

    def rejects(self, part: Mapping[str, Any]) -> bool | None:
        """Return whether eksctl rejects a part of a config; ``None`` if only deployment decides it."""
        met = [condition(_lookup_path(part, path)) for path, condition in self.conditions.items()]
        return False if False in met else None if None in met else True

    def message(self, part: Mapping[str, Any]) -> str:
        """Return the rule that a part of a config breaks."""
        value = as_written(_lookup_path(part, next(iter(self.conditions))))
        return self.text.format(value) + (did_you_mean(str(value), self.known) if self.known else "")


def _lookup_path(part: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path, or the value on the way to it that only deployment sets."""
    value: Any = part
    for key in path.split("."):
        if is_open(value):
            return value
        value = mapping(value).get(key)
    return value


def _if_known(test: Callable[[Any], bool]) -> Condition:
    return lambda value: None if is_open(value) else test(value)


def _is_absent(value: Any) -> bool:
    return value is None or value in ("", [], {}) or (value == 0 and value is not False)


# A placeholder counts as a value.
ABSENT: Condition = _is_absent
GIVEN = _if_known(lambda value: not _is_absent(value))
TRUE = _if_known(lambda value: value is True)
NOT_TRUE = _if_known(lambda value: value is not True)
FALSE = _if_known(lambda value: value is False)
ANY_TRUE = _if_known(lambda value: any(each is True for each in mapping(value).values()))


def matches_any(*words: str | None) -> Condition:
    """Return a condition: the value is one of some words."""
    return _if_known(lambda value: value in words)


def literally(word: str) -> Condition:
    """Return a condition: the value is exactly this word. A placeholder doesn't count: it isn't valid there."""
    return lambda value: value == word


def matches_none(*words: str) -> Condition:
    """Return a condition: a text is set, and isn't one of some words."""
    return _if_known(lambda value: isinstance(value, str) and value not in words)


def has_unmatched_item(*words: str) -> Condition:
    """Return a condition: a list has a text that isn't one of some words."""

    def condition(value: Any) -> bool | None:
        found = [matches_none(*words)(each) for each in items(value)]
        return True if True in found else None if None in found else False

    return condition


def starts_without(*starts: str) -> Condition:
    """Return a condition: a text is set, and has none of some prefixes."""
    return _if_known(lambda value: not _is_absent(value) and not str(value).startswith(starts))


def matches(pattern: str) -> Condition:
    """Return a condition: a pattern is found in a text."""
    return _if_known(lambda value: isinstance(value, str) and re.search(pattern, value) is not None)


def family(*names: str, default: str = "") -> Condition:
    """Return a condition: the image family is one of some families."""
    return _if_known(lambda value: canonical_family(value or default) in names)


def other_family(*names: str) -> Condition:
    """Return a condition: an image family is set, and isn't one of some families."""
    return _if_known(lambda value: not _is_absent(value) and canonical_family(value) not in names)


def outside(least: float, most: float = float("inf")) -> Condition:
    """Return a condition: a number is set, and isn't within bounds."""
    return _if_known(lambda value: (number := known_number(value)) is not None and not least <= number <= most)


def more_than(count: int) -> Condition:
    """Return a condition: a list has more distinct entries than a number."""
    return _if_known(lambda value: len({str(each) for each in items(value)}) > count)


def exactly_one(value: Any) -> bool | None:
    """Whether a list has one item."""
    return None if isinstance(value, Unknown) else isinstance(value, list) and len(value) == 1


def has_open(value: Any) -> bool:
    """Whether only deployment sets a list, or an entry of it."""
    return is_open(value) or any(is_open(each) for each in items(value))


def other_version(least: int, most: int) -> Condition:
    """Return a condition: a Kubernetes version isn't within two minor versions. eksctl may choose a missing one."""

    def condition(value: Any) -> bool | None:
        found = re.fullmatch(r"1\.(\d{1,3})", known_text(value) or "")
        if found is None:
            return None if value is not None or not least <= _DEFAULT_MINOR <= most else False
        return not least <= int(found.group(1)) <= most

    return condition


def is_no_template_version(value: Any) -> bool | None:
    """Whether a version of a launch template isn't a number, e.g. ``$Latest``."""
    if is_open(value) and value not in ("$Latest", "$Default"):
        return None
    return value is not None and re.fullmatch(r"0*[1-9]\d*", str(value), re.ASCII) is None


def is_no_node_config(value: Any) -> bool | None:
    """Whether a bootstrap command isn't a NodeConfig, for any values of its placeholders."""
    text = str(as_written(value) or "").strip()
    if not text or re.fullmatch(r"\$\{[^{}]*\}|\{\{[^{}]*\}\}|\$\w+", text):
        return None if text else False
    parsed = parse_embedded("overrideBootstrapCommand", Unknown(text) if "${" in text else text)
    first = next(iter(parsed), None) if isinstance(parsed, list) else parsed
    return first is not None and not (isinstance(first, dict) and isinstance(first.get("spec", {}), dict))
