"""A template as CloudFormation reads it: sections that are known, and what refers to what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/template-anatomy.html (2026-11)
SECTIONS = frozenset(
    {
        "AWSTemplateFormatVersion",
        "Conditions",
        "Description",
        "Mappings",
        "Metadata",
        "Outputs",
        "Parameters",
        "Resources",
        "Rules",
    }
)
# Policies of updates and deletions say nothing about a creation.
# Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-product-attribute-reference.html (2026-11)
ATTRIBUTES = frozenset(
    {
        "Condition",
        "DeletionPolicy",
        "DependsOn",
        "Metadata",
        "Properties",
        "Type",
        "UpdatePolicy",
        "UpdateReplacePolicy",
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Resource:
    """A resource that a template declares.

    Attributes:
        logical_id: Its name in the template.
        type: What it is, e.g. ``AWS::EC2::VPC``.
        properties: As written, intrinsic functions and all.
        depends_on: What it names in DependsOn.
        condition: Name of the condition under which it exists; empty for always.
    """

    logical_id: str
    type: str
    properties: Mapping[str, Any]
    depends_on: tuple[str, ...] = ()
    condition: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """What is to be created, and what it is made of."""

    resources: Mapping[str, Resource]
    parameters: Mapping[str, Mapping[str, Any]]
    conditions: Mapping[str, Any]
    mappings: Mapping[str, Any]
    rules: Mapping[str, Any]
    outputs: Mapping[str, Any]

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Template:
        """Return a template from the document of `cdk synth`.

        Raises:
            ValueError: It has a section or an attribute that is not played, such as macros.
        """
        refuse_others("template", written, SECTIONS)
        return cls(
            resources={name: read_resource(name, each) for name, each in written.get("Resources", {}).items()},
            parameters=written.get("Parameters", {}),
            conditions=written.get("Conditions", {}),
            mappings=written.get("Mappings", {}),
            rules=written.get("Rules", {}),
            outputs=written.get("Outputs", {}),
        )


def read_resource(logical_id: str, written: Mapping[str, Any]) -> Resource:
    """Return a resource from its entry in a template."""
    refuse_others(logical_id, written, ATTRIBUTES)
    named = written.get("DependsOn", ())
    return Resource(
        logical_id=logical_id,
        type=written["Type"],
        properties=written.get("Properties", {}),
        depends_on=(named,) if isinstance(named, str) else tuple(named),
        condition=written.get("Condition", ""),
    )


def refuse_others(who: str, given: Mapping[str, Any], known: frozenset[str]) -> None:
    """Refuse keys that nothing here plays.

    Raises:
        ValueError: There is one.
    """
    if others := sorted(set(given) - known):
        raise ValueError(f"{who}: keys must be among {sorted(known)}, got {others}")


def references(value: Any) -> Iterator[str]:
    """Yield the names that a value refers to by Ref, Fn::GetAtt and Fn::Sub, parameters and pseudo parameters too."""
    if isinstance(value, list):
        for each in value:
            yield from references(each)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _named_by(key, each)
            yield from references(each)


def _named_by(key: str, argument: Any) -> Iterator[str]:
    if key == "Ref":
        yield argument
    elif key == "Fn::GetAtt":
        yield argument[0] if isinstance(argument, list) else argument.partition(".")[0]
    elif key == "Fn::Sub":
        text, own = (argument, {}) if isinstance(argument, str) else argument
        yield from (name.partition(".")[0] for name in placeholders(text) if name not in own)


def placeholders(text: str) -> Iterator[str]:
    """Yield the names in ``${}`` of a text of Fn::Sub; ``${!name}`` is none, but text."""
    for part in text.split("${")[1:]:
        name = part.partition("}")[0]
        if not name.startswith("!"):
            yield name.strip()
