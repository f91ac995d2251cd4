"""Groups that take their instances out of a capacity reservation or a Capacity Block."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gpu_constructs.hardware.catalogue import catalogue
from gpu_constructs.preflight.answer import Answer
from gpu_constructs.preflight.cloudformation import Resource
from gpu_constructs.preflight.launch import (
    gpu_groups,
    is_given,
    is_reserved,
    is_visible,
    launched_groups,
    market,
    reservation,
    reservation_group,
)
from gpu_constructs.preflight.model import Cluster, Origin, Pool
from gpu_constructs.preflight.rules.rule import OutOfReach, Problem, Rule
from gpu_constructs.preflight.unknown import Unknown, dig, known_number, known_text, mapping
from gpu_constructs.preflight.zones import spans_zones

_BLOCKS = "https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html"
_RESERVATION = "AWS::EC2::CapacityReservation"
_TARGETING = (
    "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/"
    "aws-properties-ec2-launchtemplate-capacityreservationspecification.html"
)


def _incomplete_block(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.pools:
        if pool.is_group and is_visible(pool):
            for lacks in _lacks_of_block(pool):
                yield Problem(pool.origin, f"pool {pool.name}: {lacks}")


def _lacks_of_block(pool: Pool) -> Iterator[str]:
    capacity, bought = pool.properties.get("CapacityType"), market(pool)
    if pool.kind == "managed" and capacity != "CAPACITY_BLOCK":
        if bought == "capacity-block" and not isinstance(capacity, Unknown):
            yield f"the launch template buys from a Capacity Block, CapacityType is {capacity or 'ON_DEMAND'}"
        return
    if pool.kind == "self-managed" and bought != "capacity-block":
        return
    if not isinstance(bought, Unknown) and bought != "capacity-block":
        yield "a Capacity Block needs InstanceMarketOptions.MarketType capacity-block in a launch template"
    if reservation(pool) is None and reservation_group(pool) is None:
        yield "the launch template names no reservation of the Capacity Block"
    if pool.kind == "managed" and pool.launch.get("InstanceType") is None:
        yield "the launch template names no InstanceType for the Capacity Block"


def _several_zones(cluster: Cluster) -> Iterator[Problem]:
    for pool in gpu_groups(cluster):
        answer = spans_zones(pool)
        one_place = "capacity-block" in pool.capacity_types or is_given(reservation(pool))
        if one_place and pool.zones and answer is not Answer.NO:
            message = (
                f"pool {pool.name}: a reservation is in one Availability Zone, the group has {len(set(pool.zones))}"
            )
            yield Problem(pool.origin, message, unknown=answer is Answer.UNKNOWN)


def _unlike_reservation(cluster: Cluster) -> Iterator[Problem]:
    for pool in gpu_groups(cluster):
        target = reservation(pool)
        resource = cluster.resources.get(target.resource or "") if isinstance(target, Unknown) else None
        if resource is not None and resource.type == _RESERVATION:
            for unlike in _differences(pool, resource.properties):
                yield Problem(pool.origin, f"pool {pool.name}: {unlike}")


def _differences(pool: Pool, reserved: Any) -> Iterator[str]:
    kind, zone = known_text(reserved.get("InstanceType")), reserved.get("AvailabilityZone")
    platform = known_text(reserved.get("InstancePlatform"))
    if kind is not None and pool.instance_types and kind not in pool.instance_types:
        yield f"reserved are {kind}, the group launches {', '.join(pool.instance_types)}"
    known = bool(pool.zones) and all(isinstance(each, str) for each in pool.zones)
    if isinstance(zone, str) and known and zone not in pool.zones:
        yield f"the reservation is in {zone}, the group in {', '.join(str(each) for each in pool.zones)}"
    if platform is not None and platform != "Linux/UNIX":
        yield f"the reservation is for {platform}, EKS images are Linux/UNIX"


def _unused_reservation(cluster: Cluster) -> Iterator[Problem]:
    if _may_target_any(cluster):
        return
    for resource in cluster.resources_of(_RESERVATION):
        kind = known_text(resource.properties.get("InstanceType"))
        targeted = resource.properties.get("InstanceMatchCriteria") == "targeted"
        if targeted and kind in catalogue() and not _is_named(resource, cluster):
            yield Problem(_place(resource), f"no pool targets the reservation of {_size(resource)}{kind}")


def _is_named(resource: Resource, cluster: Cluster) -> bool:
    reference = resource.ref().expression.removesuffix("}")
    return any(reference in json.dumps(dict(each.properties), default=str) for each in cluster.resources.values())


def _place(resource: Resource) -> Origin:
    return Origin(resource.file, resource.path, resource.key)


def _size(resource: Resource) -> str:
    count = known_number(resource.properties.get("InstanceCount"))
    return f"{count} " if count is not None else ""


def _may_target_any(cluster: Cluster) -> bool:
    """Whether something may use reservations that it does not name, or that cannot be seen."""
    classes = (
        each.spec.get("capacityReservationSelectorTerms") for each in cluster.of_kind("EC2NodeClass", "NodeClass")
    )
    unseen = any(pool.is_group and not is_visible(pool) for pool in cluster.pools)
    grouped = any(reservation_group(pool) is not None for pool in cluster.pools)
    return unseen or grouped or any(classes) or not cluster.whole


def _asks_at_once(cluster: Cluster) -> Iterator[Problem]:
    for pool in gpu_groups(cluster):
        desired = known_number(dig(dict(pool.properties), "ScalingConfig", "DesiredSize"))
        asked = max(pool.min_nodes or 0, desired or 0, known_number(pool.properties.get("DesiredCapacity")) or 0)
        if "capacity-block" in pool.capacity_types and asked > 0:
            nodes = f"{asked} node{'' if asked == 1 else 's'}"
            yield Problem(pool.origin, f"pool {pool.name}: asks for {nodes} when it is deployed", unknown=True)


def _update_needs_more(cluster: Cluster) -> Iterator[Problem]:
    for pool in gpu_groups(cluster):
        update = pool.properties.get("UpdateConfig")
        strategy = mapping(update).get("UpdateStrategy")
        said = isinstance(update, Unknown) or isinstance(strategy, Unknown) or strategy == "MINIMAL"
        if pool.kind == "managed" and is_reserved(pool) and not said:
            message = f"pool {pool.name}: an update first launches more nodes than {pool.max_nodes or 'MaxSize'}"
            yield Problem(pool.origin, message)


def _two_ways(cluster: Cluster) -> Iterator[Problem]:
    for pool in launched_groups(cluster):
        specification = mapping(pool.launch.get("CapacityReservationSpecification"))
        names = ("CapacityReservationPreference", "CapacityReservationTarget")
        if all(is_given(specification.get(name)) for name in names):
            preference = specification[names[0]]
            yield Problem(pool.origin, f"pool {pool.name}: preference {preference} beside a reservation to target")


RULES = (
    Rule(
        id="GPU023",
        severity="error",
        title="Capacity Block without all that belongs to it",
        why="EKS refuses the group, or it buys on demand while the block is paid for.",
        source=_BLOCKS,
        fix="Set CapacityType CAPACITY_BLOCK, and InstanceType, MarketType and reservation id in the launch template.",
        causes=("A11", "P040"),
        check=_incomplete_block,
    ),
    Rule(
        id="GPU025",
        severity="warning",
        title="Reservation in one zone, group in several",
        why="Launches in the other zones fail, and Auto Scaling goes on trying them.",
        source=_BLOCKS,
        fix="Give the group only subnets in the zone of the reservation.",
        causes=("A8", "P040"),
        check=_several_zones,
    ),
    Rule(
        id="GPU026",
        severity="error",
        title="Reservation of something else",
        why="EC2 launches into a reservation only what has its type, zone and platform.",
        source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html",
        fix="Make type, zone and platform of group and reservation the same.",
        causes=("A8", "A10"),
        check=_unlike_reservation,
    ),
    Rule(
        id="GPU027",
        severity="warning",
        title="Reservation that nobody uses",
        why="A targeted reservation takes only launches that name it; it is paid for all the same.",
        source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html",
        fix="Name it in CapacityReservationTarget of the launch template, or make it open.",
        causes=("A10",),
        check=_unused_reservation,
    ),
    Rule(
        id="GPU028",
        severity="warning",
        title="Nodes asked for before a Capacity Block begins",
        why="Before its start each launch fails, and so does the deployment that waits for the nodes.",
        source=_BLOCKS,
        fix="Set MinSize and DesiredSize to 0, and scale up by a scheduled action when the block has begun.",
        causes=("A9",),
        check=_asks_at_once,
    ),
    Rule(
        id="GPU029",
        severity="warning",
        title="Update that needs more nodes than are reserved",
        why="By default an update launches new nodes first; without capacity for them it fails after a long time.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html",
        fix="Set UpdateConfig.UpdateStrategy to MINIMAL.",
        causes=("B26",),
        check=_update_needs_more,
    ),
    Rule(
        id="GPU030",
        severity="error",
        title="Reservation targeted and preferred at once",
        why="EC2 takes one of the two and refuses the launch.",
        source=_TARGETING,
        fix="Remove CapacityReservationPreference.",
        causes=("A10",),
        check=_two_ways,
    ),
)

OUT_OF_REACH = (
    OutOfReach(
        "A12",
        "The Capacity Block has ended, and EKS has scaled the group to zero.",
        "When a block ends is in no template; ec2:DescribeCapacityReservations says it.",
    ),
)
