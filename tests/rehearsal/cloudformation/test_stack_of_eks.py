"""A stack with a cluster and a node group is updated and deleted in a simulated account."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_facts.schemas import replacement_properties
from gpu_rehearsal.aws.server import Aws
from gpu_rehearsal.cloudformation.changes import Event
from gpu_rehearsal.cloudformation.stack import Stack

COMBINED = "Version and ReleaseVersion updates cannot be combined with other updates"


@pytest.fixture(scope="module")
def aws() -> Iterator[Aws]:
    with Aws(region="us-east-1") as aws:
        yield aws


@pytest.fixture
def stack(aws: Aws, tmp_path: Path) -> Iterator[Stack]:
    """The created stack of `template`, deleted at the end."""
    aws.serve_cluster("demo", endpoint="https://127.0.0.1:6443", certificate_authority=b"the authority")
    stack = Stack(template(), name="Eks", assembly=tmp_path, aws=aws, folder=tmp_path, replaces=replacement_properties)
    events = stack.create()
    assert stack.status == "CREATE_COMPLETE", [each.reason for each in events if each.failed]
    yield stack
    if stack.resources:
        stack.delete()
    assert stack.resources == {}


def role(service: str) -> dict[str, Any]:
    allow = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    return {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {"Statement": [allow]}}}


def subnet(zone: int) -> dict[str, Any]:
    where = {"AvailabilityZone": {"Fn::Select": [zone, {"Fn::GetAZs": ""}]}, "CidrBlock": f"10.0.{zone}.0/24"}
    return {"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": {"Ref": "Vpc"}, **where}}


def template(
    group: Mapping[str, Any] | None = None, disk: int = 50, **changed: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return a template with other properties of resources; `None` leaves a resource out."""
    subnets = [{"Ref": "One"}, {"Ref": "Two"}]
    block = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": disk}}
    of_cluster = {"ClusterName": {"Ref": "Cluster"}}
    scaling = {"MinSize": 0, "MaxSize": 2, "DesiredSize": 1}
    launch = {"Id": {"Ref": "Launch"}, "Version": {"Fn::GetAtt": ["Launch", "LatestVersionNumber"]}}
    resources: dict[str, dict[str, Any]] = {
        "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
        "One": subnet(0),
        "Two": subnet(1),
        "ClusterRole": role("eks.amazonaws.com"),
        "NodeRole": role("ec2.amazonaws.com"),
        "PodRole": role("pods.eks.amazonaws.com"),
        "OtherRole": role("pods.eks.amazonaws.com"),
        "Cluster": {
            "Type": "AWS::EKS::Cluster",
            "Properties": {
                "Name": "demo",
                "Version": "1.36",
                "RoleArn": {"Fn::GetAtt": ["ClusterRole", "Arn"]},
                "ResourcesVpcConfig": {"SubnetIds": subnets},
                "AccessConfig": {"AuthenticationMode": "API"},
            },
        },
        "Launch": {
            "Type": "AWS::EC2::LaunchTemplate",
            "Properties": {"LaunchTemplateData": {"BlockDeviceMappings": [block]}},
        },
        "Group": {
            "Type": "AWS::EKS::Nodegroup",
            "Properties": {
                **of_cluster,
                "NodeRole": {"Fn::GetAtt": ["NodeRole", "Arn"]},
                "Subnets": subnets,
                "AmiType": "AL2023_x86_64_STANDARD",
                "InstanceTypes": ["m6i.large"],
                "ScalingConfig": scaling,
                "LaunchTemplate": launch,
                **(group or {}),
            },
        },
        "Pods": {
            "Type": "AWS::EKS::PodIdentityAssociation",
            "Properties": {
                **of_cluster,
                "Namespace": "default",
                "ServiceAccount": "llm",
                "RoleArn": {"Fn::GetAtt": ["PodRole", "Arn"]},
            },
        },
        "Person": {
            "Type": "AWS::EKS::AccessEntry",
            "Properties": {
                **of_cluster,
                "PrincipalArn": {"Fn::GetAtt": ["OtherRole", "Arn"]},
                "AccessPolicies": [policy("View")],
            },
        },
    }
    for name, properties in changed.items():
        if properties is None:
            del resources[name]
        else:
            resources[name]["Properties"].update(properties)
    return {"Resources": resources}


def policy(name: str) -> dict[str, Any]:
    arn = f"arn:aws:eks::aws:cluster-access-policy/AmazonEKS{name}Policy"
    return {"PolicyArn": arn, "AccessScope": {"Type": "cluster"}}


def update(stack: Stack, group: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Event]:
    events = stack.update(template(group, **changes), assembly=Path(__file__).parent)
    return {each.logical_id: each for each in events if each.phase == "update"}


def described(aws: Aws) -> dict[str, Any]:
    [name] = aws.client("eks").list_nodegroups(clusterName="demo")["nodegroups"]
    found: dict[str, Any] = aws.client("eks").describe_nodegroup(clusterName="demo", nodegroupName=name)["nodegroup"]
    return found


