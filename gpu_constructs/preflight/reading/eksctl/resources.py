"""The form in which what eksctl makes is handed on: resources of a template that nobody wrote."""

from __future__ import annotations

from typing import Any

from gpu_constructs.preflight.reading.cloudformation import Resource
from gpu_constructs.preflight.reading.objects import Object
from gpu_constructs.preflight.reading.unknown import known_text, mapping

GROUP = "eksctl.io"


def metadata(config: Object) -> dict[str, Any]:
    """Return name, region, version and tags of a cluster."""
    return mapping(config.content.get("metadata"))


def resource(config: Object, name: str, kind: str, properties: dict[str, Any]) -> Resource:
    """Return a resource that eksctl makes of a config.

    Args:
        config: The ClusterConfig.
        name: What it is called, once in a config.
        kind: Its type in CloudFormation.
        properties: Its properties; those that are ``None`` are left out.
    """
    key = f"{config.name}/{name}"
    region = known_text(metadata(config).get("region"))
    return Resource(
        config.origin.file, key, kind, without_none(properties), key, (), {GROUP: config.name}, False, region
    )


def is_of_eksctl(made: Resource) -> bool:
    """Whether a resource is one that eksctl makes of a config."""
    return GROUP in made.metadata


def without_none(properties: dict[str, Any]) -> dict[str, Any]:
    """Return properties without those that are not said."""
    return {key: value for key, value in properties.items() if value is not None}
