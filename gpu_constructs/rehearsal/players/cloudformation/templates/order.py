"""What must exist before what: the resources of a template that exist, and those each waits for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

from gpu_constructs.rehearsal.players.cloudformation.templates.template import Resource, Template, references

Order = Mapping[str, tuple[str, ...]]


def existing(template: Template, holds: Callable[[str], bool]) -> dict[str, Resource]:
    """Return the resources whose condition holds, of each Fn::If the side that is taken.

    Args:
        template: What declares them.
        holds: Whether a condition of that name holds.
    """
    return {
        name: replace(each, properties=taken(each.properties, holds))
        for name, each in template.resources.items()
        if not each.condition or holds(each.condition)
    }


def taken(value: Any, holds: Callable[[str], bool]) -> Any:
    """Return a value with the side of each Fn::If that is taken in its place."""
    if isinstance(value, list):
        return [taken(each, holds) for each in value]
    if not isinstance(value, Mapping):
        return value
    if list(value) == ["Fn::If"]:
        condition, then, otherwise = value["Fn::If"]
        return taken(then if holds(condition) else otherwise, holds)
    return {key: taken(each, holds) for key, each in value.items()}


def order(resources: Mapping[str, Resource], *, declared: Mapping[str, Any], others: Mapping[str, Any]) -> Order:
    """Return the logical ids that each resource waits for, by its own.

    Args:
        resources: Those that exist.
        declared: All of the template: DependsOn may name one that does not exist, and waits for nothing then.
        others: Names that Ref takes and that are no resources.

    Raises:
        ValueError: A resource refers to what there is not, or resources wait for each other.
    """
    found = {name: _waits_for(each, resources, declared, others) for name, each in resources.items()}
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        raise ValueError(f"Circular dependency between resources: [{', '.join(sorted(set(error.args[1])))}]") from None
    return found


def _waits_for(
    resource: Resource, resources: Mapping[str, Resource], declared: Mapping[str, Any], others: Mapping[str, Any]
) -> tuple[str, ...]:
    named = set(references(resource.properties)) - set(others)
    if unknown := sorted((named - set(resources)) | (set(resource.depends_on) - set(declared))):
        raise ValueError(
            f"Unresolved resource dependencies [{', '.join(unknown)}] in the Resources block of the template, "
            f"for {resource.logical_id}"
        )
    return tuple(sorted(named | (set(resource.depends_on) & set(resources))))
