"""Reading synthesized templates in tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import aws_cdk as cdk
from aws_cdk.assertions import Template

MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"
CHART = "Custom::AWSCDK-EKS-HelmChart"

Resources = dict[str, dict[str, Any]]


def resources_of(stack: cdk.Stack) -> Resources:
    """Return the resources of the synthesized template by logical id."""
    return dict(Template.from_stack(stack).to_json().get("Resources", {}))


def of_type(resources: Resources, kind: str) -> Resources:
    """Return the resources of one type."""
    return {id: resource for id, resource in resources.items() if resource["Type"] == kind}


def only(resources: Resources, kind: str) -> dict[str, Any]:
    """Return the properties of the only resource of a type."""
    [resource] = of_type(resources, kind).values()
    return dict(resource["Properties"])


def slice_of(resources: Resources, construct: str) -> Resources:
    """Return the resources of the construct with that id at the top of the stack."""
    return {id: resource for id, resource in resources.items() if id.startswith(construct)}


def resources_under(stack: cdk.Stack, path: str) -> Resources:
    """Return the resources of a construct and of all below it, whatever their ids begin with."""
    construct: Any = stack
    for id in path.split("/"):
        construct = construct.node.find_child(id)
    below = [each for each in construct.node.find_all() if isinstance(each, cdk.CfnResource)]
    ids = {stack.resolve(each.logical_id) for each in below}
    return {id: each for id, each in resources_of(stack).items() if id in ids}


def text_of(value: Any) -> str:
    """Return a string property with each intrinsic in it written as ``${...}``."""
    if isinstance(value, str):
        return value
    [(function, argument)] = value.items()
    if function == "Fn::Join":
        separator, parts = argument
        return str(separator).join(text_of(part) for part in parts)
    return "${" + (argument if isinstance(argument, str) else ".".join(map(str, argument))) + "}"


def manifests_of(resources: Resources) -> Iterator[dict[str, Any]]:
    """Yield every Kubernetes object that the template applies."""
    for resource in of_type(resources, MANIFEST).values():
        yield from json.loads(text_of(resource["Properties"]["Manifest"]))


def manifest(resources: Resources, kind: str) -> dict[str, Any]:
    """Return the only applied object of a kind."""
    [found] = [each for each in manifests_of(resources) if each["kind"] == kind]
    return found


def ids_of_objects(resources: Resources) -> dict[tuple[str, str], str]:
    """Return the logical id of every applied object, by its kind and name."""
    objects = {id: next(manifests_of({id: each})) for id, each in of_type(resources, MANIFEST).items()}
    return {(each["kind"], each["metadata"]["name"]): id for id, each in objects.items()}


def object_id(resources: Resources, kind: str) -> str:
    """Return the logical id of the only applied object of a kind."""
    [found] = [id for (each, _), id in ids_of_objects(resources).items() if each == kind]
    return found


def depends_on(resources: Resources, id: str) -> set[str]:
    """Return everything a resource is created after, directly or not."""
    seen: set[str] = set()
    todo = [id]
    while todo:
        for needed in _direct(resources[todo.pop()]) & resources.keys():
            if needed not in seen:
                seen.add(needed)
                todo.append(needed)
    return seen


def _direct(value: Any) -> set[str]:
    if isinstance(value, dict):
        found = set().union(*(_direct(each) for each in value.values()))
        if "DependsOn" in value:
            found |= {value["DependsOn"]} if isinstance(value["DependsOn"], str) else set(value["DependsOn"])
        if isinstance(value.get("Ref"), str):
            found.add(value["Ref"])
        if isinstance(value.get("Fn::GetAtt"), list):
            found.add(value["Fn::GetAtt"][0])
        return found
    return set().union(*(_direct(each) for each in value)) if isinstance(value, list) else set()
