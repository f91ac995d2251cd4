"""Capacity Blocks, reservations and the time at which they are deployed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from gpu_facts.light_dataclasses import dataclass
from gpu_facts.light_patterns import regex
from gpu_facts.today import now
from gpu_preflight.case import Case
from gpu_preflight.cluster.pools import desired_nodes
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import Unknown, dig, known_number, known_text, mapping
from gpu_preflight.rules.rule import Problem, rule

_AT = regex(r"at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)")
_RESERVATIONS = ("AWS::EC2::CapacityReservation", "AWS::EC2::CapacityReservationFleet")
_SCHEDULE, _ACTION = "AWS::Scheduler::Schedule", "AWS::AutoScaling::ScheduledAction"


@dataclass(frozen=True, slots=True)
class Step:
    """A number of nodes that a group is given at some moment.

    Attributes:
        moment: When; ``None`` where it is not known.
        nodes: How many; ``None`` likewise.
        sure: Whether it will be taken.
    """

    moment: datetime | None
    nodes: int | None
    sure: bool


@dataclass(frozen=True, slots=True)
class Block:
    """What is done to a group on a Capacity Block.

    Attributes:
        pool: The group.
        steps: What is known of it: moments and numbers of nodes, in order.
        known: Whether that is all.
    """

    pool: Pool
    steps: list[tuple[datetime, int]]
    known: bool


@rule("GPU290", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html")
def capacity_block_that_is_over(case: Case) -> Iterator[Problem]:
    """Capacity Block that is over.

    Its instances are gone and each launch fails, so that pods that wait for the group never run.

    Fix: Delete the group, or give it the next block.
    """
    for block in _blocks(case):
        moment, nodes = block.steps[-1]
        if nodes == 0 and moment <= now():
            yield Problem.of(block.pool, f"it was drained at {_shown(moment)}", unknown=not block.known)


@rule("GPU291", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html")
def start_of_a_capacity_block_that_is_past(case: Case) -> Iterator[Problem]:
    """Start of a Capacity Block that is past.

    Auto Scaling refuses a scheduled action of the past, and a schedule of the past starts no node: the group stays
    empty while the block is paid for.

    Fix: Leave the schedule out, with this library by CapacityBlock(started=True), and state the nodes.
    """
    for block in _blocks(case):
        starts = [moment for moment, nodes in block.steps if nodes > 0 and moment <= now()]
        over = block.steps[-1][0] <= now()
        has_nodes = (block.pool.min_nodes or 0) > 0 or (desired_nodes(block.pool) or 0) > 0
        if starts and not over and not has_nodes:
            yield Problem.of(block.pool, f"it began at {_shown(starts[0])}", unknown=not block.known)


@rule("GPU369", "error", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-using.html")
def capacity_reservation_that_has_ended(case: Case) -> Iterator[Problem]:
    """Capacity reservation that has ended.

    EC2 refuses to make one that ends in the past, and what targets one that has ended launches nothing.

    Fix: Set a later EndDate, or EndDateType to unlimited.
    """
    cluster = case.cluster
    for resource in cluster.resources_of(*_RESERVATIONS):
        written = known_text(resource.properties.get("EndDate"))
        ends = _moment(written.replace("Z", "+00:00")) if written else None
        if ends is None or ends > now() or resource.properties.get("EndDateType") == "unlimited":
            continue
        text = f"ended at {_shown(ends)}"
        using = [each for each in case.gpu_pools if _target(each) == resource.key]
        for pool in using:
            told = f"the reservation {resource.path} that it targets {text}"
            yield Problem.of(pool, told, unknown=resource.conditional)
        if not using:
            yield Problem(resource, f"the reservation {text}", unknown=resource.conditional)


def _target(pool: Pool) -> str | None:
    target = pool.launch.reservation
    return target.resource if isinstance(target, Unknown) else None


def _blocks(case: Case) -> Iterator[Block]:
    """Return each group on a Capacity Block of which a step is known."""
    for pool in case.gpu_groups:
        if "capacity-block" not in pool.capacity_types:
            continue
        found = _steps(pool, case.cluster)
        steps = [(each.moment, each.nodes) for each in found if each.moment is not None and each.nodes is not None]
        if steps:
            known = len(steps) == len(found) and all(each.sure for each in found)
            yield Block(pool, sorted(steps), known)


def _steps(pool: Pool, cluster: Cluster) -> list[Step]:
    found = [_scheduled(each, pool) for each in cluster.resources_of(_SCHEDULE)]
    found += [_acted(each, pool) for each in cluster.resources_of(_ACTION)]
    return [step for step in found if step is not None]


def _scheduled(schedule: Resource, pool: Pool) -> Step | None:
    """Return the step of a schedule that sets the sizes of a managed group."""
    told = dig(schedule.properties, "Target", "Input")
    asked = mapping(_read(told.expression if isinstance(told, Unknown) else told))
    state = schedule.properties.get("State", "ENABLED")
    sizes = mapping(asked.get("ScalingConfig"))
    if state == "DISABLED" or "DesiredSize" not in sizes or not _names(asked.get("NodegroupName"), pool):
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
    # What recurs goes on after its first time.
    once = action.properties.get("Recurrence") is None
    moment = _moment(start.replace("Z", "+00:00")) if start and once else None
    return Step(moment, known_number(action.properties["DesiredCapacity"]), not action.conditional)


def _moment(text: str) -> datetime | None:
    """Read a moment; without a zone it is in UTC."""
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
    """Whether a name, or what refers to it, is that of the group."""
    if pool.resource is None:
        return False
    own = (pool.properties.get("NodegroupName"), pool.properties.get("AutoScalingGroupName"))
    return Unknown(str(name)).resource == pool.resource.key or (isinstance(name, str) and name in own)


def _shown(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M UTC")
