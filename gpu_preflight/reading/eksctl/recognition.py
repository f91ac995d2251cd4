"""Recognizes ClusterConfigs, and the resources that eksctl creates from them.

Most inputs have neither, so rules import the other modules of eksctl only where they need them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_preflight.reading.cloudformation import Resource, Template
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import mapping

GROUP = "eksctl.io"
# Metadata of a group: the field with its instance types.
TYPES_AS = "eksctl.io/types"
# Metadata of a group: whether eksctl's role of its nodes may scale groups. Absent if the user sets policies.
NODES_SCALE = "eksctl.io/nodes-scale"
CLUSTER_SUBNET = "eksctl::ClusterSubnet"


def configs(objects: list[Object]) -> list[Object]:
    """Return the ClusterConfigs among some objects."""
    return [each for each in objects if each.kind == "ClusterConfig" and each.group == GROUP]


def metadata(config: Object) -> dict[str, Any]:
    """Return name, region, version and tags of a cluster."""
    return mapping(config.content.get("metadata"))


def cluster_or_config(config: Object, resources: Mapping[str, Resource]) -> Resource | Object:
    """Return the cluster that eksctl makes of a config; the object itself, where eksctl makes none of it."""
    return resources.get(f"{config.name}/Cluster", config) if configs([config]) else config


def is_of_eksctl(made: Resource) -> bool:
    """Whether a resource is one that eksctl makes of a config."""
    return GROUP in made.metadata


def is_written_by_eksctl(template: Template) -> bool:
    """Whether eksctl wrote a template. The description of each names eksctl."""
    return "eksctl" in str(template.body.get("Description"))
