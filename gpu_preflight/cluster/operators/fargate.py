"""Which pods Fargate profiles take: those run on no node of a pool.

Source, read 2026-11: https://docs.aws.amazon.com/eks/latest/userguide/fargate-profile.html
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from gpu_preflight.cluster.references import of_cluster
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import Unknown, known_text, mapping, mappings

_PROFILES = ("AWS::EKS::FargateProfile", "Custom::AWSCDK-EKS-FargateProfile")


def fargate_profiles(cluster: Cluster) -> list[Resource]:
    """Return the Fargate profiles of a cluster that is in the input."""
    if cluster.resource is None:
        return []
    own = {each.key for each in of_cluster(cluster, *_PROFILES)}
    names = (cluster.name, str(cluster.resource.ref()))
    return [
        each
        for each in cluster.resources_of(*_PROFILES)
        if each.key in own or str(mapping(each.properties.get("Config")).get("clusterName")) in names
    ]


def takes(profile: Resource, workload: Workload) -> bool:
    """Whether a Fargate profile surely takes the pods of a workload."""
    config = mapping(profile.properties.get("Config"))
    selectors = mappings(profile.properties.get("Selectors")) or mappings(config.get("selectors"))
    return any(_selects(each, workload) for each in selectors)


def _selects(selector: Mapping[str, Any], workload: Workload) -> bool:
    namespace = known_text(selector.get("Namespace") or selector.get("namespace"))
    given = selector.get("Labels") or selector.get("labels")
    pairs = [(each.get("Key"), each.get("Value")) for each in mappings(given)] or list(mapping(given).items())
    if namespace is None or isinstance(given, Unknown) or not _matches(workload.namespace, namespace):
        return False
    labels = [(key, value) for key, value in workload.labels.items() if isinstance(value, str)]
    return all(any(_matches(key, str(k)) and _matches(value, str(v)) for key, value in labels) for k, v in pairs)


def _matches(text: str, pattern: str) -> bool:
    """Whether a text is of a pattern with ``*`` and ``?``; brackets mean themselves."""
    return fnmatchcase(text, pattern.replace("[", "[[]"))
