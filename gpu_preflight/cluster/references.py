"""Which resource of the input a value refers to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import Unknown, dig, mapping


def referred(value: Any, resources: Mapping[str, Resource]) -> Resource | None:
    """Return the resource that a ``Ref`` or an attribute refers to; ``None`` for any other value."""
    return resources.get(value.resource or "") if isinstance(value, Unknown) else None


def refers(value: Any, resource: Resource | None) -> bool:
    """Whether a value is the ``Ref`` or an attribute of a resource."""
    return resource is not None and isinstance(value, Unknown) and value.resource == resource.key


def cluster_resources(cluster: Cluster, *types: str) -> list[Resource]:
    """Return the resources of some types that have a cluster as ``ClusterName``."""
    return [each for each in cluster.resources_of_type(*types) if is_named(each.properties.get("ClusterName"), cluster)]


def created_before(resource: Resource, cluster: Cluster) -> set[str]:
    """Return the keys of resources that are created before a resource: its direct and indirect references."""
    before, found = [*resource.depends_on, *_mentioned(resource.properties)], set[str]()
    while before:
        key = before.pop()
        if key not in found and key in cluster.resources:
            found.add(key)
            before += [*cluster.resources[key].depends_on, *_mentioned(cluster.resources[key].properties)]
    return found


def _mentioned(value: Any) -> Iterator[str]:
    """Yield the keys of the resources that a value refers to."""
    if isinstance(value, Unknown):
        yield from value.resources
    elif isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _mentioned(each)


def is_named(name: Any, cluster: Cluster) -> bool:
    """Whether a name is a cluster's name, refers to it, or has the same text as the cluster's name."""
    own = setting(cluster, "Name")
    return name == cluster.name or refers(name, cluster.resource) or (own is not None and name == own)


def may_be_apart(one: Resource, other: Resource) -> bool:
    """Whether resources of two templates name their cluster. It may be a different cluster in each account."""
    return one.file != other.file and isinstance(one.properties.get("ClusterName"), str)


def setting(cluster: Cluster, *path: str) -> Any:
    """Return a property of a cluster, with its CloudFormation name; ``None`` if it isn't written."""
    if cluster.resource is None:
        return None
    properties = dict(cluster.resource.properties)
    if cluster.resource.type == "AWS::EKS::Cluster":
        return dig(properties, *path)
    # The CDK's aws_eks passes the API's parameters to its custom resource.
    return dig(mapping(properties.get("Config")), *(each[:1].lower() + each[1:] for each in path))
