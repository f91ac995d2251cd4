"""Node groups, Auto Scaling groups, NodePools and the built-in pools of Auto Mode as pools.

Sources: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-nodegroup.html,
https://karpenter.sh/v1.14/concepts/nodepools/, https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html

The module also has the NodePools that EKS Auto Mode creates, which aren't in the input.

Assumption: the requirements come from public copies of both objects (2026-11-23). The AWS page wasn't read.
Source: https://docs.aws.amazon.com/eks/latest/userguide/set-builtin-node-pools.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpu_facts.hardware.catalogue import catalogue, retired
from gpu_facts.labels import (
    ARCH,
    CAPACITY_TYPE,
    COMPUTE_TYPE,
    EKS_CAPACITY_TYPE,
    EKS_DOMAIN,
    NODE_GROUP,
    NODE_POOL,
    OS,
    POOL,
    RESOURCE_TAG,
    ZONE,
)
from gpu_facts.quantities import resources as quantities
from gpu_preflight.cluster.images import class_system, group_system
from gpu_preflight.cluster.references import setting
from gpu_preflight.model import taints
from gpu_preflight.model.cluster import Cluster, Pool, PoolKind
from gpu_preflight.model.label_values import LabelValues, Requirement, exactly, requirement
from gpu_preflight.model.launch import Launch, class_launch, template_launch
from gpu_preflight.reading.cloudformation import Resource, with_asked_sizes
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import (
    Unknown,
    choices,
    dig,
    is_expression,
    is_true,
    items,
    known_number,
    known_text,
    mapping,
    mappings,
)
from gpu_preflight.reading.user_data import read_user_data

_ACTION = "AWS::AutoScaling::ScheduledAction"
# Values of a label without a requirement.
_ANY_OR_NONE = LabelValues(all_but=True, may_be_absent=True)
_EKS_CAPACITY = {"ON_DEMAND": "on-demand", "SPOT": "spot", "CAPACITY_BLOCK": "capacity-block"}
# EKS sets these labels on the nodes of its groups. Their values are known at launch only.
_OF_EVERY_GROUP = (
    NODE_GROUP,
    "eks.amazonaws.com/nodegroup-image",
    "eks.amazonaws.com/sourceLaunchTemplateId",
    "eks.amazonaws.com/sourceLaunchTemplateVersion",
)
_SIZES = ("MinSize", "DesiredCapacity", "MaxSize")
_RESERVATIONS = "capacityReservationSelectorTerms"
_ARCHITECTURES = {"system": ("amd64", "arm64"), "general-purpose": ("amd64",)}
_CRITICAL = {"key": "CriticalAddonsOnly", "effect": "NoSchedule"}


def managed_group(group: Resource, resources: Mapping[str, Resource]) -> Pool:
    """Return the pool of an ``AWS::EKS::Nodegroup``."""
    properties = with_asked_sizes(group.properties, resources)
    template = _launch_template(properties.get("LaunchTemplate"), "Id", "Name", resources)
    launch = _launch_data(template)
    user_data = read_user_data(launch.user_data)
    capacity = properties.get("CapacityType") or "ON_DEMAND"
    labels = _known_labels(mapping(properties.get("Labels")))
    return Pool(
        name=_name(labels, properties.get("NodegroupName"), group),
        kind="managed",
        origin=group.origin,
        instance_types=_types(properties.get("InstanceTypes"), launch.instance_type),
        undecided=_is_undecided(properties.get("InstanceTypes"), launch.instance_type),
        operating_system=group_system(properties.get("AmiType"), launch.image, user_data.format),
        labels=_managed_labels(capacity) | labels | _known_labels(user_data.node_labels),
        taints=(*taints.node_group_taints(properties), *taints.boot_taints(user_data)),
        zones=_zones(properties.get("Subnets"), resources),
        capacity_types=_capacity_types(capacity),
        min_nodes=_non_negative(dig(properties, "ScalingConfig", "MinSize"), absent=1),
        max_nodes=_non_negative(dig(properties, "ScalingConfig", "MaxSize"), absent=2),
        user_data=user_data,
        launch=launch,
        properties=properties,
        resource=group,
        launch_resource=template,
        tags=_tagged(RESOURCE_TAG, mapping(properties.get("Tags"))),
        subnets=tuple(items(properties.get("Subnets"))),
    )


def desired_nodes(pool: Pool) -> int | None:
    """Return the number of nodes that a group starts with; ``None`` if it isn't set or isn't known."""
    return known_number(desired_size(pool))


def desired_size(pool: Pool) -> Any:
    """Return the desired size of a group as it is written; ``None`` if it isn't written."""
    named = dig(pool.properties, "ScalingConfig", "DesiredSize")
    return named if pool.kind == "managed" else pool.properties.get("DesiredCapacity")


