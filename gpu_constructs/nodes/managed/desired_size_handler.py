"""Answers how many nodes a managed node group has: a Lambda function behind a custom resource, alone in its file.

EKS takes the three sizes of a group together or not at all, and a template that states the wanted one sets back what an
autoscaler has made of it. So the template asks, and gets the number that runs.
"""

from __future__ import annotations

import json
import os
import time
import urllib.request
from datetime import datetime, timezone
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

# A group that never came up, or is on its way out, tells nothing.
GONE = ("CREATE_FAILED", "DELETING")


def handler(event: dict[str, Any], _context: object) -> None:
    """Answer CloudFormation."""
    answer: dict[str, Any] = {"Status": "SUCCESS", "Data": {}}
    try:
        if event["RequestType"] != "Delete":
            answer["Data"] = asked_until_allowed(event["ResourceProperties"])
    except Exception as error:
        if rolls_back(event["StackId"]):
            answer["Data"] = smallest(event["ResourceProperties"])
        else:
            answer |= {"Status": "FAILED", "Reason": f"{type(error).__name__}: {error}"}
    answer |= {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    # Never another id: CloudFormation would delete the resource of the old one.
    answer["PhysicalResourceId"] = event.get("PhysicalResourceId") or event["LogicalResourceId"]
    text = json.dumps(answer)
    print(text)
    # The address may be signed for no content type, and urllib would say one.
    put = urllib.request.Request(event["ResponseURL"], text.encode(), {"Content-Type": ""}, method="PUT")
    urllib.request.urlopen(put, timeout=30)


def asked_until_allowed(asked: dict[str, str]) -> dict[str, int]:
    """Return the sizes that hold now; the permissions of a role that was made with this function take seconds."""
    for seconds in (5, 10, 20):
        try:
            return sizes(asked, datetime.now(timezone.utc))
        except ClientError as error:
            if "AccessDenied" not in error.response["Error"]["Code"]:
                raise
            time.sleep(seconds)
    return sizes(asked, datetime.now(timezone.utc))


def sizes(asked: dict[str, str], now: datetime) -> dict[str, int]:
    """Return the sizes that hold now."""
    if "Starts" in asked:
        starts, drained = (datetime.fromisoformat(asked[key]) for key in ("Starts", "Drained"))
        most = int(asked["Max"])
        return told(0, most, most) if starts <= now < drained else smallest(asked)
    least, most = int(asked["Min"]), int(asked["Max"])
    group = youngest(asked["Cluster"], asked["Tag"])
    return told(least, most, min(max(running(group), least), most)) if group else smallest(asked)


def smallest(asked: dict[str, str]) -> dict[str, int]:
    """Return the least sizes; of a Capacity Block those of before and after it."""
    if "Starts" in asked:
        return told(0, int(asked["ClosedMax"]), 0)
    return told(int(asked["Min"]), int(asked["Max"]), int(asked["Min"]))


def told(least: int, most: int, desired: int) -> dict[str, int]:
    """Return sizes by the names that the template reads."""
    return {"MinSize": least, "MaxSize": most, "DesiredSize": desired}


def youngest(cluster: str, tag: str) -> dict[str, Any] | None:
    """Return the group that carries the tag; one that replaces another is younger."""
    eks = boto3.client("eks")
    try:
        pages = eks.get_paginator("list_nodegroups").paginate(clusterName=cluster)
        names = [name for page in pages for name in page["nodegroups"]]
    except eks.exceptions.ResourceNotFoundException:
        return None
    groups = [found for name in names if (found := described(eks, cluster, name))]
    ours = [
        each for each in groups if each.get("tags", {}).get(os.environ["TAG"]) == tag and each["status"] not in GONE
    ]
    return max(ours, key=lambda each: each["createdAt"], default=None)


def described(eks: Any, cluster: str, name: str) -> dict[str, Any] | None:
    """Return a group, unless it has gone since it was listed."""
    try:
        return dict(eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"])
    except eks.exceptions.ResourceNotFoundException:
        return None


def running(group: dict[str, Any]) -> int:
    """Return what the group's Auto Scaling group wants; EKS' own number lags behind an autoscaler."""
    names = [each["name"] for each in group.get("resources", {}).get("autoScalingGroups", [])]
    found = boto3.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=names) if names else {}
    wanted = [int(each["DesiredCapacity"]) for each in found.get("AutoScalingGroups", [])]
    return wanted[0] if wanted else int(group["scalingConfig"]["desiredSize"])


def rolls_back(stack: str) -> bool:
    """Whether CloudFormation takes a deployment back."""
    try:
        [found] = boto3.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    except (BotoCoreError, ClientError, ValueError):
        return False
    return "ROLLBACK" in found["StackStatus"]
