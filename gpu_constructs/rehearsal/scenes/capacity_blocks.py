"""Capacity Blocks: their nodes come when a block begins and are gone before it ends, as a stack's schedules say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gpu_constructs.facts.labels import NODE_GROUP
from gpu_constructs.facts.resources import GPU
from gpu_constructs.rehearsal.players.cluster.client import Object
from gpu_constructs.rehearsal.report import Line, Outcome, Report
from gpu_constructs.rehearsal.scenes.scale import STEP_SECONDS
from gpu_constructs.rehearsal.scenes.waiting import wait_for
from gpu_constructs.rehearsal.stage import Stage

SCENE = "Capacity Blocks"


def capacity_blocks(stage: Stage, report: Report) -> None:
    """Play begin and end of the block of every managed group that spends one."""
    eks = stage.aws.client("eks")
    for name in eks.list_nodegroups(clusterName=stage.cluster)["nodegroups"]:
        group = eks.describe_nodegroup(clusterName=stage.cluster, nodegroupName=name)["nodegroup"]
        if group["capacityType"] == "CAPACITY_BLOCK":
            report.add(_played(stage, group))


def _played(stage: Stage, group: dict[str, Any]) -> Iterator[Line]:
    name = group["nodegroupName"]
    start, drain = (_schedule(stage, name, begins) for begins in (True, False))
    if not start or not drain:
        yield _line("nodes come and go with the block", Outcome.NOT_PLAYED, f"{name} has no schedules for both")
        return
    count = _sizes(stage, start)["DesiredSize"]
    block = stage.aws.reserve(**_bought(stage, group), count=count, kind="capacity-block", state="scheduled")
    yield _line("before the block no node is there", _outcome(not _nodes(stage, name)))
    block.state = "active"
    stage.aws.fire(start)
    came = wait_for(lambda: len(_with_gpus(stage, name)) == count or None, 2 * STEP_SECONDS)
    text = f"{len(_nodes(stage, name))} nodes, {len(_with_gpus(stage, name))} with GPUs, of {count}"
    never = "; ".join(stage.nodes.never.values())
    yield _line("at its begin its nodes come, with GPUs", _outcome(bool(came)), text if came else f"{text}; {never}")
    spent = len(block.used)
    yield _line("they spend the block", _outcome(spent == count), f"{spent} of {count}")
    stage.aws.fire(drain)
    gone = wait_for(lambda: not _nodes(stage, name) or None, 2 * STEP_SECONDS)
    left = ", ".join(each["metadata"]["name"] for each in _nodes(stage, name))
    yield _line("before its end its nodes are gone", _outcome(bool(gone)), left)


def _schedule(stage: Stage, group: str, begins: bool) -> str:
    """Return the name of the schedule that has a group begin or end; empty where there is none."""
    scheduler = stage.aws.client("scheduler")
    for each in scheduler.list_schedules()["Schedules"]:
        said = json.loads(scheduler.get_schedule(Name=each["Name"])["Target"]["Input"])
        if said.get("NodegroupName") == group and bool(said["ScalingConfig"]["DesiredSize"]) is begins:
            return str(each["Name"])
    return ""


def _sizes(stage: Stage, schedule: str) -> dict[str, int]:
    told = stage.aws.client("scheduler").get_schedule(Name=schedule)["Target"]["Input"]
    return dict(json.loads(told)["ScalingConfig"])


def _bought(stage: Stage, group: dict[str, Any]) -> dict[str, str]:
    """Return which reservation the launch template of a group names, for what, and where."""
    ec2, template = stage.aws.client("ec2"), group["launchTemplate"]
    data = ec2.describe_launch_template_versions(LaunchTemplateId=template["id"], Versions=[str(template["version"])])[
        "LaunchTemplateVersions"
    ][0]["LaunchTemplateData"]
    [zone] = {each["AvailabilityZone"] for each in ec2.describe_subnets(SubnetIds=group["subnets"])["Subnets"]}
    return {
        "identity": data["CapacityReservationSpecification"]["CapacityReservationTarget"]["CapacityReservationId"],
        "instance_type": data["InstanceType"],
        "zone": zone,
    }


def _nodes(stage: Stage, group: str) -> list[Object]:
    return stage.client.list("/api/v1/nodes", labelSelector=f"{NODE_GROUP}={group}")


def _with_gpus(stage: Stage, group: str) -> list[Object]:
    return [each for each in _nodes(stage, group) if int(each["status"].get("allocatable", {}).get(GPU, 0))]


def _line(promise: str, outcome: Outcome, text: str = "") -> Line:
    return Line(scene=SCENE, promise=promise, outcome=outcome, text=text)


def _outcome(held: bool) -> Outcome:
    return Outcome.HELD if held else Outcome.FAILED