def self_managed_group(group: Resource, resources: Mapping[str, Resource]) -> Pool:
    """Return the pool of an ``AWS::AutoScaling::AutoScalingGroup``."""
    properties = with_asked_sizes(group.properties, resources)
    mixed = mapping(properties.get("MixedInstancesPolicy"))
    specification = properties.get("LaunchTemplate") or dig(mixed, "LaunchTemplate", "LaunchTemplateSpecification")
    template = _launch_template(specification, "LaunchTemplateId", "LaunchTemplateName", resources)
    launch = _launch_data(template) or _launch_configuration(properties.get("LaunchConfigurationName"), resources)
    user_data = read_user_data(launch.user_data)
    overrides = [each.get("InstanceType") for each in mappings(dig(mixed, "LaunchTemplate", "Overrides"))]
    tags = group_tags(properties)
    labels = _known_labels(user_data.node_labels)
    return Pool(
        name=_name(labels, properties.get("AutoScalingGroupName"), group),
        kind="self-managed",
        origin=group.origin,
        instance_types=_types(overrides, launch.instance_type),
        undecided=_is_undecided(overrides, launch.instance_type),
        operating_system=group_system("CUSTOM", launch.image, user_data.format),
        labels=labels,
        taints=taints.boot_taints(user_data),
        zones=_zones(properties.get("VPCZoneIdentifier"), resources) or _listed(properties.get("AvailabilityZones")),
        capacity_types=(_group_capacity(launch, mixed),),
        min_nodes=_non_negative(properties.get("MinSize"), absent=None),
        max_nodes=_non_negative(properties.get("MaxSize"), absent=None),
        user_data=user_data,
        launch=launch,
        properties=properties,
        resource=group,
        launch_resource=template,
        tags=_tagged(RESOURCE_TAG, tags),
        subnets=tuple(items(properties.get("VPCZoneIdentifier"))),
    )


def resized(pools: Iterable[Pool], resources: Iterable[Resource]) -> Iterator[Pool]:
    """Yield pools with the sizes that scheduled actions set. It isn't known when an action runs, or whether it ran.

    Source: https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-scheduled-scaling.html (2026-11)
    """
    actions: dict[str, list[Resource]] = {}
    for each in resources:
        if each.type == _ACTION:
            name = each.properties.get("AutoScalingGroupName")
            named = name.resource if isinstance(name, Unknown) else known_text(name)
            actions.setdefault(named or "", []).append(each)
    for pool in pools:
        own = known_text(pool.properties.get("AutoScalingGroupName")) if pool.kind == "self-managed" else None
        key = pool.resource.key if pool.kind == "self-managed" and pool.resource else None
        found = [one for name in (own, key) if name for one in actions.get(name, ())]
        yield _resized(pool, found) if found else pool


def _resized(pool: Pool, actions: list[Resource]) -> Pool:
    if any(isinstance(each.properties.get(size), Unknown) for each in actions for size in _SIZES):
        return replace(pool, max_nodes=None, resized=True, closes=True)
    maxima = [_numbers(each, "MaxSize") for each in actions]
    most = [pool.max_nodes, *(each for one in maxima for each in one)]
    minima = [_numbers(each, "MinSize") + _numbers(each, "DesiredCapacity") for each in actions]
    # If an action sets no minimum, only its desired capacity can reduce the group to the group's minimum.
    starts = max(pool.min_nodes or 0, desired_nodes(pool) or 0)
    sizes = [starts, *(max(each) for each in minima if each)]
    least = 0 in sizes and any(sizes)
    closes = 0 in most and any(most)
    highest = None if None in most else max(each for each in most if each is not None)
    return replace(pool, max_nodes=highest, resized=bool(closes or least), closes=closes)


