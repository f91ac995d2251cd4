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
from moto.eks.exceptions import ResourceNotFoundException
from moto.eks.models import eks_backends

from tests.cloudformation import Answers, event_of

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

    def group(self, name: str = "l4", tag: str = "Test/L4", *, least: int = 0, most: int = 8, runs: int = 0) -> str:
        """Make a group, and the Auto Scaling group behind it with as many nodes as run."""
        made = self.eks.create_nodegroup(
            clusterName="demo",
            nodegroupName=name,
            subnets=self.subnets,
            nodeRole=f"arn:aws:iam::{ACCOUNT}:role/nodes",
            scalingConfig={"minSize": least, "maxSize": most, "desiredSize": least},
            tags={"gpu-constructs.io/size-of": tag},
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
        """What an autoscaler does."""
        self.autoscaling.set_desired_capacity(AutoScalingGroupName=behind, DesiredCapacity=nodes)

    def age(self, name: str, days: int) -> None:
        """Have a group be made some days ago."""
        group = eks_backends[ACCOUNT][REGION].describe_nodegroup("demo", name)
        group.created_at = NOW - timedelta(days=days)

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


@pytest.fixture
def code(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the function, as it starts in Lambda."""
    monkeypatch.setenv("TAG", "gpu-constructs.io/size-of")
    return importlib.reload(importlib.import_module("gpu_constructs.nodes.managed.desired_size_handler"))


def asked(least: int = 0, most: int = 8, **more: str) -> dict[str, str]:
    """Properties as CloudFormation sends them, which makes texts of numbers."""
    return {"Cluster": "demo", "Tag": "Test/L4", "Min": str(least), "Max": str(most), **more}


def desired(code: ModuleType, **says: Any) -> int:
    return int(code.sizes(asked(**says), NOW)["DesiredSize"])


def test_without_a_cluster_it_is_the_least(aws: Aws, code: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        """Answer as EKS does; moto 5.2.5 fails with a KeyError instead."""
        raise ResourceNotFoundException(message="No cluster found for name: demo.")

    monkeypatch.setattr(type(eks_backends[ACCOUNT][REGION]), "list_nodegroups", missing)

    assert code.sizes(asked(2, 4), NOW) == {"MinSize": 2, "MaxSize": 4, "DesiredSize": 2}


def test_without_a_group_it_is_the_least(aws: Aws, code: ModuleType) -> None:
    aws.cluster()

    assert desired(code, least=1) == 1


def test_what_somebody_scaled_stays(aws: Aws, code: ModuleType) -> None:
    aws.cluster()
    behind = aws.group()
    aws.scale(behind, 5)

    assert desired(code) == 5


@pytest.mark.parametrize(
    ("least", "most", "becomes"),
    [(0, 5, 5), (0, 9, 5), (0, 4, 4), (0, 1, 1), (5, 8, 5), (6, 8, 6), (8, 8, 8)],
)
def test_bounds_move_with_what_runs(aws: Aws, code: ModuleType, least: int, most: int, becomes: int) -> None:
    aws.cluster()
    aws.group(runs=5)

    assert code.sizes(asked(least, most), NOW) == {"MinSize": least, "MaxSize": most, "DesiredSize": becomes}


def test_a_new_pool_starts_at_its_least_and_the_others_keep_theirs(aws: Aws, code: ModuleType) -> None:
    aws.cluster()
    aws.group(runs=5)

    assert code.sizes(asked() | {"Tag": "Test/New"}, NOW)["DesiredSize"] == 0
    assert desired(code) == 5


def test_of_two_groups_the_younger_counts(aws: Aws, code: ModuleType) -> None:
    aws.cluster()
    aws.group("old", runs=5)
    aws.group("new", runs=3)
    aws.age("old", 9)
    aws.age("new", 1)

    assert desired(code) == 3


@pytest.mark.parametrize("status", ["CREATE_FAILED", "DELETING"])
def test_a_group_that_is_none_any_more_does_not_count(aws: Aws, code: ModuleType, status: str) -> None:
    aws.cluster()
    aws.group("old", runs=5)
    aws.group("new", runs=3)
    aws.age("old", 9)
    aws.age("new", 1)
    aws.status("new", status)

    assert desired(code) == 5


def test_where_the_auto_scaling_group_is_not_told_ekss_number_counts(aws: Aws, code: ModuleType) -> None:
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

    assert code.sizes(asked(0, 4, **window), now) == sizes


def event(kind: str, **more: Any) -> dict[str, Any]:
    return event_of("L4Size", kind, asked(1)) | more


def test_creation_update_and_deletion_have_one_id(aws: Aws, code: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    aws.cluster()
    answers = Answers(monkeypatch, code)

    code.handler(event("Create"), None)
    code.handler(event("Update", PhysicalResourceId="L4Size"), None)
    code.handler(event("Delete", PhysicalResourceId="L4Size"), None)

    assert [each["Status"] for each in answers.sent] == ["SUCCESS"] * 3
    assert {each["PhysicalResourceId"] for each in answers.sent} == {"L4Size"}
    assert [each["Data"].get("DesiredSize") for each in answers.sent] == [1, 1, None]


def test_permissions_that_are_not_there_yet_are_waited_for(code: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    denied = [ClientError({"Error": {"Code": "AccessDeniedException"}}, "ListNodegroups")] * 2
    waited: list[int] = []
    monkeypatch.setattr(code.time, "sleep", waited.append)

    def sizes(*_: object) -> dict[str, int]:
        if denied:
            raise denied.pop()
        return {"DesiredSize": 3}

    monkeypatch.setattr(code, "sizes", sizes)

    assert code.asked_until_allowed(asked()) == {"DesiredSize": 3}
    assert waited == [5, 10]


def test_a_deletion_asks_nobody(code: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers(monkeypatch, code)
    monkeypatch.setattr(code.boto3, "client", lambda *_: pytest.fail("asked"))

    code.handler(event("Delete", PhysicalResourceId="L4Size"), None)

    assert answers.sent[0]["Status"] == "SUCCESS"


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        ("UPDATE_IN_PROGRESS", "FAILED"),
        ("CREATE_IN_PROGRESS", "FAILED"),
        ("UPDATE_ROLLBACK_IN_PROGRESS", "SUCCESS"),
        ("ROLLBACK_IN_PROGRESS", "SUCCESS"),
    ],
)
def test_only_a_rollback_never_fails(
    aws: Aws, code: ModuleType, monkeypatch: pytest.MonkeyPatch, status: str, answer: str
) -> None:
    answers = Answers(monkeypatch, code)
    monkeypatch.setattr(code, "youngest", lambda *_: 1 / 0)
    real = boto3.client

    def client(service: str) -> Any:
        if service == "cloudformation":
            return type("Stacks", (), {"describe_stacks": lambda _, StackName: {"Stacks": [{"StackStatus": status}]}})()
        return real(service)

    monkeypatch.setattr(code.boto3, "client", client)

    code.handler(event("Update", PhysicalResourceId="L4Size"), None)

    [sent] = answers.sent
    assert sent["Status"] == answer
    assert sent["Data"] == ({"MinSize": 1, "MaxSize": 8, "DesiredSize": 1} if answer == "SUCCESS" else {})
    assert ("ZeroDivisionError" in sent.get("Reason", "")) == (answer == "FAILED")
