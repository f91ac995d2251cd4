"""A value that exists only after the template is deployed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any, TypeVar

from gpu_facts.light import dataclass, regex

T = TypeVar("T")

# A stack, whose name may have dots, a resource and an attribute.
_REFERENCE = regex(r"\$\{((?:[^{}:/]*/)?[^{}.:/]+)(?:\.([^{}]+))?\}")

_OPENING = regex(r"\$|\{\{")
_WHOLE = regex(r"-?[0-9]{1,18}")
_TOO_LARGE = 10**18
# Replaces the values of environment variables in objects that `gpu-constructs doctor` reads from a cluster.
HIDDEN = "(hidden)"
# With more values than this, they aren't checked one by one.
_MAX_CHOICES = 100


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that is known at deployment only.

    Two values with the same expression are equal at deployment. Two values with different expressions may be equal.

    Attributes:
        expression: The value as ``Fn::Sub`` would write it, e.g. ``arn:${AWS::Partition}:iam::aws:policy/X``. A
            resource is named by template and logical id, ``${GpuStack/Nodes}``.
        choices: Every value that it may have; empty if it may be anything.
    """

    expression: str
    choices: tuple[Any, ...] = field(default=(), compare=False)

    @property
    def resource(self) -> str | None:
        """Template and logical id of the only resource whose ``Ref`` or attribute this is."""
        found = _REFERENCE.fullmatch(self.expression)
        return found.group(1) if found else None

    @property
    def attribute(self) -> str | None:
        """Attribute of the resource; ``None`` for its ``Ref``."""
        found = _REFERENCE.fullmatch(self.expression)
        return found.group(2) if found else None

    @property
    def resources(self) -> tuple[str, ...]:
        """Every resource that is a part of the value."""
        return tuple(found.group(1) for found in _REFERENCE.finditer(self.expression))

    def __str__(self) -> str:
        return self.expression


def choices(value: Any) -> list[Any]:
    """Return every value that a value may have after deployment; none if it may have any value."""
    return list(value.choices) if isinstance(value, Unknown) else [] if value is None else [value]


def value_or_unknown(expression: str, values: Iterable[Any]) -> Any:
    """Return the value if all values are equal, otherwise an `Unknown` with each of them as a choice.

    If one of them may be anything, the result may be anything too.
    """
    found: list[Any] = []
    for each in values:
        listed = choices(each)
        found += [one for one in listed if one not in found]
        if not listed or len(found) > _MAX_CHOICES:
            return Unknown(expression)
    return found[0] if len(found) == 1 else Unknown(expression, tuple(found))


def is_expression(text: str) -> bool:
    """Whether a text contains an expression. No name, label or taint can contain its signs."""
    return "$" in text or "{{" in text


def may_equal(left: str, right: str) -> bool:
    """Whether two texts with unknown parts may be equal at deployment."""
    if not (is_expression(left) or is_expression(right)):
        return left == right
    (start, end), (other_start, other_end) = _literal_ends(left), _literal_ends(right)
    starts = start.startswith(other_start) or other_start.startswith(start)
    return starts and (end.endswith(other_end) or other_end.endswith(end))


def _literal_ends(text: str) -> tuple[str, str]:
    """Return the known prefix and suffix of a text."""
    if not is_expression(text):
        return text, text
    return _OPENING.split(text)[0], text.rpartition("}")[2] if text.rfind("}") > text.rfind("$") else ""


def as_written(value: Any) -> Any:
    """Return a value in which each unknown part is its written text."""
    if isinstance(value, dict):
        return {str(key): as_written(each) for key, each in value.items()}
    if isinstance(value, list):
        return [as_written(each) for each in value]
    return value.expression if isinstance(value, Unknown) else value


def unless_hidden(value: Any) -> Any:
    """Return a value, or an unknown one if a record hides it."""
    return Unknown(HIDDEN) if value == HIDDEN else value


def known_text(value: Any) -> str | None:
    """Return a text; ``None`` for anything else."""
    return value if isinstance(value, str) else None


def known_number(value: Any) -> int | None:
    """Return a whole number, which templates write as number or text; ``None`` for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return int(value) if abs(value) < _TOO_LARGE else None
    return None


def mapping(value: Any) -> dict[str, Any]:
    """Return a mapping, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Return a list, or an empty one for anything else."""
    return value if isinstance(value, list) else []


def mappings(value: Any) -> list[dict[str, Any]]:
    """Return the mappings of a list."""
    return [each for each in items(value) if isinstance(each, dict)]


def dig(value: Any, *path: str) -> Any:
    """Return the value at a path of mappings, or ``None``."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def all_known(values: Iterable[T | None]) -> list[T]:
    """Return some values, or none if one isn't known."""
    found = list(values)
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else []


def is_true(value: Any) -> bool:
    """Whether a boolean field of a template is true. Templates write ``true`` and ``"true"``."""
    return value is True or (isinstance(value, str) and value.lower() == "true")
