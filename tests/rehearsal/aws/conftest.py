"""Fixtures: one simulated AWS for each test file, with a network, roles and a cluster, cleared between tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from gpu_rehearsal.aws.server import Aws

Role = Callable[..., str]
_NUMBERS = count()


@pytest.fixture(scope="module")
def world() -> Iterator[Aws]:
    """Simulated AWS, started once for each file because the start takes longer than a test."""
    with Aws(region="us-east-1") as aws:
        yield aws


@pytest.fixture
def aws(world: Aws) -> Iterator[Aws]:
    """AWS without a call, an instance, a node group or a launch template, and with capacity everywhere."""
    world.calls.clear()
    yield world
    world.capacity.restore_all()
    eks, ec2 = world.client("eks"), world.client("ec2")
    for name in eks.list_clusters()["clusters"]:
        for group in eks.list_nodegroups(clusterName=name)["nodegroups"]:
            eks.delete_nodegroup(clusterName=name, nodegroupName=group)
        for one in eks.list_pod_identity_associations(clusterName=name)["associations"]:
            eks.delete_pod_identity_association(clusterName=name, associationId=one["associationId"])
    running = [{"Name": "instance-state-name", "Values": ["running"]}]
    for reservation in ec2.describe_instances(Filters=running)["Reservations"]:
        ec2.terminate_instances(InstanceIds=[one["InstanceId"] for one in reservation["Instances"]])
    for template in ec2.describe_launch_templates()["LaunchTemplates"]:
        ec2.delete_launch_template(LaunchTemplateId=template["LaunchTemplateId"])


@pytest.fixture(scope="module")
def role(world: Aws) -> Role:
    """Create a role that a service may assume, with an inline policy of these statements; return its ARN."""

    def make(name: str, *statements: dict[str, Any], trusts: Any = "ec2.amazonaws.com", **trust: Any) -> str:
        name = f"{name}-{next(_NUMBERS)}"
        actions = ["sts:AssumeRole", "sts:TagSession"]
        trust_statement = {"Effect": "Allow", "Principal": {"Service": trusts}, "Action": actions} | trust
        iam = world.client("iam")
        made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=_document(trust_statement))
        if statements:
            iam.put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=_document(*statements))
        return str(made["Role"]["Arn"])

    return make


@pytest.fixture(scope="module")
def subnets(world: Aws) -> list[str]:
    """Two subnets, in us-east-1a and us-east-1b."""
    ec2 = world.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    return [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{number}.0/24", AvailabilityZone=f"us-east-1{zone}")["Subnet"][
            "SubnetId"
        ]
        for number, zone in enumerate("ab")
    ]


@pytest.fixture(scope="module")
def cluster(world: Aws, role: Role, subnets: list[str]) -> str:
    """The name of an active cluster that authenticates by access entries."""
    world.client("eks").create_cluster(
        name="demo",
        version="1.36",
        roleArn=role("Cluster", trusts="eks.amazonaws.com"),
        resourcesVpcConfig={"subnetIds": subnets},
        accessConfig={"authenticationMode": "API"},
    )
    world.serve_cluster("demo", endpoint="https://127.0.0.1:6443", certificate_authority=b"the authority")
    return "demo"


def _document(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
