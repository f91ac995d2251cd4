"""A template as CloudFormation reads it: sections, parameters, order of resources.

Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/template-anatomy.html (2026-11)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import Any, Protocol

import botocore.session

from gpu_rehearsal.credentials import Credentials, Source

# Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/template-anatomy.html (2026-11)
_SECTIONS = frozenset(
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
# `UpdatePolicy` is accepted and ignored: it sets how Auto Scaling groups replace instances.
# Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-product-attribute-reference.html (2026-11)
_ATTRIBUTES = frozenset(
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
_PARAMETER_KEYS = frozenset(
    {"AllowedPattern", "AllowedValues", "ConstraintDescription", "Default", "Description", "NoEcho", "Type"}
)
_STORED = re.compile(r"AWS::SSM::Parameter::Value<(.+)>")
Order = Mapping[str, tuple[str, ...]]
Invoke = Callable[[str, bytes], bytes]


@dataclass(frozen=True, kw_only=True, slots=True)
class Resource:
    """A resource that a template declares.

    Attributes:
        logical_id: Its logical id.
        type: Its type, e.g. ``AWS::EC2::VPC``.
        properties: Its properties, with intrinsic functions.
        depends_on: Logical ids in DependsOn.
        condition: Name of its condition; empty if it always exists.
        deletion_policy: Its DeletionPolicy.
        update_replace_policy: Its UpdateReplacePolicy.
    """

    logical_id: str
    type: str
    properties: Mapping[str, Any]
    depends_on: tuple[str, ...] = ()
    condition: str = ""
    deletion_policy: str = "Delete"
    update_replace_policy: str = "Delete"


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """The sections of a template."""

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
            ValueError: It has a section or an attribute that isn't simulated, for example macros.
        """
        _refuse_others("template", written, _SECTIONS)
        return cls(
            resources={name: _read_resource(name, each) for name, each in written.get("Resources", {}).items()},
            parameters=written.get("Parameters", {}),
            conditions=written.get("Conditions", {}),
            mappings=written.get("Mappings", {}),
            rules=written.get("Rules", {}),
            outputs=written.get("Outputs", {}),
        )


def _read_resource(logical_id: str, written: Mapping[str, Any]) -> Resource:
    """Return a resource from its entry in a template."""
    _refuse_others(logical_id, written, _ATTRIBUTES)
    named = written.get("DependsOn", ())
    return Resource(
        logical_id=logical_id,
        type=written["Type"],
        properties=written.get("Properties", {}),
        depends_on=(named,) if isinstance(named, str) else tuple(named),
        condition=written.get("Condition", ""),
        deletion_policy=written.get("DeletionPolicy", "Delete"),
        update_replace_policy=written.get("UpdateReplacePolicy", "Delete"),
    )


def _refuse_others(who: str, given: Mapping[str, Any], known: frozenset[str]) -> None:
    """Reject keys that aren't supported.

    Raises:
        ValueError: A key isn't supported.
    """
    if others := sorted(set(given) - known):
        raise ValueError(f"{who}: keys must be among {sorted(known)}, got {others}")


def references(value: Any) -> Iterator[str]:
    """Yield the names that a value refers to with Ref, Fn::GetAtt and Fn::Sub, including parameters."""
    if isinstance(value, list):
        for each in value:
            yield from references(each)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _referenced_ids(key, each)
            yield from references(each)


def _referenced_ids(key: str, argument: Any) -> Iterator[str]:
    if key == "Ref":
        yield argument
    elif key == "Fn::GetAtt":
        yield argument[0] if isinstance(argument, list) else argument.partition(".")[0]
    elif key == "Fn::Sub":
        text, own = (argument, {}) if isinstance(argument, str) else argument
        yield from (name.partition(".")[0] for name in placeholders(text) if name not in own)


def placeholders(text: str) -> Iterator[str]:
    """Yield the names in ``${}`` of an Fn::Sub text. ``${!name}`` is literal text."""
    for part in text.split("${")[1:]:
        name = part.partition("}")[0]
        if not name.startswith("!"):
            yield name.strip()


