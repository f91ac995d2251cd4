"""Values of a template while they are resolved: what they cost, and what they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from gpu_facts.light_dataclasses import dataclass
from gpu_preflight.reading.documents import UnusableInput
from gpu_preflight.reading.unknown import Unknown, choices, mapping

# A text that intrinsics put together; CloudFormation takes templates of 1 MiB.
MAX_TEXT = 1024**2
# Of all templates of an input together: values that are visited, and characters that are put together.
MAX_STEPS = 10_000_000
MAX_CHARACTERS = 128 * 1024**2
# A parameter of such a type holds the name of something; the value is looked up at deployment.
_LOOKED_UP = ("AWS::SSM::Parameter::Value",)


@dataclass(slots=True)
class Work:
    """What resolving may still cost: outputs of outputs and texts of texts double what they hold."""

    steps: int = MAX_STEPS
    characters: int = MAX_CHARACTERS
    too_large: int = 0

    def step(self, file: str, count: int = 1) -> None:
        """Count values that are visited.

        Raises:
            UnusableInput: They are too many.
        """
        self.steps -= count
        if self.steps < 0:
            raise UnusableInput(f"{file}: intrinsics must resolve in {MAX_STEPS:,} steps, got more")

    def write(self, characters: int) -> bool:
        """Count characters that are put together; ``False`` when they are too many."""
        if characters > min(MAX_TEXT, self.characters):
            return False
        self.characters -= characters
        return True

    def give_up(self) -> Unknown:
        """Return a value that is too large to be told, and equal to no other."""
        self.too_large += 1
        return Unknown(f"${{value {self.too_large} that is too large}}")


def equal(pair: Any) -> bool | None:
    """Return whether the two values of ``Fn::Equals`` are equal, ``None`` where that is not known."""
    if not isinstance(pair, list) or len(pair) != 2:
        return None
    left, right = pair
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return True if left == right else None
    if isinstance(left, (dict, list)) or isinstance(right, (dict, list)):
        return None
    return scalar(left) == scalar(right)


def scalar(value: Any) -> str:
    """Return a scalar as CloudFormation writes it into a text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def typed(kind: Any, value: Any) -> Any:
    """Return the value of a parameter of a type, given as CloudFormation takes it."""
    if not isinstance(kind, str) or not isinstance(value, (str, int, float)):
        return value
    if kind.startswith(_LOOKED_UP):
        return Unknown(f"{{{{resolve:ssm:{value}}}}}")
    if kind == "CommaDelimitedList" or kind.startswith("List<"):
        return [each.strip() for each in str(value).split(",")]
    return value


def is_partly_unknown(value: Any) -> bool:
    """Whether a part of a value is not known."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, Unknown) or any(map(is_partly_unknown, parts))


def values_of_map(level: Any, keys: list[Any], step: Callable[[int], None]) -> list[Any]:
    """Return every value of a map that keys may lead to, some of which are known at deployment only.

    Args:
        level: The map.
        keys: The keys.
        step: Counts what is looked at.
    """
    if not keys:
        return [] if level is None else [level]
    wanted = [str(each) for each in choices(keys[0])] or list(mapping(level))
    step(len(wanted))
    return [value for each in wanted for value in values_of_map(mapping(level).get(each), keys[1:], step)]


def characters(value: Any) -> int:
    """Return how many characters a value has; values inside count each time."""
    if isinstance(value, Unknown):
        return len(value.expression)
    if isinstance(value, dict):
        return sum(len(key) + characters(each) for key, each in value.items())
    if isinstance(value, list):
        return sum(map(characters, value))
    return len(value) if isinstance(value, str) else 1


def compact(value: Any) -> str:
    """Return a value as JSON, for comparing and for naming what is not known."""
    return json.dumps(value, default=str, separators=(",", ":"), sort_keys=True)


def is_template(content: Any) -> bool:
    """Whether a document is a CloudFormation template."""
    resources = mapping(content).get("Resources")
    made = any(str(key).startswith("Fn::") for key in mapping(resources))
    typed = (isinstance(each, dict) and isinstance(each.get("Type"), str) for each in mapping(resources).values())
    return isinstance(resources, dict) and (made or any(typed))