def instances(aws: Aws) -> list[dict[str, Any]]:
    running = [{"Name": "instance-state-name", "Values": ["running"]}]
    found = aws.client("ec2").describe_instances(Filters=running)["Reservations"]
    return [instance for one in found for instance in one["Instances"]]


def test_sizes_change_in_place(aws: Aws, stack: Stack) -> None:
    [before] = instances(aws)

    events = update(stack, {"ScalingConfig": {"MinSize": 1, "MaxSize": 4, "DesiredSize": 1}})

    assert {name: each.status for name, each in events.items()} == {"Group": "UPDATE_COMPLETE"}
    assert described(aws)["scalingConfig"] == {"minSize": 1, "maxSize": 4, "desiredSize": 1}
    assert [each["InstanceId"] for each in instances(aws)] == [before["InstanceId"]]


def test_another_version_of_the_launch_template_replaces_the_nodes(aws: Aws, stack: Stack) -> None:
    [before] = instances(aws)

    events = update(stack, disk=100)

    assert {name: each.status for name, each in events.items()} == {
        "Launch": "UPDATE_COMPLETE",
        "Group": "UPDATE_COMPLETE",
    }
    [after] = instances(aws)
    assert after["InstanceId"] != before["InstanceId"]
    assert described(aws)["launchTemplate"]["version"] == "2"


@pytest.mark.parametrize(
    ("group", "changes"),
    [
        ({"ReleaseVersion": "1.36.3-20260903", "ScalingConfig": {"MinSize": 0, "MaxSize": 3, "DesiredSize": 1}}, {}),
        ({"Version": "1.36", "Tags": {"team": "vision"}}, {}),
        ({"Labels": {"team": "vision"}}, {"disk": 100}),
        ({"ReleaseVersion": "1.36.3-20260903"}, {"disk": 100}),
    ],
)
def test_a_version_together_with_another_property_is_rejected(
    aws: Aws, stack: Stack, group: dict[str, Any], changes: dict[str, Any]
) -> None:
    before = described(aws)

    events = update(stack, group, **changes)

    assert (events["Group"].status, events["Group"].reason) == ("UPDATE_FAILED", f"CreationFailed: Group: {COMBINED}")
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE"
    assert described(aws) == before


def test_versions_change_together(aws: Aws, stack: Stack) -> None:
    events = update(stack, {"Version": "1.36", "ReleaseVersion": "1.36.3-20260903"})

    assert [each.reason for each in events.values() if each.failed] == []
    assert described(aws)["releaseVersion"] == "1.36.3-20260903"


def test_tags_policies_and_roles_change_in_place(aws: Aws, stack: Stack) -> None:
    tag = {"Tags": [{"Key": "team", "Value": "vision"}]}
    role = {"RoleArn": {"Fn::GetAtt": ["OtherRole", "Arn"]}}

    events = update(
        stack, {"Tags": {"team": "vision"}}, Cluster=tag, Person={"AccessPolicies": [policy("Edit")]}, Pods=role
    )

    assert [each.reason for each in events.values() if each.failed] == []
    eks = aws.client("eks")
    assert eks.describe_cluster(name="demo")["cluster"]["tags"] == described(aws)["tags"] == {"team": "vision"}
    person = stack.resources["OtherRole"].physical.attributes["Arn"]
    policies = eks.list_associated_access_policies(clusterName="demo", principalArn=person)["associatedAccessPolicies"]
    assert [each["policyArn"] for each in policies] == [policy("Edit")["PolicyArn"]]
    [pods] = eks.list_pod_identity_associations(clusterName="demo")["associations"]
    found = eks.describe_pod_identity_association(clusterName="demo", associationId=pods["associationId"])
    assert found["association"]["roleArn"] == person


def test_another_version_of_the_cluster_is_a_failure(stack: Stack) -> None:
    events = update(stack, Cluster={"Version": "1.37"})

    assert "another version of Kubernetes for a control plane that runs isn't simulated" in events["Cluster"].reason
    assert stack.status in ("UPDATE_ROLLBACK_COMPLETE", "UPDATE_ROLLBACK_FAILED")


def test_deletion_leaves_nothing(aws: Aws, stack: Stack) -> None:
    vpc = stack.resources["Vpc"].physical.ref

    events = stack.delete()

    assert [each.reason for each in events if each.failed] == []
    ids = [each.logical_id for each in events]
    assert ids.index("Group") < ids.index("Cluster") < ids.index("One") < ids.index("Vpc")
    ec2 = aws.client("ec2")
    assert instances(aws) == []
    names = [each["LaunchTemplateName"] for each in ec2.describe_launch_templates()["LaunchTemplates"]]
    assert [name for name in names if name.lower().startswith("eks-")] == []
    assert vpc not in [each["VpcId"] for each in ec2.describe_vpcs()["Vpcs"]]
    assert vpc not in [each["VpcId"] for each in ec2.describe_security_groups()["SecurityGroups"]]
