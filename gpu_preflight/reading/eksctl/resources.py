"""The form in which what eksctl makes is handed on: resources of a template that nobody wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import known_text, mapping

GROUP = "eksctl.io"
# Of a group: how its instance types are written.
TYPES_AS = "eksctl.io/types"
# Of a group: whether the role that eksctl makes for its nodes may scale groups; absent where the user sets policies.
NODES_SCALE = "eksctl.io/nodes-scale"


def metadata(config: Object) -> dict[str, Any]:
    """Return name, region, version and tags of a cluster."""
    return mapping(config.content.get("metadata"))


def resource(
    config: Object, name: str, kind: str, properties: dict[str, Any], more: Mapping[str, Any] | None = None
) -> Resource:
    """Return a resource that eksctl makes of a config.

    Args:
        config: The ClusterConfig.
        name: What it is called, once in a config.
        kind: Its type in CloudFormation.
        properties: Its properties; those that are ``None`` are left out.
        more: What else is told of how it is written.
    """
    key = f"{config.name}/{name}"
    region = known_text(metadata(config).get("region"))
    told = {GROUP: config.name, **(more or {})}
    return Resource(config.origin.file, key, kind, without_none(properties), key, (), told, False, region)


def is_of_eksctl(made: Resource) -> bool:
    """Whether a resource is one that eksctl makes of a config."""
    return GROUP in made.metadata


def written_at(made: Resource, name: str) -> tuple[str, ...]:
    """Return where a property of a group is in the file of eksctl; nothing for a group that eksctl doesn't make."""
    if not is_of_eksctl(made):
        return ()
    return ("managedNodeGroups" if made.type == "AWS::EKS::Nodegroup" else "nodeGroups", name)


def without_none(properties: dict[str, Any]) -> dict[str, Any]:
    """Return properties without those that are not said."""
    return {key: value for key, value in properties.items() if value is not None}