def values(
    declared: Mapping[str, Mapping[str, Any]], given: Mapping[str, str], stored: Callable[[str], str]
) -> dict[str, Any]:
    """Return the value of ``Ref`` for each parameter.

    Raises:
        ValueError: A parameter has no value, or a value that its declaration doesn't allow.
    """
    if unknown := sorted(set(given) - set(declared)):
        raise ValueError(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
    return {name: _value(name, each, given, stored) for name, each in declared.items()}


def _value(name: str, declared: Mapping[str, Any], given: Mapping[str, str], stored: Callable[[str], str]) -> Any:
    _refuse_others(name, declared, _PARAMETER_KEYS)
    value = given.get(name, declared.get("Default"))
    if value is None:
        raise ValueError(f"Parameters: [{name}] must have values")
    _refuse_unless_allowed(name, declared, str(value))
    kind = declared["Type"]
    if found := _STORED.fullmatch(kind):
        return _typed(found[1], stored(str(value)))
    return _typed(kind, str(value))


def _refuse_unless_allowed(name: str, declared: Mapping[str, Any], value: str) -> None:
    allowed = [str(each) for each in declared.get("AllowedValues", [value])]
    if value not in allowed:
        raise ValueError(f"{name}: value must be one of {allowed}, got {value!r}")
    if not re.fullmatch(declared.get("AllowedPattern", ".*"), value, re.DOTALL):
        raise ValueError(f"{name}: value must match {declared['AllowedPattern']}, got {value!r}")


def _typed(kind: str, text: str) -> Any:
    """Return a list for list types, and text for others: CloudFormation stores numbers as text."""
    if kind == "CommaDelimitedList" or kind.startswith("List<"):
        return [each.strip() for each in text.split(",")]
    if kind in ("String", "Number") or kind.startswith("AWS::EC2::"):
        return text
    raise ValueError(f"parameter type {kind} isn't simulated")


def existing(template: Template, holds: Callable[[str], bool]) -> dict[str, Resource]:
    """Return the resources whose condition holds, with each Fn::If replaced by its chosen value."""
    return {
        name: replace(each, properties=chosen(each.properties, holds))
        for name, each in template.resources.items()
        if not each.condition or holds(each.condition)
    }


def chosen(value: Any, holds: Callable[[str], bool]) -> Any:
    """Return a value with each Fn::If replaced by its chosen value."""
    if isinstance(value, list):
        return [chosen(each, holds) for each in value]
    if not isinstance(value, Mapping):
        return value
    if list(value) == ["Fn::If"]:
        condition, then, otherwise = value["Fn::If"]
        return chosen(then if holds(condition) else otherwise, holds)
    return {key: chosen(each, holds) for key, each in value.items()}


def order(resources: Mapping[str, Resource], *, declared: Mapping[str, Any], others: Mapping[str, Any]) -> Order:
    """Return the logical ids that each resource waits for, by logical id.

    Args:
        resources: The resources that exist.
        declared: All resources of the template. If DependsOn names one that doesn't exist, it has no effect.
        others: Names for Ref that aren't resources.

    Raises:
        ValueError: A resource refers to a missing name, or resources wait for each other.
    """
    found = {name: _dependencies(each, resources, declared, others) for name, each in resources.items()}
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        raise ValueError(f"Circular dependency between resources: [{', '.join(sorted(set(error.args[1])))}]") from None
    return found


def _dependencies(
    resource: Resource, resources: Mapping[str, Resource], declared: Mapping[str, Any], others: Mapping[str, Any]
) -> tuple[str, ...]:
    named = set(references(resource.properties)) - set(others)
    if unknown := sorted((named - set(resources)) | (set(resource.depends_on) - set(declared))):
        raise ValueError(
            f"Unresolved resource dependencies [{', '.join(unknown)}] in the Resources block of the template, "
            f"for {resource.logical_id}"
        )
    return tuple(sorted(named | (set(resource.depends_on) & set(resources))))


class Account(Protocol):
    """The simulated account.

    Attributes:
        endpoint: Address that answers for every service.
        region: Region of the stack.
        account: Its id.
    """

    endpoint: str
    region: str
    account: str

    @property
    def functions(self) -> Invoke | None:
        """A function that runs a Lambda function, called with its name and payload."""

    @functions.setter
    def functions(self, invoke: Invoke) -> None: ...

    @property
    def stack_resources(self) -> dict[str, Callable[[str], str]]:
        """Functions that return the physical id of a logical id, by name and by ARN of the stack."""

    def client(self, service: str, *, role: str = "") -> Any:
        """Return an SDK client with a role, or as the administrator."""

    def assume(self, role: str, *, service: str, source: Source | None = None) -> Credentials:
        """Return credentials of a role for a service, if its trust policy allows that."""

    def unreachable(self, source: Source, cluster: str, *services: str) -> str:
        """Return why a source doesn't reach the API server of a cluster, or some AWS APIs; empty if it does."""


@cache
def region_partition(region: str) -> str:
    """Return the partition of a region, e.g. ``aws``."""
    return str(botocore.session.get_session().get_partition_for_region(region))


def bootstrap(aws: Account, *, qualifier: str = "hnb659fds", version: int = 30) -> None:
    """Store the version of the bootstrap stack. Its bucket of assets and its roles aren't simulated.

    Source: https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-env.html (2026-11)

    Args:
        aws: Account and region to bootstrap.
        qualifier: Qualifier of the bootstrap stack.
        version: Version of the bootstrap template.
    """
    name = f"/cdk-bootstrap/{qualifier}/version"
    aws.client("ssm").put_parameter(Name=name, Type="String", Value=str(version), Overwrite=True)
