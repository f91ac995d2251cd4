"""Sorts an input by cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpu_facts.labels import AUTOSCALED_BY_TAG, CLUSTER_TAG
from gpu_preflight.cluster.observed import RunningCluster
from gpu_preflight.cluster.pools import (
    group_tags,
    launches_gpus,
    managed_group,
    node_pool,
    resized,
    self_managed_group,
)
from gpu_preflight.cluster.scalers import scaled
from gpu_preflight.cluster.software import software
from gpu_preflight.cluster.subnets import with_class_zones
from gpu_preflight.cluster.workloads import workloads
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.discovery import bounded
from gpu_preflight.model.software import Addon, Autoscaler
from gpu_preflight.model.startup_taints import with_startup_taints
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.documents import UnusableInput
from gpu_preflight.reading.embedded import parse_embedded
from gpu_preflight.reading.inputs import Input
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, is_true, known_text, mapping

# aws_eks of the CDK makes its clusters through a custom resource.
_CLUSTER = "AWS::EKS::Cluster"
_CUSTOM_CLUSTER = "Custom::AWSCDK-EKS-Cluster"
_OWNER_TAGS = (CLUSTER_TAG, AUTOSCALED_BY_TAG)
_NOT_OWNERS = ("enabled", "node-template")
_GROUP = "AWS::AutoScaling::AutoScalingGroup"
# What images and user data of groups say that are no nodes of EKS.
_OTHER_SERVICES = ("ecs", "slurm", "parallelcluster", "batch")
UNNAMED = "(cluster)"
# Every rule looks at every resource for each cluster, and at every pool for each pod.
MAX_CLUSTERS = 500
MAX_PAIRS = 5_000_000


def clusters(given: Input) -> tuple[Cluster, ...]:
    """Return every cluster that an input tells of; what names no cluster belongs to each.

    Raises:
        UnusableInput: There are too many clusters, or too many pools and pods in one.
    """
    owned = {each.key: each for each in given.resources.values() if each.type in (_CLUSTER, _CUSTOM_CLUSTER)}
    names = {key: _name(each) for key, each in owned.items()}
    places = _Places(given.resources, names)
    found = dict.fromkeys((*names.values(), *places.mentioned(given)))
    if len(found) * max(len(given.alternatives), 1) > MAX_CLUSTERS:
        raise UnusableInput(f"input must tell of at most {MAX_CLUSTERS} clusters, got {len(found):,}; name fewer files")
    alternatives = tuple(given.alternatives) or ("",)
    made = tuple(_cluster(name, given, places, one) for name in found or (UNNAMED,) for one in alternatives)
    first = replace(
        made[0],
        unclaimed=_unclaimed(given, places),
        repeated=given.repeated,
        dangling=given.dangling,
        broken=given.broken,
    )
    return (first, *made[1:])


def _unclaimed(given: Input, places: _Places) -> tuple[Pool, ...]:
    """Return the Auto Scaling groups of GPU instances that name no cluster, nor another service as theirs."""
    groups = [each for each in given.resources.values() if each.type == _GROUP and places.of_group(each) is None]
    pools = [self_managed_group(each, given.resources) for each in groups]
    return tuple(each for each in pools if launches_gpus(each) and not _is_of_another_service(each))


def _is_of_another_service(group: Pool) -> bool:
    told = f"{group.launch.image} {group.user_data.text}".lower()
    return any(sign in told for sign in _OTHER_SERVICES)


def _name(cluster: Resource) -> str:
    properties = _cluster_properties(cluster)
    return known_text(properties.get("Name")) or cluster.path


def _cluster_properties(cluster: Resource) -> dict[str, Any]:
    """Return the properties of a cluster in CloudFormation's spelling."""
    if cluster.type == _CLUSTER:
        return dict(cluster.properties)
    config = mapping(cluster.properties.get("Config"))
    return {key[:1].upper() + key[1:]: value for key, value in config.items()}


class _Places:
    """Tells by which name a resource or an object calls its cluster."""

    def __init__(self, resources: Mapping[str, Resource], names: Mapping[str, str]) -> None:
        self._resources, self._names = resources, names
        self._of_groups: dict[str, str | None] = {}
        self._owners: dict[str, Resource] = {}
        self._named: dict[str, str] = {}
        for key, name in names.items():
            self._owners.setdefault(name, resources[key])
            written = _cluster_properties(resources[key]).get("Name")
            if isinstance(written, Unknown):
                self._named.setdefault(written.expression, name)

    def resource(self, name: str) -> Resource | None:
        """Return the cluster of a name, when it is in the input."""
        return self._owners.get(name)

    def name(self, reference: Any) -> str | None:
        """Return the name of the cluster that a reference means, ``None`` without a reference."""
        if isinstance(reference, Unknown):
            named = self._named.get(reference.expression, reference.expression)
            return self._names.get(reference.resource or "", named)
        return known_text(reference)

    def of_group(self, group: Resource) -> str | None:
        """Return the cluster of an Auto Scaling group, by its tags or its user data; ``None`` for no node group."""
        if group.key not in self._of_groups:
            self._of_groups[group.key] = self._of_group(group)
        return self._of_groups[group.key]

    def _of_group(self, group: Resource) -> str | None:
        for key in group_tags(group.properties):
            for prefix in _OWNER_TAGS:
                rest = key.removeprefix(prefix)
                if rest != key and rest and not rest.startswith(_NOT_OWNERS):
                    return self.name(Unknown(rest) if rest.startswith("${") else rest)
        pool = self_managed_group(group, self._resources)
        told = dig(pool.user_data.node_config, "cluster", "name") or dig(
            dict(pool.user_data.settings), "kubernetes", "cluster-name"
        )
        if told is None:
            return None
        if isinstance(told, str) and told.startswith("${"):
            told = Unknown(told)
        return self.name(told)

    def mentioned(self, given: Input) -> Iterable[str]:
        """Yield the clusters that something refers to, in the order of the input."""
        for resource in given.resources.values():
            reference = (
                self.of_group(resource)
                if resource.type == _GROUP
                else self.name(resource.properties.get("ClusterName"))
            )
            if reference is not None:
                yield reference