def _numbers(action: Resource, name: str) -> list[int]:
    number = known_number(action.properties.get(name))
    return [] if number is None else [number]


def node_pool(pool: Object, classes: Iterable[Object], resources: Mapping[str, Resource]) -> Pool:
    """Return the pool of a NodePool of Karpenter or Auto Mode."""
    reference = mapping(dig(pool.spec, "template", "spec", "nodeClassRef"))
    auto = reference.get("group") == EKS_DOMAIN
    node_class = next((each for each in classes if each.name == reference.get("name") and _is_class(each, auto)), None)
    spec = mapping(dig(pool.spec, "template", "spec"))
    launch = class_launch(node_class.spec) if node_class else Launch()
    requirements = tuple(requirement(each) for each in mappings(spec.get("requirements")))
    kind: PoolKind = "auto-mode" if auto else "karpenter"
    limits = quantities(pool.spec.get("limits"))
    subnets = [each.get("id") for each in mappings(launch.written.get("subnetSelectorTerms")) if each.get("id")]
    return Pool(
        name=pool.name,
        kind=kind,
        origin=pool.origin,
        operating_system="bottlerocket" if auto else class_system(launch.written),
        labels=_pool_labels(pool, mapping(dig(pool.spec, "template", "metadata", "labels")), requirements, auto),
        taints=taints.object_taints(spec.get("taints")),
        startup_taints=taints.object_taints(spec.get("startupTaints")),
        zones=_pool_zones(requirements, subnets, resources),
        capacity_types=_pool_capacity(requirements),
        min_nodes=known_number(pool.spec.get("replicas")) or 0,
        max_nodes=limits.pop("nodes", None),
        limits=limits,
        user_data=read_user_data(launch.user_data, encoded=False),
        launch=launch,
        properties=pool.spec,
        requirements=requirements,
        subnets=tuple(subnets),
        weight=known_number(pool.spec.get("weight")) or 0,
        node_class=node_class,
    )


