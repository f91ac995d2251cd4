"""Answers how many nodes a managed node group has, and tags its Auto Scaling group: one Lambda function in one file.

EKS takes the three sizes of a group together or not at all, and a template that states the wanted one sets back what an
autoscaler has made of it. So the template asks, and gets the number that runs.
"""

from __future__ import annotations

import json
import time
import urllib.request
from datetime import datetime, timezone
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

# In an upgrade every group of a cluster is asked about at once.
RETRIES = Config(retries={"mode": "adaptive", "max_attempts": 10})
# A group that never came up, or is on its way out, has no number.
GONE = ("CREATE_FAILED", "DELETING")


def handler(event: dict[str, Any], _context: object) -> None:
    """Answer CloudFormation."""
    answer: dict[str, Any] = {"Status": "SUCCESS", "Data": {}}
    # The id of a size ends with the last answer, since a rollback is sent nothing else of it. CloudFormation then
    # deletes the resource of the older id, which does nothing.
    answer["PhysicalResourceId"] = event.get("PhysicalResourceId") or event["LogicalResourceId"]
    try:
        if "Tags" in event["ResourceProperties"]:
            until_allowed(lambda: tag(event))
        elif event["RequestType"] != "Delete":
            answer["Data"] = found = until_allowed(lambda: size(event))
            answer["PhysicalResourceId"] = f"{event['LogicalResourceId']}:{found['DesiredSize']}"
    except Exception as error:
        answer |= {"Status": "FAILED", "Reason": f"{type(error).__name__}: {error}"}
    answer |= {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    text = json.dumps(answer)
    print(text)
    # The address may be signed for no content type, and urllib would say one.
    put = urllib.request.Request(event["ResponseURL"], text.encode(), {"Content-Type": ""}, method="PUT")
    urllib.request.urlopen(put, timeout=30)


def until_allowed(call: Any) -> Any:
    """Return what a call returns; the permissions of a role that was made with this function take seconds."""
    for seconds in (5, 10, 20):
        try:
            return call()
        except ClientError as error:
            if "AccessDenied" not in error.response["Error"]["Code"]:
                raise
            time.sleep(seconds)
    return call()


def size(event: dict[str, Any]) -> dict[str, int]:
    """Return the sizes that hold now; in a rollback whatever happens, and no number below the last answer."""
    asked = event["ResourceProperties"]
    back = event["RequestType"] == "Update" and rolls_back(event["StackId"])
    try:
        found = sizes(event, datetime.now(timezone.utc))
    except Exception:
        if not back:
            raise
        found = smallest(asked)
    if back and "Starts" not in asked:
        found["DesiredSize"] = min(max(found["DesiredSize"], last_answer(event)), found["MaxSize"])
    return found


def last_answer(event: dict[str, Any]) -> int:
    """Return the number that was answered before; 0 where that is not known."""
    number = event.get("PhysicalResourceId", "").rpartition(":")[2]
    return int(number) if number.isdigit() else 0


def sizes(event: dict[str, Any], now: datetime) -> dict[str, int]:
    """Return the sizes that hold now; of a group that takes the place of another, those of the other.

    Where the other one holds reserved instances, the group starts with the least.
    """
    asked, before = event["ResourceProperties"], event.get("OldResourceProperties", {})
    if "Starts" in asked:
        starts, drained = (datetime.fromisoformat(asked[key]) for key in ("Starts", "Drained"))
        most = int(asked["Max"])
        return size_properties(0, most, most) if starts <= now < drained else smallest(asked)
    least, most = int(asked["Min"]), int(asked["Max"])
    group = deployed(event["StackId"], asked["Group"]["LogicalId"])
    if group is None and "Group" in before and "Reserved" not in asked:
        group = deployed(event["StackId"], before["Group"]["LogicalId"])
    return size_properties(least, most, min(max(running(group), least), most)) if group else smallest(asked)


def smallest(asked: dict[str, Any]) -> dict[str, int]:
    """Return the least sizes; of a Capacity Block those of before and after it."""
    if "Starts" in asked:
        return size_properties(0, int(asked["ClosedMax"]), 0)
    return size_properties(int(asked["Min"]), int(asked["Max"]), int(asked["Min"]))


def size_properties(least: int, most: int, desired: int) -> dict[str, int]:
    """Return sizes by the names that the template reads."""
    return {"MinSize": least, "MaxSize": most, "DesiredSize": desired}


def deployed(stack: str, logical_id: str) -> dict[str, Any] | None:
    """Return the group that the stack has under a logical id; while it is replaced that is the old one still."""
    try:
        found = client("cloudformation").describe_stack_resource(StackName=stack, LogicalResourceId=logical_id)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ValidationError":
            raise
        return None
    cluster, _, name = found["StackResourceDetail"].get("PhysicalResourceId", "").partition("/")
    return described(cluster, name) if name else None


def described(cluster: str, name: str) -> dict[str, Any] | None:
    """Return a group, unless it has gone or goes."""
    try:
        group = client("eks").describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        return None
    return None if group["status"] in GONE else dict(group)


def running(group: dict[str, Any]) -> int:
    """Return what the group's Auto Scaling group wants; EKS' own number lags behind an autoscaler."""
    names = behind(group)
    found = client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=names) if names else {}
    wanted = [int(each["DesiredCapacity"]) for each in found.get("AutoScalingGroups", [])]
    return wanted[0] if wanted else int(group["scalingConfig"]["desiredSize"])


def behind(group: dict[str, Any]) -> list[str]:
    """Return the names of a group's Auto Scaling groups."""
    return [each["name"] for each in group.get("resources", {}).get("autoScalingGroups", [])]


def tag(event: dict[str, Any]) -> None:
    """Put tags on a group's Auto Scaling groups, and take away what the template had before and has no more."""
    asked, before = event["ResourceProperties"], event.get("OldResourceProperties", {}).get("Tags", {})
    wanted: dict[str, str] = asked["Tags"]
    gone = [key for key in before if key not in wanted]
    if event["RequestType"] == "Delete":
        wanted, gone = {}, list(wanted)
    group = described(asked["Cluster"], asked["Name"])
    for name in behind(group or {}):
        tags = [{"ResourceId": name, "ResourceType": "auto-scaling-group", "Key": key} for key in (*wanted, *gone)]
        added, removed = tags[: len(wanted)], tags[len(wanted) :]
        if added:
            put = [each | {"Value": wanted[each["Key"]], "PropagateAtLaunch": False} for each in added]
            client("autoscaling").create_or_update_tags(Tags=put)
        if removed:
            client("autoscaling").delete_tags(Tags=removed)


def rolls_back(stack: str) -> bool:
    """Whether CloudFormation takes a deployment back."""
    try:
        [found] = client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    except (BotoCoreError, ClientError, ValueError):
        return False
    return "ROLLBACK" in found["StackStatus"]


def client(service: str) -> Any:
    """Return a client that slows down where AWS asks it to."""
    return boto3.client(service, config=RETRIES)
