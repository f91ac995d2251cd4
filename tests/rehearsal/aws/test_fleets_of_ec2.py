"""CreateFleet with Karpenter's arguments: it returns instances, or the reasons why it launched none."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from gpu_rehearsal.aws.server import Aws


@pytest.fixture
def create(aws: Aws, subnets: list[str]) -> Any:
    """Request one instance in either subnet; a test can change the capacity type and the instance types."""
    data = {"ImageId": "ami-12c6146b", "UserData": base64.b64encode(b"hello").decode()}
    aws.client("ec2").create_launch_template(LaunchTemplateName="karpenter.k8s.aws/1", LaunchTemplateData=data)

    def make(lifecycle: str = "on-demand", types: tuple[str, ...] = ("g6.xlarge",)) -> dict[str, Any]:
        overrides = [{"InstanceType": kind, "SubnetId": subnet} for kind in types for subnet in subnets]
        template = {"LaunchTemplateName": "karpenter.k8s.aws/1", "Version": "$Latest"}
        return dict(
            aws.client("ec2").create_fleet(
                Type="instant",
                LaunchTemplateConfigs=[{"LaunchTemplateSpecification": template, "Overrides": overrides}],
                TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": lifecycle},
                TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "nodepool", "Value": "gpu"}]}],
            )
        )

    return make


def descriptions(aws: Aws, fleet: dict[str, Any]) -> dict[str, Any]:
    ids = fleet["Instances"][0]["InstanceIds"]
    return dict(aws.client("ec2").describe_instances(InstanceIds=ids)["Reservations"][0]["Instances"][0])


def test_an_instance_runs_with_the_settings_of_template_and_fleet(aws: Aws, create: Any) -> None:
    fleet = create()

    instance = descriptions(aws, fleet)
    tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    attribute = aws.client("ec2").describe_instance_attribute(InstanceId=instance["InstanceId"], Attribute="userData")
    assert base64.b64decode(attribute["UserData"]["Value"]) == b"hello"
    assert (tags["nodepool"], tags["aws:ec2:fleet-id"]) == ("gpu", fleet["FleetId"])
    assert fleet["Instances"][0]["LaunchTemplateAndOverrides"]["Overrides"]["AvailabilityZone"] == "us-east-1a"


def test_the_smallest_type_is_taken_as_the_cheapest(create: Any) -> None:
    assert create(types=("g6.12xlarge", "g6.2xlarge", "g6.xlarge"))["Instances"][0]["InstanceType"] == "g6.xlarge"


def test_a_spot_instance_is_described_as_spot(aws: Aws, create: Any) -> None:
    instance = descriptions(aws, create("spot"))

    assert instance["InstanceLifecycle"] == "spot"
    assert instance["SpotInstanceRequestId"].startswith("sir-")


def test_the_next_override_is_used_and_the_error_of_the_first_is_reported(aws: Aws, create: Any) -> None:
    aws.capacity.exhaust("g6.xlarge", "us-east-1a")

    fleet = create()

    assert [one["ErrorCode"] for one in fleet["Errors"]] == ["InsufficientInstanceCapacity"]
    assert descriptions(aws, fleet)["Placement"]["AvailabilityZone"] == "us-east-1b"


def test_without_capacity_anywhere_the_fleet_is_empty(aws: Aws, create: Any) -> None:
    for zone in ("us-east-1a", "us-east-1b"):
        aws.capacity.exhaust("g6.xlarge", zone, lifecycle="spot")

    fleet = create("spot")

    assert fleet["Instances"] == []
    assert {one["ErrorCode"] for one in fleet["Errors"]} == {"InsufficientInstanceCapacity"}


def test_a_zone_where_a_type_is_not_sold_reports_unsupported(create: Any) -> None:
    fleet = create(types=("p4de.24xlarge",))

    assert {one["ErrorCode"] for one in fleet["Errors"]} <= {"Unsupported"}


def test_every_instance_of_a_fleet_has_the_profile_of_its_template(aws: Aws, subnets: list[str]) -> None:
    aws.client("iam").create_instance_profile(InstanceProfileName="nodes")
    data = {"ImageId": "ami-12c6146b", "IamInstanceProfile": {"Name": "nodes"}}
    ec2 = aws.client("ec2")
    ec2.create_launch_template(LaunchTemplateName="two", LaunchTemplateData=data)

    fleet = ec2.create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": "two", "Version": "$Latest"},
                "Overrides": [{"InstanceType": "g6.xlarge", "SubnetId": subnets[0]}],
            }
        ],
        TargetCapacitySpecification={"TotalTargetCapacity": 2, "DefaultTargetCapacityType": "on-demand"},
    )

    reservations = ec2.describe_instances(InstanceIds=fleet["Instances"][0]["InstanceIds"])["Reservations"]
    profiles = [one["IamInstanceProfile"]["Arn"] for each in reservations for one in each["Instances"]]
    assert [each.rpartition("/")[2] for each in profiles] == ["nodes", "nodes"]


@pytest.fixture
def published(aws: Aws) -> str:
    """An x86_64 image of EKS."""
    path = "1.36/amazon-linux-2023/x86_64/nvidia/recommended"
    found = aws.client("ssm").get_parameter(Name=f"/aws/service/eks/optimized-ami/{path}/image_id")
    return str(found["Parameter"]["Value"])


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({}, None),
        ({"BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 20}}]}, None),
        ({"BlockDeviceMappings": [{"DeviceName": "/dev/xvdb", "Ebs": {"VolumeSize": 5}}]}, None),
        (
            {"BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 5}}]},
            "InvalidBlockDeviceMapping",
        ),
        ({"InstanceType": "g5g.xlarge"}, "InvalidParameterValue"),
    ],
)
def test_an_instance_must_be_able_to_boot_its_image(
    aws: Aws, published: str, subnets: list[str], changes: dict[str, Any], error: str | None
) -> None:
    data = {"ImageId": published, "InstanceType": "g6.xlarge", **changes}
    aws.client("ec2").create_launch_template(LaunchTemplateName="boots", LaunchTemplateData=data)
    template = {"LaunchTemplateName": "boots", "Version": "$Latest"}

    fleet = aws.client("ec2").create_fleet(
        Type="instant",
        LaunchTemplateConfigs=[{"LaunchTemplateSpecification": template, "Overrides": [{"SubnetId": subnets[0]}]}],
        TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
    )

    assert [each["ErrorCode"] for each in fleet["Errors"]] == ([error] if error else [])
    assert bool(fleet["Instances"]) is (error is None)
