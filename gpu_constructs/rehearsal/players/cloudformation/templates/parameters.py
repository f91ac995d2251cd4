"""Parameters of a template: what somebody says, the default, or what SSM's parameter store holds.

Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/parameters-section-structure.html (2026-11)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from gpu_constructs.rehearsal.players.cloudformation.templates.template import refuse_others

KEYS = frozenset(
    {"AllowedPattern", "AllowedValues", "ConstraintDescription", "Default", "Description", "NoEcho", "Type"}
)
_STORED = re.compile(r"AWS::SSM::Parameter::Value<(.+)>")


def values(
    declared: Mapping[str, Mapping[str, Any]], given: Mapping[str, str], stored: Callable[[str], str]
) -> dict[str, Any]:
    """Return what ``Ref`` gives of each parameter.

    Args:
        declared: Parameters section of a template.
        given: What the deployment says.
        stored: Reads a parameter of SSM by its name.

    Raises:
        ValueError: A parameter has no value, or one that its declaration does not allow.
    """
    if unknown := sorted(set(given) - set(declared)):
        raise ValueError(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
    return {name: _value(name, each, given, stored) for name, each in declared.items()}


def _value(name: str, declared: Mapping[str, Any], given: Mapping[str, str], stored: Callable[[str], str]) -> Any:
    refuse_others(name, declared, KEYS)
    said = given.get(name, declared.get("Default"))
    if said is None:
        raise ValueError(f"Parameters: [{name}] must have values")
    _refuse_unless_allowed(name, declared, str(said))
    kind = declared["Type"]
    if found := _STORED.fullmatch(kind):
        return _typed(found[1], stored(str(said)))
    return _typed(kind, str(said))


def _refuse_unless_allowed(name: str, declared: Mapping[str, Any], said: str) -> None:
    allowed = [str(each) for each in declared.get("AllowedValues", [said])]
    if said not in allowed:
        raise ValueError(f"{name}: value must be one of {allowed}, got {said!r}")
    if not re.fullmatch(declared.get("AllowedPattern", ".*"), said, re.DOTALL):
        raise ValueError(f"{name}: value must match {declared['AllowedPattern']}, got {said!r}")


def _typed(kind: str, text: str) -> Any:
    """Return a list for the types of lists; CloudFormation keeps numbers as texts."""
    if kind == "CommaDelimitedList" or kind.startswith("List<"):
        return [each.strip() for each in text.split(",")]
    if kind in ("String", "Number") or kind.startswith("AWS::EC2::"):
        return text
    raise ValueError(f"parameter type {kind} is not played")
