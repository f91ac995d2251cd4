"""The function that is asked for the size of a managed group, against an AWS that moto plays.

moto names the Auto Scaling group of a managed group and makes none: the tests make it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from types import ModuleType
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.eks.models import eks_backends

from tests.cloudformation import STACK, Answers, event_of

ACCOUNT, REGION = "123456789012", "us-east-1"
NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)


class Aws:
    """One cluster called ``demo``, and its groups."""

    def __init__(self) -> None:
        self.eks = boto3.client("eks", region_name=REGION)
        self.autoscaling = boto3.client("autoscaling", region_name=REGION)
        ec2 = boto3.client("ec2", region_name=REGION)
        self.subnets = [each["SubnetId"] for each in ec2.describe_subnets()["Subnets"][:2]]

    def cluster(self) -> None:
        """Make the cluster."""
        self.eks.create_cluster(
            name="demo",
            roleArn=f"arn:aws:iam::{ACCOUNT}:role/cluster",
            resourcesVpcConfig={"subnetIds": self.subnets},
        )

    def group(self, name: str = "l4", *, least: int = 0, most: int = 8, runs: int = 0) -> str:
        """Make a group, and the Auto Scaling group behind it with as many nodes as run."""
        made = self.eks.create_nodegroup(
            clusterName="demo",
            nodegroupName=name,
            subnets=self.subnets,
            nodeRole=f"arn:aws:iam::{ACCOUNT}:role/nodes",
            scalingConfig={"minSize": least, "maxSize": most, "desiredSize": least},
        )["nodegroup"]
        [behind] = made["resources"]["autoScalingGroups"]
        self.autoscaling.create_launch_configuration(
            LaunchConfigurationName=name, ImageId="ami-0123456789abcdef0", InstanceType="g6.xlarge"
        )
        self.autoscaling.create_auto_scaling_group(
            AutoScalingGroupName=behind["name"],
            LaunchConfigurationName=name,
            MinSize=0,
            MaxSize=100,
            DesiredCapacity=runs,
            AvailabilityZones=[f"{REGION}a"],
        )
        return str(behind["name"])

    def scale(self, behind: str, nodes: int) -> None:
        """Set the size, as an autoscaler does."""
        self.autoscaling.set_desired_capacity(AutoScalingGroupName=behind, DesiredCapacity=nodes)

    def status(self, name: str, status: str) -> None:
        """Have a group be in a state that moto's never are."""
        eks_backends[ACCOUNT][REGION].describe_nodegroup("demo", name).status = status


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    """An account without a cluster."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    # Hundreds of images, which would take a quarter of a second.
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
    with mock_aws(config={"core": {"reset_boto3_session": False}}):
        yield Aws()


class Stack:
    """The stack that asks: physical ids by logical id, and its status."""

    def __init__(self) -> None:
        self.groups: dict[str, str] = {"L4": "demo/l4"}
        self.status = "UPDATE_IN_PROGRESS"
        self.asked: list[str] = []

    def describe_stacks(self, *, StackName: str) -> dict[str, Any]:
        """Answer with the status."""
        assert StackName == STACK
        return {"Stacks": [{"StackStatus": self.status}]}

    def describe_stack_resource(self, *, StackName: str, LogicalResourceId: str) -> dict[str, Any]:
        """Answer with a physical id, or fail as CloudFormation does."""
        assert StackName == STACK
        self.asked.append(LogicalResourceId)
        if LogicalResourceId not in self.groups:
            message = f"Resource {LogicalResourceId} does not exist for stack {StackName}"
            raise ClientError({"Error": {"Code": "ValidationError", "Message": message}}, "DescribeStackResource")
        return {"StackResourceDetail": {"PhysicalResourceId": self.groups[LogicalResourceId]}}


@pytest.fixture
def cloudformation() -> Stack:
    """A stack with one group."""
    return Stack()


@pytest.fixture
def code(monkeypatch: pytest.MonkeyPatch, cloudformation: Stack) -> ModuleType:
    """The module of the function, as it starts in Lambda."""
    found = importlib.reload(importlib.import_module("gpu_constructs.nodes.desired_size_handler"))
    real = found.client
    monkeypatch.setattr(found, "client", lambda name: cloudformation if name == "cloudformation" else real(name))
    return found


def asked(least: int = 0, most: int = 8, **more: str) -> dict[str, Any]:
    """Properties as CloudFormation sends them, which makes texts of numbers."""
    return {"Cluster": "demo", "Min": str(least), "Max": str(most), "Group": {"LogicalId": "L4"}, **more}


def desired(code: ModuleType, **says: Any) -> int:
    return int(code.sizes(event("Create", ResourceProperties=asked(**says)), NOW)["DesiredSize"])


@pytest.mark.parametrize("group", [{}, {"L4": ""}, {"L4": "demo/gone"}])
def test_without_a_group_it_is_the_least(
    aws: Aws, code: ModuleType, cloudformation: Stack, group: dict[str, str]
) -> None:
    aws.cluster()
    cloudformation.groups = group

    assert code.sizes(event("Create", ResourceProperties=asked(2, 4)), NOW) == {
        "MinSize": 2,
        "MaxSize": 4,
        "DesiredSize": 2,
    }


@pytest.mark.parametrize(
    ("more", "becomes"), [({}, 5), ({"Max": "3"}, 3), ({"Reserved": "true"}, 0)], ids=["runs", "bound", "reserved"]
)
def test_a_group_in_the_place_of_another_starts_with_what_runs_there(
    aws: Aws, code: ModuleType, more: dict[str, str], becomes: int
) -> None:
    aws.cluster()
    aws.group(runs=5)
    other = asked() | more | {"Group": {"LogicalId": "Other"}}
    sent = event("Update", ResourceProperties=other, OldResourceProperties=asked())

    assert code.sizes(sent, NOW)["DesiredSize"] == becomes


def test_a_size_that_was_changed_stays(aws: Aws, code: ModuleType) -> None:
    aws.cluster()
    behind = aws.group()
    aws.scale(behind, 5)

    assert desired(code) == 5


def test_it_asks_of_its_own_group_only(aws: Aws, code: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    aws.cluster()
    for name in ("l4", "other", "third"):
        aws.group(name)
    calls: list[str] = []
    real = code.boto3.client

    def client(service: str, config: Any) -> Any:
        made = real(service, config=config)
        made.meta.events.register("before-call", lambda model, **_: calls.append(model.name))
        return made

    monkeypatch.setattr(code.boto3, "client", client)

    assert desired(code) == 0
    assert calls == ["DescribeNodegroup", "DescribeAutoScalingGroups"]
    assert code.RETRIES.retries["mode"] == "adaptive"


@pytest.mark.parametrize(
    ("least", "most", "becomes"),
    [(0, 5, 5), (0, 9, 5), (0, 4, 4), (0, 1, 1), (5, 8, 5), (6, 8, 6), (8, 8, 8)],
)
def test_bounds_move_with_what_runs(aws: Aws, code: ModuleType, least: int, most: int, becomes: int) -> None:
    aws.cluster()
    aws.group(runs=5)

    sent = event("Create", ResourceProperties=asked(least, most))

    assert code.sizes(sent, NOW) == {"MinSize": least, "MaxSize": most, "DesiredSize": becomes}


@pytest.mark.parametrize("status", ["CREATE_FAILED", "DELETING"])
def test_a_group_that_is_none_any_more_does_not_count(aws: Aws, code: ModuleType, status: str) -> None:
    aws.cluster()
    aws.group(runs=5)
    aws.status("l4", status)

    assert desired(code, least=1) == 1


def test_without_a_number_in_the_auto_scaling_group_ekss_number_counts(aws: Aws, code: ModuleType) -> None:
    aws.cluster()
    aws.group(least=2)
    eks_backends[ACCOUNT][REGION].describe_nodegroup("demo", "l4").resources = {}

    assert desired(code) == 2


STARTS, DRAINED = datetime(2026, 12, 1, 11, 30, tzinfo=timezone.utc), datetime(2026, 12, 3, 10, 30, tzinfo=timezone.utc)
CLOSED = {"MinSize": 0, "MaxSize": 1, "DesiredSize": 0}
OPEN = {"MinSize": 0, "MaxSize": 4, "DesiredSize": 4}


@pytest.mark.parametrize(
    ("now", "sizes"),
    [
        (STARTS - timedelta(seconds=1), CLOSED),
        (STARTS, OPEN),
        (DRAINED - timedelta(seconds=1), OPEN),
        (DRAINED, CLOSED),
    ],
)
def test_a_capacity_block_has_its_nodes_in_its_window(code: ModuleType, now: datetime, sizes: dict[str, int]) -> None:
    window = {"Starts": STARTS.isoformat(), "Drained": DRAINED.isoformat(), "ClosedMax": "1"}

    assert code.sizes(event("Create", ResourceProperties=asked(0, 4, **window)), now) == sizes


def event(kind: str, **more: Any) -> dict[str, Any]:
    return event_of("L4Size", kind, asked(1)) | more


def test_the_id_says_the_last_answer(aws: Aws, code: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    aws.cluster()
    answers = Answers(monkeypatch, code)

    code.handler(event("Create"), None)
    aws.group(runs=3)
    code.handler(event("Update", PhysicalResourceId="L4Size:1"), None)
    code.handler(event("Delete", PhysicalResourceId="L4Size:3"), None)

    assert [each["Status"] for each in answers.sent] == ["SUCCESS"] * 3
    assert [each["PhysicalResourceId"] for each in answers.sent] == ["L4Size:1", "L4Size:3", "L4Size:3"]
    assert [each["Data"].get("DesiredSize") for each in answers.sent] == [1, 3, None]


@pytest.mark.parametrize(
    ("status", "last", "becomes"),
    [
        ("UPDATE_IN_PROGRESS", "L4Size:6", 3),
        ("UPDATE_ROLLBACK_IN_PROGRESS", "L4Size:6", 6),
        ("UPDATE_ROLLBACK_IN_PROGRESS", "L4Size:2", 3),
        ("UPDATE_ROLLBACK_IN_PROGRESS", "L4Size:9", 8),
        ("UPDATE_ROLLBACK_IN_PROGRESS", "L4Size", 3),
    ],
)
def test_a_rollback_answers_no_less_than_before(
    aws: Aws,
    code: ModuleType,
    cloudformation: Stack,
    monkeypatch: pytest.MonkeyPatch,
    status: str,
    last: str,
    becomes: int,
) -> None:
    aws.cluster()
    aws.group(runs=3)
    cloudformation.status = status
    answers = Answers(monkeypatch, code)

    code.handler(event("Update", PhysicalResourceId=last), None)

    assert answers.sent[0]["Data"]["DesiredSize"] == becomes


def test_permissions_that_are_not_there_yet_are_waited_for(code: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    denied = [ClientError({"Error": {"Code": "AccessDeniedException"}}, "ListNodegroups")] * 2
    waited: list[int] = []
    monkeypatch.setattr(code.time, "sleep", waited.append)

    def call() -> int:
        if denied:
            raise denied.pop()
        return 3

    assert code.until_allowed(call) == 3
    assert waited == [5, 10]


def test_a_deletion_calls_no_api(code: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers(monkeypatch, code)
    monkeypatch.setattr(code.boto3, "client", lambda *_: pytest.fail("asked"))

    code.handler(event("Delete", PhysicalResourceId="L4Size"), None)

    assert answers.sent[0]["Status"] == "SUCCESS"


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        ("UPDATE_IN_PROGRESS", {}),
        ("UPDATE_ROLLBACK_IN_PROGRESS", {"MinSize": 1, "MaxSize": 8, "DesiredSize": 4}),
    ],
)
def test_only_a_rollback_never_fails(
    code: ModuleType, cloudformation: Stack, monkeypatch: pytest.MonkeyPatch, status: str, answer: dict[str, int]
) -> None:
    cloudformation.status = status
    answers = Answers(monkeypatch, code)
    monkeypatch.setattr(code, "deployed", lambda *_: 1 / 0)

    code.handler(event("Update", PhysicalResourceId="L4Size:4"), None)

    [sent] = answers.sent
    assert sent["Status"] == ("SUCCESS" if answer else "FAILED")
    assert sent["Data"] == answer
    assert sent["PhysicalResourceId"] == "L4Size:4"
    assert ("ZeroDivisionError" in sent.get("Reason", "")) == (not answer)


def tags_of(aws: Aws, behind: str) -> dict[str, str]:
    [group] = aws.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[behind])["AutoScalingGroups"]
    return {each["Key"]: each["Value"] for each in group["Tags"]}


def tagged(kind: str, tags: dict[str, str], before: dict[str, str] | None = None, name: str = "l4") -> dict[str, Any]:
    old = {"OldResourceProperties": {"Tags": before}} if before is not None else {}
    return event_of("L4Tags", kind, {"Cluster": "demo", "Name": name, "Tags": tags}) | old


def test_tags_reach_the_auto_scaling_group_and_leave_it(
    aws: Aws, code: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    aws.cluster()
    behind = aws.group()
    aws.autoscaling.create_or_update_tags(
        Tags=[
            {
                "ResourceId": behind,
                "ResourceType": "auto-scaling-group",
                "Key": "own",
                "Value": "1",
                "PropagateAtLaunch": False,
            }
        ]
    )
    answers = Answers(monkeypatch, code)

    code.handler(tagged("Create", {"a": "1", "b": "2"}), None)
    assert tags_of(aws, behind) == {"own": "1", "a": "1", "b": "2"}
    code.handler(tagged("Update", {"b": "3", "c": "4"}, {"a": "1", "b": "2"}), None)
    assert tags_of(aws, behind) == {"own": "1", "b": "3", "c": "4"}
    code.handler(tagged("Delete", {"b": "3", "c": "4"}), None)
    assert tags_of(aws, behind) == {"own": "1"}
    code.handler(tagged("Delete", {"b": "3"}, name="gone"), None)

    assert [(each["Status"], each["PhysicalResourceId"]) for each in answers.sent] == [("SUCCESS", "L4Tags")] * 4