def group_tags(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tags of an Auto Scaling group by key. An unknown key is its expression."""
    return {str(each.get("Key")): each.get("Value") for each in mappings(properties.get("Tags"))}


def is_of_eksctl(pool: Pool) -> bool:
    """Whether eksctl creates a group: its nodes have a label with its name, which changes with each new version."""
    return pool.is_group and "alpha.eksctl.io/nodegroup-name" in pool.labels


def launches_gpus(pool: Pool) -> bool:
    """Whether a group may launch a type with NVIDIA GPUs, current or retired."""
    return any(name in catalogue() or name in retired() for name in pool.instance_types)


def has_open_tags(properties: Mapping[str, Any]) -> bool:
    """Whether an Auto Scaling group may have a tag that is known at deployment only."""
    tags = properties.get("Tags")
    return isinstance(tags, Unknown) or any(isinstance(each, Unknown) for each in items(tags))


def _is_class(candidate: Object, auto: bool) -> bool:
    return candidate.kind == ("NodeClass" if auto else "EC2NodeClass")


def _name(labels: Mapping[str, Any], given: Any, group: Resource) -> str:
    label = labels.get(POOL)
    if isinstance(label, LabelValues) and label.only:
        return label.only
    return known_text(given) or group.path.partition("/")[2] or group.key


def _launch_template(
    specification: Any, by_id: str, by_name: str, resources: Mapping[str, Resource]
) -> Resource | None:
    reference = mapping(specification).get(by_id) or mapping(specification).get(by_name)
    if isinstance(reference, Unknown) and reference.resource:
        return resources.get(reference.resource)
    named = (each for each in resources.values() if each.properties.get("LaunchTemplateName") == reference)
    return next(named, None) if isinstance(reference, str) else None


def _launch_data(template: Resource | None) -> Launch:
    return template_launch(mapping(template.properties.get("LaunchTemplateData"))) if template else Launch()


def _launch_configuration(reference: Any, resources: Mapping[str, Resource]) -> Launch:
    if isinstance(reference, Unknown) and reference.resource in resources:
        return template_launch(resources[str(reference.resource)].properties)
    return Launch()


def _types(*sources: Any) -> tuple[str, ...]:
    for source in sources:
        listed = [one for each in choices(source) for one in _flat(each)]
        names = tuple(dict.fromkeys(one for each in listed for one in choices(each) if isinstance(one, str)))
        if names:
            return names
    return ()


def _flat(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_undecided(*sources: Any) -> bool:
    """Whether deployment chooses among instance types."""
    return any(isinstance(each, Unknown) and each.choices for source in sources for each in _flat(source))


def _capacity_types(capacity: Any) -> tuple[str, ...]:
    name = _EKS_CAPACITY.get(capacity) if isinstance(capacity, str) else None
    return (name,) if name else ()


def _managed_labels(capacity: Any) -> dict[str, LabelValues | Unknown]:
    labels: dict[str, LabelValues | Unknown] = {key: Unknown(f"${{{key}}}") for key in _OF_EVERY_GROUP}
    return labels | _known_labels({EKS_CAPACITY_TYPE: capacity})


def _known_labels(labels: Mapping[str, Any]) -> dict[str, LabelValues | Unknown]:
    return {
        key: value
        if isinstance(value, Unknown)
        else Unknown(str(value))
        if is_expression(str(value))
        else exactly(str(value))
        for key, value in labels.items()
    }


def _listed(values: Any) -> tuple[str | Unknown, ...]:
    return tuple(each for each in items(values) if isinstance(each, (str, Unknown)))


def _zones(subnets: Any, resources: Mapping[str, Resource]) -> tuple[str | Unknown, ...]:
    found: list[str | Unknown] = []
    for subnet in items(subnets):
        resource = resources.get(subnet.resource or "") if isinstance(subnet, Unknown) else None
        zone = resource.properties.get("AvailabilityZone") if resource else None
        found.append(zone if isinstance(zone, (str, Unknown)) else Unknown(f"${{zone of {subnet}}}"))
    return tuple(dict.fromkeys(found))


def _pool_zones(
    requirements: Iterable[Requirement], subnets: list[Any], resources: Mapping[str, Resource]
) -> tuple[str | Unknown, ...]:
    named = [each.values for each in requirements if each.key == ZONE and each.operator == "In" and each.values]
    return tuple(named[0]) if named else _zones(subnets, resources)


def _pool_capacity(requirements: Iterable[Requirement]) -> tuple[str, ...]:
    every = ("on-demand", "spot", "reserved")
    wanted = [each for each in requirements if each.key == CAPACITY_TYPE]
    if not wanted:
        return ("on-demand", "spot")
    return tuple(
        each for each in every if all(one.matches({CAPACITY_TYPE: exactly(each)}).value != "no" for one in wanted)
    )


def _pool_labels(
    pool: Object, labels: Mapping[str, Any], requirements: Iterable[Requirement], auto: bool
) -> dict[str, LabelValues | Unknown]:
    """Return labels that Karpenter sets: from the template, its own, and from requirements with several values."""
    own = {NODE_POOL: exactly(pool.name)}
    if auto:
        own |= {COMPUTE_TYPE: exactly("auto")}
    chosen: dict[str, LabelValues | Unknown] = {}
    for each in requirements:
        left = chosen.get(each.key, _ANY_OR_NONE)
        if each.values is None or isinstance(left, Unknown):
            chosen[each.key] = Unknown(f"${{{each.key}}}")
        elif each.operator != "DoesNotExist":
            chosen[each.key] = each.narrowed(left)
    return chosen | own | _known_labels(labels)


def _group_capacity(launch: Launch, mixed: Mapping[str, Any]) -> str:
    if launch.market == "capacity-block":
        return "capacity-block"
    share = known_number(dig(mixed, "InstancesDistribution", "OnDemandPercentageAboveBaseCapacity"))
    spot = launch.market == "spot" or (share is not None and share < 100)
    return "spot" if spot else "on-demand"


def _non_negative(value: Any, *, absent: int | None) -> int | None:
    if value is None:
        return absent
    number = known_number(value)
    return number if number is None or number >= 0 else None


def _tagged(prefix: str, tags: Mapping[str, Any]) -> dict[str, str]:
    return {
        key.removeprefix(prefix): value
        for key, value in tags.items()
        if key.startswith(prefix) and isinstance(value, str)
    }


def is_visible(pool: Pool) -> bool:
    """Whether a pool's launch template or node class is completely in the input, or a managed group has none."""
    if not pool.is_group:
        return bool(pool.launch)
    if pool.launch_resource is not None:
        return isinstance(pool.launch_resource.properties.get("LaunchTemplateData"), dict)
    if pool.kind == "managed":
        return pool.properties.get("LaunchTemplate") is None
    return bool(pool.launch)


def is_given(value: Any) -> bool:
    """Whether a property certainly has a value; ``Fn::If`` may choose ``AWS::NoValue``."""
    return bool(choices(value)) or (
        value is not None and not (isinstance(value, Unknown) and value.expression.startswith("${Fn::If "))
    )


def launched_groups(cluster: Cluster) -> list[Pool]:
    """Return the groups, including groups without GPUs, whose launch template is in the input."""
    return [pool for pool in cluster.pools if pool.is_group and pool.launch and is_visible(pool)]


def is_capacity_known(pool: Pool) -> bool:
    """Whether the purchase option of a group's instances is known."""
    return not isinstance(pool.properties.get("CapacityType"), Unknown) and not isinstance(pool.launch.market, Unknown)


def is_reserved(pool: Pool) -> bool:
    """Whether the instances of a group use reserved capacity."""
    blocks = "capacity-block" in pool.capacity_types
    return blocks or pool.launch.reservation is not None or pool.launch.reservation_group is not None


def usable_capacity_types(pool: Pool) -> tuple[str, ...]:
    """Return the capacity types that a pool's nodes may have. Without a reservation in its class, none is reserved.

    Source: https://karpenter.sh/docs/tasks/odcrs/ (2026-11)
    """
    none = not pool.is_group and bool(pool.launch) and not pool.launch.written.get(_RESERVATIONS)
    return tuple(each for each in pool.capacity_types if not (none and each == "reserved"))


def is_one_hop(pool: Pool) -> bool:
    """Whether pods outside the host's network can't call the metadata service. A managed group allows two hops."""
    if pool.kind in ("karpenter", "auto-mode"):
        return pool.launch.hop_limit in (None, 1)
    return known_number(pool.launch.hop_limit) == 1


def built_in_pools(cluster: Cluster) -> tuple[Pool, ...]:
    """Return the built-in pools of a cluster; all of them if only deployment sets which."""
    enabled = setting(cluster, "ComputeConfig", "Enabled")
    if cluster.resource is None or not (is_true(enabled) or isinstance(enabled, Unknown)):
        return ()
    written = setting(cluster, "ComputeConfig", "NodePools")
    names = [name for name in _ARCHITECTURES if isinstance(written, Unknown) or _may_name(items(written), name)]
    return tuple(node_pool(_manifest(name, cluster.resource.origin), (), {}) for name in names)


def has_unknown_built_in_pools(cluster: Cluster) -> bool:
    """Whether only deployment sets which built-in pools a cluster has."""
    written = setting(cluster, "ComputeConfig", "NodePools")
    settings = (setting(cluster, "ComputeConfig", "Enabled"), written, *items(written))
    return any(isinstance(each, Unknown) for each in settings)


def _may_name(names: Sequence[Any], name: str) -> bool:
    return any(each == name or isinstance(each, Unknown) for each in names)


def _manifest(name: str, origin: Origin) -> Object:
    requirements = {
        CAPACITY_TYPE: ("In", ["on-demand"]),
        f"{EKS_DOMAIN}/instance-category": ("In", ["c", "m", "r"]),
        f"{EKS_DOMAIN}/instance-generation": ("Gt", ["4"]),
        ARCH: ("In", list(_ARCHITECTURES[name])),
        OS: ("In", ["linux"]),
    }
    spec = {
        "nodeClassRef": {"group": EKS_DOMAIN, "kind": "NodeClass", "name": "default"},
        "requirements": [
            {"key": key, "operator": operator, "values": values} for key, (operator, values) in requirements.items()
        ],
        **({"taints": [_CRITICAL]} if name == "system" else {}),
    }
    content = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": spec}},
    }
    return Object(content, origin)
