"""Capacity Blocks and the time at which they are deployed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from gpu_constructs.facts.today import now
from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.model.cluster import Cluster, Pool
from gpu_constructs.preflight.reading.cloudformation import Resource
from gpu_constructs.preflight.reading.unknown import Unknown, dig, known_number, known_text, mapping
from gpu_constructs.preflight.rules.rule import Problem, rule

_AT = re.compile(r"at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)")
_SCHEDULE, _ACTION = "AWS::Scheduler::Schedule", "AWS::AutoScaling::ScheduledAction"


@dataclass(frozen=True, slots=True)
class Step:
    """A number of nodes that a group is given at some moment.

    Attributes:
        moment: When.
        nodes: How many.
    """

    moment: datetime
    nodes: int


@rule("GPU290", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html")
def capacity_block_that_is_over(case: Case) -> Iterator[Problem]:
    """Capacity Block that is over.

    Its instances are gone and each launch fails, so that pods that wait for the group never run.

    Fix: Delete the group, or give it the next block.
    """
    for pool, steps in _blocks(case):
        last = max(steps, key=lambda step: step.moment)
        if last.nodes == 0 and last.moment <= now():
            yield Problem.of(pool, f"it was drained at {_shown(last.moment)}")


@rule("GPU291", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html")
def start_of_a_capacity_block_that_is_past(case: Case) -> Iterator[Problem]:
    """Start of a Capacity Block that is past.

    Auto Scaling refuses a scheduled action of the past, and a schedule of the past starts no node: the group stays
    empty while the block is paid for.

    Fix: Leave the schedule out, with this library by CapacityBlock(started=True), and state the nodes.
    """
    for pool, steps in _blocks(case):
        starts = [step for step in steps if step.nodes > 0 and step.moment <= now()]
        over = max(step.moment for step in steps) <= now()
        if starts and not over:
            yield Problem.of(pool, f"it began at {_shown(starts[0].moment)}")


def _blocks(case: Case) -> Iterator[tuple[Pool, list[Step]]]:
    """Return each group on a Capacity Block with what is done to it at which moment."""
    for pool in case.gpu_groups:
        if "capacity-block" in pool.capacity_types and (steps := _steps(pool, case.cluster)):
            yield pool, steps


def _steps(pool: Pool, cluster: Cluster) -> list[Step]:
    found = [_scheduled(each, pool) for each in cluster.resources_of(_SCHEDULE)]
    found += [_acted(each, pool) for each in cluster.resources_of(_ACTION)]
    return [step for step in found if step is not None]


def _scheduled(schedule: Resource, pool: Pool) -> Step | None:
    """Return the step of a schedule that sets the sizes of a managed group."""
    told = dig(schedule.properties, "Target", "Input")
    asked = mapping(_read(told.expression if isinstance(told, Unknown) else told))
    moment = _AT.fullmatch(known_text(schedule.properties.get("ScheduleExpression")) or "")
    nodes = known_number(dig(asked, "ScalingConfig", "DesiredSize"))
    utc = schedule.properties.get("ScheduleExpressionTimezone", "UTC") == "UTC"
    if moment is None or nodes is None or not utc or not _names(asked.get("NodegroupName"), pool):
        return None
    return Step(datetime.fromisoformat(moment[1]).replace(tzinfo=timezone.utc), nodes)


def _acted(action: Resource, pool: Pool) -> Step | None:
    """Return the step of a scheduled action of an Auto Scaling group."""
    group, start = action.properties.get("AutoScalingGroupName"), known_text(action.properties.get("StartTime"))
    nodes = known_number(action.properties.get("DesiredCapacity"))
    name = group.expression if isinstance(group, Unknown) else group
    if nodes is None or not _names(name, pool) or start is None:
        return None
    try:
        return Step(datetime.fromisoformat(start.replace("Z", "+00:00")).astimezone(timezone.utc), nodes)
    except ValueError:
        return None


def _read(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _names(name: Any, pool: Pool) -> bool:
    """Whether a name, or what refers to it, is that of the group."""
    return pool.resource is not None and Unknown(str(name)).resource == pool.resource.key


def _shown(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M UTC")