def _cluster(name: str, given: Input, places: _Places, alternative: str) -> Cluster:
    resource = places.resource(name)
    properties = _cluster_properties(resource) if resource else {}
    here = ("", alternative)
    objects = [each for each in given.objects if each.alternative in here and places.name(each.cluster) in (name, None)]
    charts = [each for each in given.charts if each.alternative in here and places.name(each.cluster) in (name, None)]
    addons = [_addon(each) for each in _of_type(given, "AWS::EKS::Addon", name, places)]
    runs = software(objects, charts, addons)
    auto_mode = is_true(dig(properties, "ComputeConfig", "Enabled"))
    pools = with_class_zones(_pools(name, given, places, objects), _subnets(properties), given.resources)
    pools = with_startup_taints(bounded(pools, runs.autoscalers), runs.autoscalers)
    running = RunningCluster(objects)
    observed, not_seen = running.pools(pools), tuple(running.unread(pools))
    pools = tuple(running.with_use(pools))
    pods = scaled(workloads(objects), objects)
    # Pods that are alike are judged once.
    unlike = {(id(each.pod), each.replicas) for each in pods}
    if len(pools) * len(unlike) > MAX_PAIRS:
        many = f"{len(pools):,} pools and {len(unlike):,} unlike workloads"
        raise UnusableInput(f"cluster {name[:200]} must have at most {MAX_PAIRS:,} pairs of them, got {many}")
    return Cluster(
        name=name,
        alternative=alternative,
        assumed=given.assumed,
        resource=resource,
        version=_minor(properties.get("Version")) or _version_of(pools),
        auto_mode=auto_mode,
        pools=pools,
        objects=tuple(objects),
        charts=tuple(charts),
        addons=tuple(addons),
        daemon_sets=runs.daemon_sets,
        opaque=runs.opaque,
        unread=(*given.problems, *given.alternatives.get(alternative, ()), *not_seen),
        observed=observed,
        autoscalers=(*runs.autoscalers, *_auto_mode(resource, auto_mode)),
        workloads=pods,
        resources=given.resources,
    )


def _subnets(properties: Mapping[str, Any]) -> Any:
    """Return the subnets of a cluster, as CloudFormation or the custom resource of the CDK names them."""
    network = mapping(properties.get("ResourcesVpcConfig"))
    return network.get("SubnetIds", network.get("subnetIds"))


def _minor(version: Any) -> str | None:
    """Return a minor version, which YAML makes a number where it is not quoted."""
    return str(version) if isinstance(version, float) else known_text(version)


def _version_of(pools: Iterable[Pool]) -> str | None:
    return next((text for each in pools if (text := _minor(each.properties.get("Version")))), None)


def _of_type(given: Input, kind: str, cluster: str, places: _Places) -> list[Resource]:
    return [
        each
        for each in given.resources.values()
        if each.type == kind and places.name(each.properties.get("ClusterName")) == cluster
    ]


def _addon(resource: Resource) -> Addon:
    return Addon(
        name=known_text(resource.properties.get("AddonName")) or str(resource.properties.get("AddonName")),
        version=known_text(resource.properties.get("AddonVersion")),
        configuration=mapping(parse_embedded(resource.file, resource.properties.get("ConfigurationValues"))),
        resource=resource,
    )


def _pools(name: str, given: Input, places: _Places, objects: list[Object]) -> tuple[Pool, ...]:
    found = [managed_group(each, given.resources) for each in _of_type(given, "AWS::EKS::Nodegroup", name, places)]
    for each in given.resources.values():
        if each.type == _GROUP and places.of_group(each) == name:
            found.append(self_managed_group(each, given.resources))
    classes = [each for each in objects if each.kind in ("EC2NodeClass", "NodeClass")]
    found += [node_pool(each, classes, given.resources) for each in objects if each.kind == "NodePool"]
    return tuple(resized(found, given.resources.values()))


def _auto_mode(cluster: Resource | None, enabled: bool) -> list[Autoscaler]:
    if cluster is None or not enabled:
        return []
    return [Autoscaler("auto-mode", cluster.origin)]
