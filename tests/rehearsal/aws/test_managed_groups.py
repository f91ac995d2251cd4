"""A managed node group runs instances, whose user data comes from its launch template and from EKS."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
import tomli
from botocore.exceptions import ClientError

from gpu_rehearsal.aws.server import Aws
from tests.rehearsal.aws.conftest import Role

GPU_TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}


@pytest.fixture
def create(aws: Aws, cluster: str, role: Role, subnets: list[str]) -> Any:
    """Create a group of one g6.xlarge, with these arguments changed; return its description."""
    node = role("Node")
    arguments = {
        "clusterName": cluster,
        "nodegroupName": "gpu",
        "subnets": subnets,
        "nodeRole": node,
        "amiType": "AL2023_x86_64_NVIDIA",
        "instanceTypes": ["g6.xlarge"],
        "scalingConfig": {"minSize": 0, "maxSize": 2, "desiredSize": 1},
        "labels": {"team": "vision"},
        "taints": [GPU_TAINT],
    }
    return lambda **changes: aws.client("eks").create_nodegroup(**arguments | changes)["nodegroup"]


def running(aws: Aws) -> list[dict[str, Any]]:
    filters = [{"Name": "instance-state-name", "Values": ["running"]}]
    found = aws.client("ec2").describe_instances(Filters=filters)["Reservations"]
    return [instance for one in found for instance in one["Instances"]]


def user_data(aws: Aws, instance: dict[str, Any]) -> str:
    description = aws.client("ec2").describe_instance_attribute(InstanceId=instance["InstanceId"], Attribute="userData")
    return base64.b64decode(description["UserData"]["Value"]).decode()


def scaling_group(descriptions: dict[str, Any]) -> str:
    return str(descriptions["resources"]["autoScalingGroups"][0]["name"])


def test_instance_runs_with_the_settings_of_the_group(aws: Aws, create: Any, subnets: list[str]) -> None:
    descriptions = create()

    (instance,) = running(aws)
    tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    assert (instance["InstanceType"], instance["SubnetId"]) == ("g6.xlarge", subnets[0])
    assert instance["PrivateDnsName"].endswith(".ec2.internal")
    assert tags["eks:nodegroup-name"] == "gpu"
    assert tags["aws:autoscaling:groupName"] == scaling_group(descriptions)
    assert tags["k8s.io/cluster-autoscaler/demo"] == "owned"
    data = user_data(aws, instance)
    assert "apiServerEndpoint: https://127.0.0.1:6443" in data
    assert "eks.amazonaws.com/nodegroup=gpu" in data
    assert "--register-with-taints=nvidia.com/gpu=true:NoSchedule" in data


def test_the_role_of_its_nodes_has_access(aws: Aws, cluster: str, create: Any) -> None:
    node = create()["nodeRole"]

    entry = aws.client("eks").describe_access_entry(clusterName=cluster, principalArn=node)["accessEntry"]

    assert (entry["type"], entry["kubernetesGroups"]) == ("EC2_LINUX", ["system:nodes"])


def test_the_launch_template_of_the_group_applies(aws: Aws, create: Any) -> None:
    own = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="x"\n\n--x\n\necho own\n--x--\n'
    data = {
        "UserData": base64.b64encode(own.encode()).decode(),
        "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "ours"}]}],
        "NetworkInterfaces": [{"DeviceIndex": 0, "InterfaceType": "efa"}],
    }
    made = aws.client("ec2").create_launch_template(LaunchTemplateName="ours", LaunchTemplateData=data)

    create(launchTemplate={"id": made["LaunchTemplate"]["LaunchTemplateId"], "version": "1"})

    (instance,) = running(aws)
    assert "echo own" in user_data(aws, instance)
    assert {"Key": "Name", "Value": "ours"} in instance["Tags"]
    assert [one["InterfaceType"] for one in instance["NetworkInterfaces"]] == ["efa"]


def test_bottlerocket_is_configured_in_toml(aws: Aws, create: Any) -> None:
    create(amiType="BOTTLEROCKET_x86_64_NVIDIA")

    settings = tomli.loads(user_data(aws, running(aws)[0]))["settings"]
    assert settings["kubernetes"]["node-taints"] == {"nvidia.com/gpu": ["true:NoSchedule"]}


def test_more_desired_instances_launch_and_fewer_terminate(aws: Aws, create: Any) -> None:
    group, scaling = scaling_group(create()), aws.client("autoscaling")

    scaling.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=2)

    assert [one["Placement"]["AvailabilityZone"] for one in running(aws)] == ["us-east-1a", "us-east-1b"]
    scaling.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=0)
    assert running(aws) == []


def test_a_desired_capacity_above_the_maximum_is_refused(aws: Aws, create: Any) -> None:
    group = scaling_group(create())

    with pytest.raises(ClientError, match="New SetDesiredCapacity value 3 is above max value 2"):
        aws.client("autoscaling").set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=3)


def test_eks_changes_the_sizes(aws: Aws, cluster: str, create: Any) -> None:
    create()
    sizes = {"minSize": 2, "maxSize": 4, "desiredSize": 2}

    aws.client("eks").update_nodegroup_config(clusterName=cluster, nodegroupName="gpu", scalingConfig=sizes)

    description = aws.client("eks").describe_nodegroup(clusterName=cluster, nodegroupName="gpu")["nodegroup"]
    assert (description["scalingConfig"], len(running(aws))) == (sizes, 2)


def test_a_zone_without_capacity_is_skipped(aws: Aws, create: Any) -> None:
    aws.capacity.exhaust("g6.xlarge", "us-east-1a")

    create()

    assert [one["Placement"]["AvailabilityZone"] for one in running(aws)] == ["us-east-1b"]


def test_without_capacity_in_any_zone_the_activity_fails_with_the_message_of_ec2(aws: Aws, create: Any) -> None:
    for zone in ("us-east-1a", "us-east-1b"):
        aws.capacity.exhaust("g6.xlarge", zone)

    group = scaling_group(create())

    description = aws.client("autoscaling").describe_scaling_activities(AutoScalingGroupName=group)["Activities"][0]
    assert description["StatusCode"] == "Failed"
    assert "We currently do not have sufficient g6.xlarge capacity" in description["StatusMessage"]
    assert running(aws) == []


def test_a_capacity_block_launches_where_no_other_capacity_is(aws: Aws, create: Any) -> None:
    target = {"CapacityReservationId": "cr-0123456789abcdef0"}
    data = {
        "InstanceType": "p5.48xlarge",
        "InstanceMarketOptions": {"MarketType": "capacity-block"},
        "CapacityReservationSpecification": {"CapacityReservationTarget": target},
    }
    made = aws.client("ec2").create_launch_template(LaunchTemplateName="block", LaunchTemplateData=data)
    block = {
        "capacityType": "CAPACITY_BLOCK",
        "launchTemplate": {"id": made["LaunchTemplate"]["LaunchTemplateId"]},
        "instanceTypes": [],
        "scalingConfig": {"minSize": 0, "maxSize": 2, "desiredSize": 2},
    }
    for zone in ("us-east-1a", "us-east-1b"):
        aws.capacity.exhaust("p5.48xlarge", zone)

    create(**block)

    assert [one["InstanceLifecycle"] for one in running(aws)] == ["capacity-block"] * 2
    assert {one["CapacityReservationId"] for one in running(aws)} == {"cr-0123456789abcdef0"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clusterName": "other"}, "No cluster found for name: other"),
        ({"releaseVersion": "1.35.0-20260101"}, "is not valid for kubernetes version 1.36"),
        ({"releaseVersion": "1.36.0-20260713"}, "1.36.0-20260713 is not valid for kubernetes version 1.36"),
        ({"amiType": "AL2023_ARM_64_NVIDIA"}, "g6.xlarge. is not a valid instance type for requested amiType"),
        ({"instanceTypes": ["g5g.xlarge"]}, "g5g.xlarge. is not a valid instance type for requested amiType"),
        ({"amiType": "WINDOWS_CORE_2022_x86_64"}, "the AMI type WINDOWS_CORE_2022_x86_64 isn't simulated"),
        ({"scalingConfig": {"minSize": 2, "maxSize": 1, "desiredSize": 2}}, "must be between"),
    ],
)
def test_refuses(create: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ClientError, match=message):
        create(**changes)


def status(aws: Aws, cluster: str) -> tuple[str, list[Any]]:
    found = aws.client("eks").describe_nodegroup(clusterName=cluster, nodegroupName="gpu")["nodegroup"]
    return found["status"], found["health"]["issues"]


@pytest.fixture
def outcomes(world: Aws) -> Iterator[dict[str, str]]:
    """The reason why each instance failed to join, or an empty text, by id. Other instances are still booting."""
    found: dict[str, str] = {}
    world.nodes = found.get
    yield found
    world.nodes = lambda instance: ""


def test_a_group_is_active_once_its_nodes_joined(aws: Aws, cluster: str, create: Any, outcomes: dict[str, str]) -> None:
    assert create()["status"] == "CREATING"
    assert status(aws, cluster) == ("CREATING", [])

    outcomes[running(aws)[0]["InstanceId"]] = ""

    assert status(aws, cluster) == ("ACTIVE", [])


def test_a_group_without_nodes_is_active_at_once(aws: Aws, cluster: str, create: Any, outcomes: dict[str, str]) -> None:
    create(scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": 0})

    assert status(aws, cluster) == ("ACTIVE", [])


def test_a_group_whose_node_never_joins_fails(aws: Aws, cluster: str, create: Any, outcomes: dict[str, str]) -> None:
    create()
    instance = running(aws)[0]["InstanceId"]

    outcomes[instance] = "spec.kubelet.flags must be of type array"

    message = "Instances failed to join the kubernetes cluster: spec.kubelet.flags must be of type array"
    issue = {"code": "NodeCreationFailure", "message": message, "resourceIds": [instance]}
    assert status(aws, cluster) == ("CREATE_FAILED", [issue])


def test_a_group_that_launches_nothing_fails_with_the_message_of_ec2(aws: Aws, cluster: str, create: Any) -> None:
    for zone in ("us-east-1a", "us-east-1b"):
        aws.capacity.exhaust("g6.xlarge", zone)

    create()

    state, (issue,) = status(aws, cluster)
    assert (state, issue["code"]) == ("CREATE_FAILED", "AsgInstanceLaunchFailures")
    assert "We currently do not have sufficient g6.xlarge capacity" in issue["message"]


def test_refuses_a_role_that_does_not_trust_ec2(create: Any, role: Role) -> None:
    message = r"\[ec2.amazonaws.com\] were not found in the trust relationships of nodeRole"
    with pytest.raises(ClientError, match=message):
        create(nodeRole=role("Node", trusts="eks.amazonaws.com"))


@pytest.mark.parametrize(("gib", "fits"), [(19, False), (20, True)])
def test_refuses_a_volume_smaller_than_the_snapshot_of_the_image(aws: Aws, create: Any, gib: int, fits: bool) -> None:
    disk = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": gib}}
    made = aws.client("ec2").create_launch_template(
        LaunchTemplateName="disk", LaunchTemplateData={"BlockDeviceMappings": [disk]}
    )
    template = {"id": made["LaunchTemplate"]["LaunchTemplateId"], "version": "1"}

    if fits:
        create(launchTemplate=template)
        assert len(running(aws)) == 1
    else:
        with pytest.raises(ClientError, match=r"Volume of size 19GB is smaller than snapshot 'snap-\w+', .* 20GB"):
            create(launchTemplate=template)
