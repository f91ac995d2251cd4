"""ManagedNodeGroup is right for every NVIDIA type EC2 sells, on both operating systems."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta, timezone
from typing import Any

import aws_cdk as cdk
import pytest
import tomli
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Annotations, Match
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import CapacityBlock, ManagedNodeGroup, NodeShape, Reservation, Spot
from gpu_facts.hardware.catalogue import catalogue
from tests.templates import of_type, only, resources_of, slice_of

GROUP, TEMPLATE = "AWS::EKS::Nodegroup", "AWS::EC2::LaunchTemplate"
# Sold only as part of an UltraServer, through a Capacity Block.
ULTRASERVER = "p6e-gb200.36xlarge"
IMAGES = {
    ("al2023", "x86_64"): "AL2023_x86_64_NVIDIA",
    ("al2023", "arm64"): "AL2023_ARM_64_NVIDIA",
    ("bottlerocket", "x86_64"): "BOTTLEROCKET_x86_64_NVIDIA",
    ("bottlerocket", "arm64"): "BOTTLEROCKET_ARM_64_NVIDIA",
}
COMBINATIONS = [(name, system) for name in catalogue() for system in ("al2023", "bottlerocket")]
BOOTABLE = [pair for pair in COMBINATIONS if pair[0] != ULTRASERVER]

X86_WITH_ONE_GPU = [name for name, _ in BOOTABLE[::2] if catalogue()[name].gpus == 1 and "g5g" not in name]


STARTS = datetime(2026, 12, 1, 11, 30, tzinfo=timezone.utc)
BLOCK: dict[str, Any] = {
    "id": "cr-0123456789abcdef0",
    "availability_zone": "us-east-1b",
    "starts": STARTS,
    "ends": STARTS + timedelta(days=2),
    "instances": 2,
}


def group(stack: cdk.Stack, cluster: eks.ICluster, /, **changes: Any) -> ManagedNodeGroup:
    """A valid group, with ``changes`` applied."""
    says = {"cluster": cluster, "name": "l4", "shape": NodeShape(instance_types=("g6.xlarge",)), "max_nodes": 4}
    return ManagedNodeGroup(stack, "Nodes", **says | changes)


def private_subnet(stack: cdk.Stack) -> ec2.ISubnet:
    return ec2.Subnet.from_subnet_attributes(
        stack, "Subnet", subnet_id="subnet-0123456789abcdef7", route_table_id="rtb-0123456789abcdef7"
    )


def shape(name: str, system: Any = "al2023") -> NodeShape:
    return NodeShape(instance_types=(name,), operating_system=system)


@pytest.fixture(scope="module")
def all_groups() -> dict[tuple[str, str], dict[str, Any]]:
    """Group and launch template of every type on every operating system, synthesized in two stacks."""
    found = {}
    for system in ("al2023", "bottlerocket"):
        stack = cdk.Stack(cdk.App(analytics_reporting=False), "All")
        cluster = eks.Cluster.from_cluster_attributes(stack, "Cluster", cluster_name="demo")
        subnet = private_subnet(stack)
        for number, (name, _) in enumerate(pair for pair in BOOTABLE if pair[1] == system):
            ManagedNodeGroup(
                stack,
                f"T{number}T",
                cluster=cluster,
                name=f"t{number}",
                shape=shape(name, system),
                max_nodes=1,
                subnets=[subnet],
            )
        resources = resources_of(stack)
        groups = {
            each["Properties"]["InstanceTypes"][0]: each["Properties"] for each in of_type(resources, GROUP).values()
        }
        for name, properties in groups.items():
            template = resources[properties["LaunchTemplate"]["Id"]["Ref"]]["Properties"]["LaunchTemplateData"]
            found[name, system] = {"group": properties, "template": template}
    return found


@pytest.mark.parametrize(("name", "system"), BOOTABLE)
def test_every_type_boots_the_right_image_and_scales_from_zero(
    all_groups: dict[tuple[str, str], dict[str, Any]], name: str, system: str
) -> None:
    made, hardware = all_groups[name, system], catalogue()[name]
    properties, template = made["group"], made["template"]

    assert properties["AmiType"] == IMAGES[system, hardware.architecture]
    sizes = properties["ScalingConfig"]
    assert (sizes["MinSize"], sizes["MaxSize"], set(sizes["DesiredSize"])) == (0, 1, {"Fn::GetAtt"})
    assert properties["Taints"] == [{"Key": "nvidia.com/gpu", "Value": "true", "Effect": "NO_SCHEDULE"}]
    assert properties["UpdateConfig"] == {"MaxUnavailable": 1, "UpdateStrategy": "MINIMAL"}
    assert properties["NodeRepairConfig"] == {"Enabled": True}
    assert properties.keys().isdisjoint({"NodegroupName", "DiskSize", "RemoteAccess", "Version", "ReleaseVersion"})
    labels = properties["Labels"]
    assert labels["gpu-constructs.io/pool"].startswith("t")
    assert labels["k8s.amazonaws.com/accelerator"].startswith("nvidia-")
    assert ("nvidia.com/gpu.present" in labels) == (system == "al2023")
    prefix = "k8s.io/cluster-autoscaler/node-template/resources/"
    assert properties["Tags"][f"{prefix}nvidia.com/gpu"] == str(hardware.gpus)
    assert int(properties["Tags"][f"{prefix}ephemeral-storage"].removesuffix("Gi")) >= 80
    assert template["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 1,
    }
    disks = {each["DeviceName"]: each["Ebs"] for each in template["BlockDeviceMappings"]}
    assert list(disks) == (["/dev/xvda"] if system == "al2023" else ["/dev/xvda", "/dev/xvdb"])
    assert disks["/dev/xvda" if system == "al2023" else "/dev/xvdb"]["VolumeSize"] >= 100
    assert all(disk["Encrypted"] and disk["VolumeType"] == "gp3" for disk in disks.values())
    assert ("UserData" in template) == (hardware.nvme_disks > 0)
    assert template.keys().isdisjoint({"ImageId", "InstanceType", "SecurityGroupIds", "IamInstanceProfile"})


def test_all_combinations_were_tried_or_are_refused() -> None:
    refused = [pair for pair in COMBINATIONS if pair not in BOOTABLE]

    assert len(BOOTABLE) + len(refused) == 2 * len(catalogue()) == 132
    assert len(refused) == 2


def test_group(stack: cdk.Stack, cluster: eks.ICluster, snapshot_yaml: SnapshotAssertion) -> None:
    group(stack, cluster)

    assert slice_of(resources_of(stack), "Nodes") == snapshot_yaml


def test_spot_group_on_bottlerocket(stack: cdk.Stack, cluster: eks.ICluster, snapshot_yaml: SnapshotAssertion) -> None:
    group(stack, cluster, shape=shape("g5g.xlarge", "bottlerocket"), capacity=Spot(), min_nodes=1)

    assert slice_of(resources_of(stack), "Nodes") == snapshot_yaml


def test_capacity_block(stack: cdk.Stack, cluster: eks.ICluster, snapshot_yaml: SnapshotAssertion) -> None:
    group(stack, cluster, shape=shape("p5.48xlarge"), capacity=CapacityBlock(**BLOCK), max_nodes=2)

    assert slice_of(resources_of(stack), "Nodes") == snapshot_yaml


def one_zone(stack: cdk.Stack) -> dict[str, Any]:
    return {"subnets": [private_subnet(stack)], "max_nodes": 2}


def test_efa_group_in_a_placement_group(
    stack: cdk.Stack, cluster: eks.ICluster, snapshot_yaml: SnapshotAssertion
) -> None:
    efa = NodeShape(instance_types=("p6-b300.48xlarge",), efa=True, placement_group="rack")
    group(stack, cluster, shape=efa, **one_zone(stack))

    data = only(resources_of(stack), TEMPLATE)["LaunchTemplateData"]
    assert {key: data[key] for key in ("NetworkInterfaces", "Placement")} == snapshot_yaml


def test_efa_on_bottlerocket_sets_huge_pages_aside(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    efa = NodeShape(instance_types=("p5.48xlarge",), efa=True, operating_system="bottlerocket")
    group(stack, cluster, shape=efa, **one_zone(stack))

    encoded = only(resources_of(stack), TEMPLATE)["LaunchTemplateData"]["UserData"]
    settings = tomli.loads(base64.b64decode(encoded).decode())["settings"]
    assert settings["kernel"]["sysctl"] == {"vm.nr_hugepages": "5128"}
    assert "bootstrap-commands" in settings


def test_a_reservation_gives_efa_its_zone(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    efa = NodeShape(instance_types=("p5.48xlarge",), efa=True)
    group(stack, cluster, shape=efa, capacity=Reservation(availability_zone="us-east-1a", id="cr-0a100000000000000"))

    assert only(resources_of(stack), GROUP)["Subnets"] == ["subnet-0123456789abcdef0"]


def test_refuses_efa_in_a_public_subnet(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    public = ec2.Vpc(stack, "Own", max_azs=2, nat_gateways=1).public_subnets[0]

    with pytest.raises(ValueError, match=r"subnets must be private with efa, got Test/Own/PublicSubnet1"):
        group(stack, cluster, shape=NodeShape(instance_types=("p5.48xlarge",), efa=True), subnets=[public])


def test_refuses_efa_without_the_clusters_security_group(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    bare = eks.Cluster.from_cluster_attributes(stack, "Bare", cluster_name="bare", vpc=vpc)

    with pytest.raises(ValueError, match="imported without cluster_security_group_id, got efa=True"):
        group(stack, bare, shape=NodeShape(instance_types=("p5.48xlarge",), efa=True), **one_zone(stack))


def test_an_ultraserver_comes_through_a_capacity_block(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    group(stack, cluster, shape=shape(ULTRASERVER), capacity=CapacityBlock(**BLOCK), max_nodes=2)

    resources = resources_of(stack)
    assert only(resources, GROUP)["AmiType"] == "AL2023_ARM_64_NVIDIA"
    assert only(resources, TEMPLATE)["LaunchTemplateData"]["InstanceType"] == ULTRASERVER


@pytest.mark.parametrize(
    ("says", "target"),
    [
        ({"id": "cr-0a100000000000000"}, {"CapacityReservationId": "cr-0a100000000000000"}),
        (
            {"resource_group_arn": "arn:aws:resource-groups:us-east-1:111122223333:group/p5"},
            {"CapacityReservationResourceGroupArn": "arn:aws:resource-groups:us-east-1:111122223333:group/p5"},
        ),
    ],
)
def test_a_reservation_is_spent_in_its_zone(
    stack: cdk.Stack, cluster: eks.ICluster, says: dict[str, str], target: dict[str, str]
) -> None:
    group(stack, cluster, capacity=Reservation(availability_zone="us-east-1b", **says))

    resources = resources_of(stack)
    data = only(resources, TEMPLATE)["LaunchTemplateData"]
    assert data["CapacityReservationSpecification"] == {"CapacityReservationTarget": target}
    properties = only(resources, GROUP)
    assert properties["Subnets"] == ["subnet-0123456789abcdef1"]
    assert properties["CapacityType"] == "ON_DEMAND"


def test_a_subnet_whose_zone_is_unknown_is_the_users_word(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    capacity = Reservation(availability_zone="us-east-1f", id="cr-0a100000000000000")
    group(stack, cluster, capacity=capacity, subnets=[private_subnet(stack)])

    assert only(resources_of(stack), GROUP)["Subnets"] == ["subnet-0123456789abcdef7"]


@pytest.mark.parametrize("system", ["al2023", "bottlerocket"])
def test_user_data(stack: cdk.Stack, cluster: eks.ICluster, system: str, snapshot_text: SnapshotAssertion) -> None:
    group(stack, cluster, shape=shape("g6.xlarge", system))

    encoded = only(resources_of(stack), TEMPLATE)["LaunchTemplateData"]["UserData"]
    assert base64.b64decode(encoded).decode() == snapshot_text


def test_groups_share_one_role_that_may_run_the_cni(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    first = group(stack, cluster)
    second = ManagedNodeGroup(stack, "More", cluster=cluster, name="more", shape=shape("p5.48xlarge"), max_nodes=1)

    assert first.node_role is second.node_role
    roles = [each for each in of_type(resources_of(stack), "AWS::IAM::Role").values() if "AmazonEKS" in str(each)]
    assert len(roles) == 1
    assert "AmazonEKS_CNI_Policy" in str(roles)


def test_a_given_role_is_used(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    role = iam.Role.from_role_arn(stack, "Role", "arn:aws:iam::111122223333:role/nodes")
    group(stack, cluster, node_role=role)

    resources = resources_of(stack)
    assert only(resources, GROUP)["NodeRole"] == "arn:aws:iam::111122223333:role/nodes"
    assert not any("AmazonEKS" in str(each) for each in of_type(resources, "AWS::IAM::Role").values())


def test_a_group_is_two_resources_and_its_size(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    group(stack, cluster)

    kinds = sorted(each["Type"] for each in slice_of(resources_of(stack), "Nodes").values())
    assert kinds == [TEMPLATE, GROUP, "Custom::GpuNodeGroupSize"]


def test_subnets_are_the_vpcs_private_ones_or_given(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    group(stack, cluster, subnets=[private_subnet(stack)])

    assert only(resources_of(stack), GROUP)["Subnets"] == ["subnet-0123456789abcdef7"]


def test_sizes_known_only_at_deployment_pass(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    size = cdk.CfnParameter(stack, "Size", type="Number")
    group(stack, cluster, max_nodes=size.value_as_number)

    resources = resources_of(stack)
    sizes = only(resources, GROUP)["ScalingConfig"]
    assert (sizes["MinSize"], sizes["MaxSize"]) == (0, {"Ref": "Size"})
    assert only(resources, "Custom::GpuNodeGroupSize")["Max"] == {"Ref": "Size"}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"cluster": "demo"},
            TypeError,
            r"Test/Nodes: cluster must be a GpuCluster or a cluster of aws_cdk.aws_eks_v2, got str",
        ),
        ({"name": "L4"}, ValueError, r"Test/Nodes: name must be 1 to 63 lower-case letters.*got 'L4'"),
        ({"shape": "g6.xlarge"}, TypeError, r"Test/Nodes: shape must be a NodeShape, got 'g6.xlarge'"),
        ({"max_nodes": 0}, ValueError, r"max_nodes must be at least 1, got 0; delete the group to switch it off"),
        ({"max_nodes": "4"}, TypeError, r"max_nodes must be a whole number, got '4'"),
        ({"min_nodes": -1}, ValueError, r"min_nodes must be at least 0, got -1"),
        ({"min_nodes": 5}, ValueError, r"max_nodes must be at least min_nodes, got 4 and 5"),
        ({"capacity": "spot"}, TypeError, r"capacity must be OnDemand\(\), Spot\(\), .*got 'spot'"),
        (
            {"capacity": CapacityBlock(**BLOCK)},
            ValueError,
            r"capacity must be one that EC2 sells 'g6.xlarge' with, on-demand, spot, got CapacityBlock",
        ),
        (
            {"capacity": CapacityBlock(**BLOCK), "shape": NodeShape(instance_types=("p5.48xlarge",)), "min_nodes": 1},
            ValueError,
            "min_nodes must be 0 with a Capacity Block, got 1; remove it, because every launch fails before the block",
        ),
        (
            {"capacity": CapacityBlock(**BLOCK), "shape": NodeShape(instance_types=("p5.48xlarge",))},
            ValueError,
            r"max_nodes must be the 2 instances of the Capacity Block, got 4",
        ),
        (
            {"capacity": Reservation(availability_zone="us-east-1f", id="cr-0a100000000000000")},
            ValueError,
            "subnets must be in 'us-east-1f', the zone of the reservation, got us-east-1a, us-east-1b; pass a subnet",
        ),
        (
            {
                "capacity": Reservation(availability_zone="us-east-1a", id="cr-0a100000000000000"),
                "shape": NodeShape(instance_types=("g6.xlarge", "g5.xlarge")),
            },
            ValueError,
            "only the reserved instance type, got g6.xlarge, g5.xlarge",
        ),
        (
            {"shape": NodeShape(instance_types=("p5.48xlarge",), efa=True)},
            ValueError,
            "subnets must be in one zone with efa, got us-east-1a, us-east-1b; pass one subnet",
        ),
        (
            {"shape": NodeShape(instance_types=(ULTRASERVER,))},
            ValueError,
            r"sells 'p6e-gb200.36xlarge' with, capacity-block, got OnDemand",
        ),
        ({"subnets": []}, ValueError, r"subnets must name at least one subnet"),
        ({"subnets": ["subnet-1"]}, TypeError, r"subnets must be a list of ec2.ISubnet, got \['subnet-1'\]"),
        ({"node_role": "arn:aws:iam::1:role/x"}, TypeError, r"node_role must be an iam.IRole, got 'arn"),
        (
            {"shape": NodeShape(instance_types=("g6.xlarge", "g6.12xlarge"))},
            ValueError,
            r"one number of GPUs, got \{'g6.xlarge': 1, 'g6.12xlarge': 4\}; .*one group per number",
        ),
        (
            {"shape": NodeShape(instance_types=X86_WITH_ONE_GPU[:21])},
            ValueError,
            r"at most 20 instance types, got \d\d",
        ),
    ],
)
def test_refuses_before_a_child_is_created(
    stack: cdk.Stack, cluster: eks.ICluster, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        group(stack, cluster, **changes)

    assert stack.node.find_child("Nodes").node.children == []


def test_refuses_a_cluster_imported_without_its_vpc(stack: cdk.Stack) -> None:
    bare = eks.Cluster.from_cluster_attributes(stack, "Bare", cluster_name="bare")

    with pytest.raises(ValueError, match=r"Test/Nodes: subnets must be given when the cluster was imported without"):
        group(stack, bare)


def test_refuses_a_cluster_of_the_older_module(stack: cdk.Stack) -> None:
    older = aws_eks.Cluster.from_cluster_attributes(stack, "Older", cluster_name="older")

    with pytest.raises(TypeError, match=r"Test/Nodes: cluster must be .* got one of aws_cdk.aws_eks; import others"):
        group(stack, older)  # type: ignore[arg-type]


def test_refuses_a_vpc_without_private_subnets(stack: cdk.Stack) -> None:
    public = ec2.Vpc.from_vpc_attributes(
        stack, "Public", vpc_id="vpc-1", availability_zones=["a"], public_subnet_ids=["subnet-0123456789abcdef0"]
    )
    bare = eks.Cluster.from_cluster_attributes(stack, "Bare", cluster_name="bare", vpc=public)

    with pytest.raises(ValueError, match="a VPC without any; pass the subnets"):
        group(stack, bare)


def test_warns_of_a_gpu_whose_last_driver_is_todays(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    group(stack, cluster, shape=shape("p3dn.24xlarge"))

    Annotations.from_stack(stack).has_warning("/Test/Nodes", Match.string_like_regexp("p3dn.24xlarge: .*last one"))


def test_warns_of_sizes_that_the_autoscaler_takes_for_one(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    group(stack, cluster, shape=NodeShape(instance_types=("g6.xlarge", "g6.2xlarge")))

    Annotations.from_stack(stack).has_warning("/Test/Nodes", Match.string_like_regexp("differ in vCPU or memory"))


def test_equal_sizes_of_two_families_are_no_reason_to_warn(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    group(stack, cluster, shape=NodeShape(instance_types=("g6.xlarge", "g5.xlarge")))

    Annotations.from_stack(stack).has_no_warning("*", Match.any_value())
