"""Rules for capacity reservations and Capacity Blocks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.hardware.regions import is_reservation_id
from gpu_facts.light import dataclass, regex
from gpu_facts.today import now
from gpu_preflight.case import Case
from gpu_preflight.cluster.network import spans_zones
from gpu_preflight.cluster.pools import desired_nodes, is_given, is_reserved, is_visible, launched_groups
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import Unknown, dig, is_expression, known_number, known_text, mapping
from gpu_preflight.rule import Problem, rule

_BLOCKS = "https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html"
_RESERVATION = "AWS::EC2::CapacityReservation"
_TARGETING = (
    "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/"
    "aws-properties-ec2-launchtemplate-capacityreservationspecification.html"
)
_MAY_BE_AN_ID = regex(r"cr-([^\d]*|[0-9a-z]{8}|[0-9a-z]{17})")
_AT = regex(r"at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)")
_RESERVATIONS = ("AWS::EC2::CapacityReservation", "AWS::EC2::CapacityReservationFleet")
_SCHEDULE, _ACTION = "AWS::Scheduler::Schedule", "AWS::AutoScaling::ScheduledAction"


@dataclass(frozen=True, slots=True)
class Step:
    """A change of a group's number of nodes at some time.

    Attributes:
        moment: The time; ``None`` if it isn't known.
        nodes: Number of nodes; ``None`` if unknown.
        sure: Whether the step certainly runs.
    """

    moment: datetime | None
    nodes: int | None
    sure: bool


@dataclass(frozen=True, slots=True)
class Block:
    """The steps of a group on a Capacity Block.

    Attributes:
        pool: The group.
        steps: The known times and numbers of nodes, in order.
        known: Whether these are all steps.
    """

    pool: Pool
    steps: list[tuple[datetime, int]]
    known: bool


@rule("GPU023", "error", source=_BLOCKS)
def capacity_block_without_all_that_belongs_to_it(case: Case) -> Iterator[Problem]:
    """Capacity Block lacks a required setting.

    EKS rejects the group, or the group launches on demand while the block is paid for.

    Fix: Set CapacityType CAPACITY_BLOCK, and InstanceType, MarketType and reservation id in the launch template.
    """
    for pool in case.cluster.pools:
        if pool.is_group and is_visible(pool):
            for lacks, fix in _lacks_of_block(pool):
                yield Problem.from_subject(pool, lacks, fix=fix)


def _lacks_of_block(pool: Pool) -> Iterator[tuple[str, str]]:
    """Yield what a group on a Capacity Block lacks, and the fix."""
    capacity, bought = pool.properties.get("CapacityType"), pool.launch.market
    if pool.kind == "managed" and capacity != "CAPACITY_BLOCK":
        if bought == "capacity-block" and not isinstance(capacity, Unknown):
            text = f"CapacityType must be CAPACITY_BLOCK as in its launch template, got {capacity or 'ON_DEMAND'}"
            yield text, "Set CapacityType: CAPACITY_BLOCK in the node group."
        return
    if pool.kind == "self-managed" and bought != "capacity-block":
        return
    if not isinstance(bought, Unknown) and bought != "capacity-block":
        text = "its Capacity Block needs InstanceMarketOptions.MarketType capacity-block in a launch template"
        yield text, "Set InstanceMarketOptions: {MarketType: capacity-block} in the launch template of the group."
    if pool.launch.reservation is None and pool.launch.reservation_group is None:
        text = "its launch template doesn't set the reservation id of the Capacity Block"
        field = "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"
        yield text, f"Set {field} in the launch template."
    if pool.kind == "managed" and pool.launch.instance_type is None:
        text = "its launch template doesn't set InstanceType for the Capacity Block"
        yield text, "Set InstanceType in the launch template to the type of the Capacity Block."


@rule("GPU025", "warning", source=_BLOCKS)
def reservation_in_one_zone_and_group_in_several(case: Case) -> Iterator[Problem]:
    """Group has several zones, but its reservation has one.

    Launches in the other zones fail, and Auto Scaling keeps trying them.

    Fix: Give the group only subnets in the zone of the reservation.
    """
    for pool in case.gpu_groups:
        answer = spans_zones(pool)
        one_place = "capacity-block" in pool.capacity_types or is_given(pool.launch.reservation)
        if one_place and pool.zones and answer is not Answer.NO:
            zones = len(set(pool.zones))
            message = f"it has subnets in {zones} zones, but its reservation is in one, so launches in the others fail"
            yield Problem.from_subject(pool, message, unknown=answer is Answer.UNKNOWN)


@rule("GPU026", "error", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html")
def reservation_of_another_type_zone_or_platform(case: Case) -> Iterator[Problem]:
    """Reservation doesn't match the group's type, zone or platform.

    EC2 launches only instances with the reservation's type, zone and platform into it.

    Fix: Set the same type, zone and platform for group and reservation.
    """
    for pool in case.gpu_groups:
        target = pool.launch.reservation
        resource = case.cluster.resources.get(target.resource or "") if isinstance(target, Unknown) else None
        if resource is not None and resource.type == _RESERVATION:
            for unlike, fix in _differences(pool, resource.properties):
                yield Problem.from_subject(pool, f"{unlike}, so launches into the reservation fail", fix=fix)


def _differences(pool: Pool, reserved: Any) -> Iterator[tuple[str, str]]:
    """Yield how a reservation differs from a group, and the fix."""
    kind, zone = known_text(reserved.get("InstanceType")), reserved.get("AvailabilityZone")
    platform = known_text(reserved.get("InstancePlatform"))
    if kind is not None and pool.instance_types and kind not in pool.instance_types:
        types = ", ".join(pool.instance_types)
        text = f"its reservation is for {kind}, but the group launches {types}"
        yield text, f"Set the instance type of the group to {kind}, or reserve {types}."
    known = bool(pool.zones) and all(isinstance(each, str) for each in pool.zones)
    if isinstance(zone, str) and known and zone not in pool.zones:
        text = f"its reservation is in {zone}, but the group is in {', '.join(str(each) for each in pool.zones)}"
        yield text, f"Give the group only subnets in {zone}, or reserve capacity in its zone."
    if platform is not None and platform != "Linux/UNIX":
        text = f"its reservation is for {platform}, but EKS images are Linux/UNIX"
        yield text, "Set InstancePlatform of the reservation to Linux/UNIX."


@rule("GPU027", "warning", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html")
def reservation_that_nobody_uses(case: Case) -> Iterator[Problem]:
    """No pool uses the reservation.

    A targeted reservation accepts only launches that name it, but it is always paid for.

    Fix: Name it in CapacityReservationTarget of the launch template, or set InstanceMatchCriteria to open.
    """
    cluster = case.cluster
    if _may_target_any(cluster):
        return
    for resource in cluster.resources_of_type(_RESERVATION):
        kind = known_text(resource.properties.get("InstanceType"))
        targeted = resource.properties.get("InstanceMatchCriteria") == "targeted"
        if targeted and kind in catalogue() and not _is_named(resource, cluster):
            text = f"no pool uses reservation {resource.path} of {_size(resource)}{kind}, which is billed"
            yield Problem(resource, text)


def _is_named(resource: Resource, cluster: Cluster) -> bool:
    reference = resource.ref().expression.removesuffix("}")
    return any(reference in json.dumps(dict(each.properties), default=str) for each in cluster.resources.values())


def _size(resource: Resource) -> str:
    count = known_number(resource.properties.get("InstanceCount"))
    return f"{count} " if count is not None else ""


def _may_target_any(cluster: Cluster) -> bool:
    """Whether a pool may use reservations that it doesn't name, or that aren't visible."""
    classes = (
        each.spec.get("capacityReservationSelectorTerms")
        for each in cluster.objects_of_kind("EC2NodeClass", "NodeClass")
    )
    unseen = any(pool.is_group and not is_visible(pool) for pool in cluster.pools)
    grouped = any(pool.launch.reservation_group is not None for pool in cluster.pools)
    return unseen or grouped or any(classes) or not cluster.whole


@rule("GPU028", "warning", source=_BLOCKS)
def nodes_requested_before_a_capacity_block_begins(case: Case) -> Iterator[Problem]:
    """Group requests nodes before its Capacity Block starts.

    Before the start, each launch fails, and so does the deployment that waits for the nodes.

    Fix: Set MinSize and DesiredSize to 0, and scale up by a scheduled action when the block has started.
    """
    for pool in case.gpu_groups:
        desired = known_number(dig(pool.properties, "ScalingConfig", "DesiredSize"))
        wanted = max(pool.min_nodes or 0, desired or 0, known_number(pool.properties.get("DesiredCapacity")) or 0)
        if "capacity-block" in pool.capacity_types and wanted > 0:
            nodes = f"{wanted} node{'' if wanted == 1 else 's'}"
            text = f"it requests {nodes} at deployment, which fails if its Capacity Block hasn't started"
            yield Problem.from_subject(pool, text, unknown=True)


@rule("GPU029", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html")
def update_that_needs_more_nodes_than_are_reserved(case: Case) -> Iterator[Problem]:
    """Update needs more nodes than are reserved.

    By default, an update first launches new nodes. Without capacity for them, it fails after a long time.

    Fix: Set UpdateConfig.UpdateStrategy to MINIMAL.
    """
    for pool in case.gpu_groups:
        update = pool.properties.get("UpdateConfig")
        strategy = mapping(update).get("UpdateStrategy")
        fits = isinstance(update, Unknown) or isinstance(strategy, Unknown) or strategy == "MINIMAL"
        if pool.kind == "managed" and is_reserved(pool) and not fits:
            reserved = pool.max_nodes or "MaxSize"
            message = (
                f"an update first launches nodes in addition to the {reserved} reserved ones, and fails if EC2 has none"
            )
            yield Problem.from_subject(pool, message)


@rule("GPU386", "error", source=_TARGETING)
def reservation_by_something_else_than_its_id(case: Case) -> Iterator[Problem]:
    """Reservation isn't named by its id.

    EC2 rejects each launch: a reservation must be named by its id, and only a group of reservations by its ARN.

    Fix: Set CapacityReservationId in the launch template to the id that 'aws ec2 describe-capacity-reservations' lists.
    For a group of reservations, set CapacityReservationResourceGroupArn instead.
    """
    for pool in launched_groups(case.cluster):
        target = pool.launch.reservation
        if isinstance(target, str) and not is_reservation_id(target) and not is_expression(target):
            # cr-xxxxxxxxxxxxxxxxx may be a placeholder, and no source excludes letters after f.
            filled_in = _MAY_BE_AN_ID.fullmatch(target) is not None
            text = f"its launch template must target a reservation id, cr- and 17 hexadecimal digits, got {target!r}"
            yield Problem.from_subject(pool, text, unknown=filled_in)


@rule("GPU030", "error", source=_TARGETING)
def reservation_targeted_and_preferred_at_once(case: Case) -> Iterator[Problem]:
    """Launch template sets both a reservation target and a preference.

    EC2 accepts only one of the two and rejects the launch.

    Fix: Remove CapacityReservationPreference.
    """
    for pool in launched_groups(case.cluster):
        preference = pool.launch.reservation_preference
        if is_given(preference) and is_given(pool.launch.reservation_target):
            text = f"its launch template sets both CapacityReservationPreference {preference} and a target reservation"
            yield Problem.from_subject(pool, text)


@rule("GPU290", "error", source=_BLOCKS)
def capacity_block_that_is_over(case: Case) -> Iterator[Problem]:
    """Capacity Block is over.

    Its instances are gone and each launch fails, so pods that wait for the group never run.

    Fix: Delete the group, or give it the next block.
    """
    for block in _blocks(case):
        moment, nodes = block.steps[-1]
        if nodes == 0 and moment <= now():
            text = f"its Capacity Block is over: its schedule removed all nodes at {_format_time(moment)}"
            yield Problem.from_subject(block.pool, text, unknown=not block.known)


@rule("GPU291", "error", source=_BLOCKS)
def start_of_a_capacity_block_that_is_past(case: Case) -> Iterator[Problem]:
    """Scheduled start of a Capacity Block is in the past.

    Auto Scaling rejects a scheduled action in the past, and a schedule in the past starts no node. The group stays
    empty while the block is paid for.

    Fix: Remove the schedule (with this library: CapacityBlock(started=True)), and set the number of nodes.
    """
    for block in _blocks(case):
        starts = [moment for moment, nodes in block.steps if nodes > 0 and moment <= now()]
        over = block.steps[-1][0] <= now()
        has_nodes = (block.pool.min_nodes or 0) > 0 or (desired_nodes(block.pool) or 0) > 0
        if starts and not over and not has_nodes:
            text = (
                f"the start of its Capacity Block at {_format_time(starts[0])} is in the past, so its schedule starts "
                "no node"
            )
            yield Problem.from_subject(block.pool, text, unknown=not block.known)


@rule("GPU369", "error", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-using.html")
def capacity_reservation_that_has_ended(case: Case) -> Iterator[Problem]:
    """Capacity reservation has ended.

    EC2 rejects a reservation that ends in the past, and launches that target an ended reservation fail.

    Fix: Set a later EndDate, or remove EndDate and EndDateType.
    """
    cluster = case.cluster
    for resource in cluster.resources_of_type(*_RESERVATIONS):
        written = known_text(resource.properties.get("EndDate"))
        ends = _moment(written.replace("Z", "+00:00")) if written else None
        if ends is None or ends > now() or resource.properties.get("EndDateType") == "unlimited":
            continue
        text = f"ended at {_format_time(ends)}"
        using = [each for each in case.gpu_pools if _target(each) == resource.key]
        for pool in using:
            message = f"its target reservation {resource.path} {text}, so its launches fail"
            yield Problem.from_subject(pool, message, unknown=resource.conditional)
        if not using:
            message = f"reservation {resource.path} {text}, so EC2 doesn't create it"
            yield Problem(resource, message, unknown=resource.conditional)


def _target(pool: Pool) -> str | None:
    target = pool.launch.reservation
    return target.resource if isinstance(target, Unknown) else None


def _blocks(case: Case) -> Iterator[Block]:
    """Return each group on a Capacity Block with at least one known step."""
    for pool in case.gpu_groups:
        if "capacity-block" not in pool.capacity_types:
            continue
        found = _steps(pool, case.cluster)
        steps = [(each.moment, each.nodes) for each in found if each.moment is not None and each.nodes is not None]
        if steps:
            known = len(steps) == len(found) and all(each.sure for each in found)
            yield Block(pool, sorted(steps), known)


def _steps(pool: Pool, cluster: Cluster) -> list[Step]:
    found = [_scheduled(each, pool) for each in cluster.resources_of_type(_SCHEDULE)]
    found += [_acted(each, pool) for each in cluster.resources_of_type(_ACTION)]
    return [step for step in found if step is not None]


def _scheduled(schedule: Resource, pool: Pool) -> Step | None:
    """Return the step of a schedule that sets the sizes of a managed group."""
    written = dig(schedule.properties, "Target", "Input")
    wanted = mapping(_read(written.expression if isinstance(written, Unknown) else written))
    state = schedule.properties.get("State", "ENABLED")
    sizes = mapping(wanted.get("ScalingConfig"))
    if state == "DISABLED" or "DesiredSize" not in sizes or not _names(wanted.get("NodegroupName"), pool):
        return None
    at = _AT.fullmatch(known_text(schedule.properties.get("ScheduleExpression")) or "")
    utc = schedule.properties.get("ScheduleExpressionTimezone", "UTC") == "UTC"
    moment = _moment(at[1]) if at and utc else None
    return Step(moment, known_number(sizes["DesiredSize"]), not schedule.conditional and state == "ENABLED")


def _acted(action: Resource, pool: Pool) -> Step | None:
    """Return the step of a scheduled action of an Auto Scaling group."""
    group = action.properties.get("AutoScalingGroupName")
    name = group.expression if isinstance(group, Unknown) else group
    if "DesiredCapacity" not in action.properties or not _names(name, pool):
        return None
    start = known_text(action.properties.get("StartTime"))
    # A recurring action continues after its first time.
    once = action.properties.get("Recurrence") is None
    moment = _moment(start.replace("Z", "+00:00")) if start and once else None
    return Step(moment, known_number(action.properties["DesiredCapacity"]), not action.conditional)


def _moment(text: str) -> datetime | None:
    """Parse a time; without a time zone it is in UTC."""
    try:
        read = datetime.fromisoformat(text)
        return (read if read.tzinfo else read.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None


def _read(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def _names(name: Any, pool: Pool) -> bool:
    """Whether a name, or a reference, is the group's name."""
    if pool.resource is None:
        return False
    own = (pool.properties.get("NodegroupName"), pool.properties.get("AutoScalingGroupName"))
    return Unknown(str(name)).resource == pool.resource.key or (isinstance(name, str) and name in own)


def _format_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M UTC")
