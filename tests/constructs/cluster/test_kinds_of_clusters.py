"""GpuCluster in EKS Auto Mode, on IPv6, without a way to the internet, and with a scheduler that packs GPUs."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import (
    AutoMode,
    AutoModeNodePool,
    GpuCluster,
    Karpenter,
    KarpenterNodePool,
    ManagedNodeGroup,
    NodeShape,
    SystemNodes,
    UpTo,
    gpu_vpc,
)
from gpu_constructs.cluster import PrivateEndpoints
from gpu_constructs.nodes import SelfManagedNodeGroup
from tests.linting import cfn_lint
from tests.templates import CHART, depends_on, ids_of_objects, manifest, of_type, only, resources_of, slice_of, text_of

L4 = NodeShape(instance_types=("g6.xlarge",))
AUTO_L4 = NodeShape(instance_types=("g6.xlarge",), operating_system="bottlerocket")


def isolated_vpc(stack: cdk.Stack, **attributes: Any) -> ec2.IVpc:
    return ec2.Vpc.from_vpc_attributes(
        stack,
        "Isolated",
        vpc_id="vpc-0123456789abcdef1",
        availability_zones=["us-east-1a", "us-east-1b"],
        isolated_subnet_ids=["subnet-0123456789abcdef4", "subnet-0123456789abcdef5"],
        isolated_subnet_route_table_ids=["rtb-0123456789abcdef4", "rtb-0123456789abcdef5"],
        **attributes,
    )


def test_auto_mode(stack: cdk.Stack, vpc: ec2.IVpc, snapshot_yaml: SnapshotAssertion) -> None:
    gpu = GpuCluster(stack, "Gpu", vpc=vpc, auto_mode=AutoMode())
    AutoModeNodePool(stack, "Pool", cluster=gpu.cluster, name="l4", shape=AUTO_L4, size=UpTo(gpus=8))

    resources = resources_of(stack)
    assert only(resources, "AWS::EKS::Cluster") == snapshot_yaml
    assert (gpu.addons, gpu.system_nodes) == (None, None)
    assert of_type(resources, "AWS::EKS::Nodegroup") == of_type(resources, "AWS::EKS::Addon") == {}
    roles = [id for id in of_type(resources, "AWS::IAM::Role") if "AutoMode" in id]
    assert len(roles) == 2
    # EKS gives access to the cluster's own role by itself, and refuses a second entry.
    entries = [each["Properties"] for each in of_type(resources, "AWS::EKS::AccessEntry").values()]
    [entry] = [each for each in entries if each.get("Type") == "EC2"]
    assert entry["PrincipalArn"] != only(resources, "AWS::EKS::Cluster")["ComputeConfig"]["NodeRoleArn"]


def test_auto_mode_without_built_in_pools_has_no_role(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    GpuCluster(stack, "Gpu", vpc=vpc, auto_mode=AutoMode(node_pools=()))

    compute = only(resources_of(stack), "AWS::EKS::Cluster")["ComputeConfig"]
    assert compute == {"Enabled": True, "NodePools": []}


def test_the_nodes_of_auto_mode_are_gone_before_the_cluster(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    gpu = GpuCluster(stack, "Gpu", vpc=vpc, auto_mode=AutoMode())
    AutoModeNodePool(stack, "Pool", cluster=gpu.cluster, name="l4", shape=AUTO_L4, size=UpTo(gpus=8))

    resources = resources_of(stack)
    [cluster] = of_type(resources, "AWS::EKS::Cluster")
    made = ids_of_objects(resources).values()
    assert len(made) == 2
    assert all(cluster in depends_on(resources, id) for id in made)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"auto_mode": True}, TypeError, r"auto_mode must be AutoMode\(\), got True; write AutoMode\(\)"),
        (
            {"auto_mode": AutoMode(), "system_nodes": SystemNodes()},
            ValueError,
            r"system_nodes must be left out with auto",
        ),
        (
            {"auto_mode": AutoMode(), "addon_versions": {}},
            ValueError,
            r"addon_versions must be left out with auto_mode",
        ),
        ({"ip_family": "ipv5"}, ValueError, r"ip_family must be one of ipv4, ipv6, got 'ipv5'"),
    ],
)
def test_refuses_before_a_child_is_created(
    stack: cdk.Stack, vpc: ec2.IVpc, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"Test/Gpu: {message}"):
        GpuCluster(stack, "Gpu", vpc=vpc, **changes)

    assert stack.node.find_child("Gpu").node.children == []


def test_auto_mode_knows_two_pools() -> None:
    assert AutoMode().node_pools == ("system", "general-purpose")
    with pytest.raises(ValueError, match="node_pools must be one of system, general-purpose, got 'gpu'"):
        AutoMode(node_pools=("gpu",))  # type: ignore[arg-type]


def test_gpus_of_a_node_are_filled_first(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    GpuCluster(stack, "Gpu", vpc=vpc, pack_gpus=True)

    strategy = only(resources_of(stack), "AWS::EKS::Cluster")["KubeSchedulerConfig"]["NodeResourcesFit"]
    assert strategy["ScoringStrategy"]["Type"] == "MostAllocated"
    weights = {each["Name"]: each["Weight"] for each in strategy["ScoringStrategy"]["Resources"]}
    assert weights["nvidia.com/gpu"] > weights["cpu"] == weights["memory"]
    assert all(1 <= weight <= 100 for weight in weights.values())


def test_what_was_switched_on_can_be_switched_off(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    """EKS keeps what an update leaves out."""
    GpuCluster(stack, "Gpu", vpc=vpc, pack_gpus=False)

    resources = resources_of(stack)
    strategy = only(resources, "AWS::EKS::Cluster")["KubeSchedulerConfig"]["NodeResourcesFit"]["ScoringStrategy"]
    assert strategy["Type"] == "LeastAllocated"
    addons = [each["Properties"] for each in of_type(resources, "AWS::EKS::Addon").values()]
    [network] = [each for each in addons if each["AddonName"] == "vpc-cni"]
    assert json.loads(network["ConfigurationValues"]) == {"enableNetworkPolicy": "false"}


def test_the_scheduler_is_eks_own_without_a_word(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    GpuCluster(stack, "Gpu", vpc=vpc)

    assert "KubeSchedulerConfig" not in only(resources_of(stack), "AWS::EKS::Cluster")


def test_the_control_plane_may_take_a_role_of_ones_own(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    role = iam.Role.from_role_arn(stack, "Role", "arn:aws:iam::111122223333:role/control-plane")
    GpuCluster(stack, "Gpu", vpc=vpc, role=role)

    assert only(resources_of(stack), "AWS::EKS::Cluster")["RoleArn"] == role.role_arn


def test_ipv6(stack: cdk.Stack) -> None:
    gpu = GpuCluster(stack, "Gpu", ip_family="ipv6")
    SelfManagedNodeGroup(stack, "Al2023", cluster=gpu.cluster, name="a", shape=L4, max_nodes=1)
    SelfManagedNodeGroup(stack, "Bottlerocket", cluster=gpu.cluster, name="b", shape=AUTO_L4, max_nodes=1)

    resources = resources_of(stack)
    assert only(resources, "AWS::EKS::Cluster")["KubernetesNetworkConfig"]["IpFamily"] == "ipv6"
    assert "ServiceIpv4Cidr" not in str(resources)
    assert {
        each["Properties"]["AssignIpv6AddressOnCreation"] for each in of_type(resources, "AWS::EC2::Subnet").values()
    } == {True}
    [cni] = [each["Properties"] for id, each in of_type(resources, "AWS::IAM::Role").items() if "CniRole" in id]
    assert "ManagedPolicyArns" not in cni
    assert "ec2:AssignIpv6Addresses" in str(cni["Policies"])
    block = "KubernetesNetworkConfig.ServiceIpv6Cidr"
    told = {id: json.dumps(each["Properties"]) for id, each in of_type(resources, "AWS::EC2::LaunchTemplate").items()}
    assert all(block in text for id, text in told.items() if not id.startswith("Gpu"))
    bottlerocket = next(text for id, text in told.items() if id.startswith("Bottlerocket"))
    assert "Fn::Split" in bottlerocket


def test_nodes_may_live_in_isolated_subnets(stack: cdk.Stack) -> None:
    vpc = isolated_vpc(stack, vpc_cidr_block="10.1.0.0/16")
    PrivateEndpoints(stack, "Endpoints", vpc=vpc)
    gpu = GpuCluster(stack, "Gpu", vpc=vpc)
    karpenter = Karpenter(stack, "Karpenter", cluster=gpu.cluster, isolated=True)
    KarpenterNodePool(stack, "Pool", cluster=gpu.cluster, name="l4", shape=L4, size=UpTo(gpus=8), karpenter=karpenter)
    ManagedNodeGroup(stack, "Nodes", cluster=gpu.cluster, name="managed", shape=L4, max_nodes=1)

    resources = resources_of(stack)
    endpoints = [each["Properties"] for each in of_type(resources, "AWS::EC2::VPCEndpoint").values()]
    names = {text_of(each["ServiceName"]).rpartition("us-east-1.")[2] for each in endpoints}
    assert names >= {"ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "lambda", "sts", "autoscaling", "ssm", "sqs"}
    assert {each["VpcEndpointType"] for each in endpoints} == {"Interface", "Gateway"}
    group = only(slice_of(resources, "EndpointsSecurityGroup"), "AWS::EC2::SecurityGroup")
    assert [each["CidrIp"] for each in group["SecurityGroupIngress"]] == ["10.1.0.0/16"]
    isolated = ["subnet-0123456789abcdef4", "subnet-0123456789abcdef5"]
    assert {tuple(each["Properties"]["Subnets"]) for each in of_type(resources, "AWS::EKS::Nodegroup").values()} == {
        tuple(isolated)
    }
    node_class = manifest(resources, "EC2NodeClass")["spec"]
    assert "role" not in node_class
    [profile] = of_type(resources, "AWS::IAM::InstanceProfile")
    assert node_class["instanceProfile"] == "${" + profile + "}"
    values = next(
        json.loads(text_of(each["Properties"]["Values"]))
        for each in of_type(resources, CHART).values()
        if each["Properties"]["Chart"] == "karpenter"
    )
    assert values["settings"]["isolatedVPC"] is True


def test_a_vpc_without_nat_gateways_brings_its_endpoints(stack: cdk.Stack) -> None:
    vpc = gpu_vpc(stack, "Vpc", nat_gateways=0)
    GpuCluster(stack, "Gpu", vpc=vpc)

    resources = resources_of(stack)
    assert of_type(resources, "AWS::EC2::NatGateway") == of_type(resources, "AWS::EC2::InternetGateway") == {}
    assert len(of_type(resources, "AWS::EC2::VPCEndpoint")) == 13


def test_refuses_endpoints_that_would_let_nothing_in(stack: cdk.Stack) -> None:
    with pytest.raises(ValueError, match="Test/Endpoints: vpc must be imported with vpc_cidr_block"):
        PrivateEndpoints(stack, "Endpoints", vpc=isolated_vpc(stack))


@pytest.mark.parametrize("subnets", [1, 2])
def test_refuses_a_vpc_of_one_zone(stack: cdk.Stack, subnets: int) -> None:
    one = ec2.Vpc.from_vpc_attributes(
        stack,
        "One",
        vpc_id="vpc-0123456789abcdef1",
        availability_zones=["us-east-1a"] * subnets,
        private_subnet_ids=[f"subnet-0123456789abcdef{each}" for each in range(subnets)],
    )

    with pytest.raises(ValueError, match="in at least 2 zones, got 'Test/One' with 1"):
        GpuCluster(stack, "Gpu", vpc=one)


@pytest.mark.parametrize(("region", "partition"), [("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")])
def test_other_partitions(region: str, partition: str, tmp_path: Any) -> None:
    app = cdk.App(
        outdir=str(tmp_path), analytics_reporting=False, context={"@aws-cdk/core:enablePartitionLiterals": True}
    )
    stack = cdk.Stack(app, "Test", env=cdk.Environment(account="111122223333", region=region))
    gpu = GpuCluster(stack, "Gpu", admins=[f"arn:{partition}:iam::111122223333:role/Admin"])
    karpenter = Karpenter(stack, "Karpenter", cluster=gpu.cluster)
    KarpenterNodePool(stack, "Pool", cluster=gpu.cluster, name="l4", shape=L4, size=UpTo(gpus=8), karpenter=karpenter)
    ManagedNodeGroup(stack, "Nodes", cluster=gpu.cluster, name="managed", shape=L4, max_nodes=1)
    SelfManagedNodeGroup(stack, "Own", cluster=gpu.cluster, name="own", shape=L4, max_nodes=1)

    text = json.dumps(app.synth().get_stack_by_name("Test").template)
    assert f"arn:{partition}:" in text
    assert "arn:aws:" not in text


def test_a_permissions_boundary_reaches_every_role(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    gpu = GpuCluster(stack, "Gpu", vpc=vpc)
    karpenter = Karpenter(stack, "Karpenter", cluster=gpu.cluster)
    KarpenterNodePool(stack, "Pool", cluster=gpu.cluster, name="l4", shape=L4, size=UpTo(gpus=8), karpenter=karpenter)
    ManagedNodeGroup(stack, "Nodes", cluster=gpu.cluster, name="managed", shape=L4, max_nodes=1)
    boundary = "arn:aws:iam::111122223333:policy/boundary"
    iam.PermissionsBoundary.of(stack).apply(iam.ManagedPolicy.from_managed_policy_arn(stack, "Boundary", boundary))

    roles = of_type(resources_of(stack), "AWS::IAM::Role")
    assert len(roles) >= 8
    assert {id: each["Properties"].get("PermissionsBoundary") for id, each in roles.items()} == dict.fromkeys(
        roles, boundary
    )


@pytest.mark.linted
def test_cfn_lint_finds_nothing_in_the_kinds(tmp_path: Any) -> None:
    app = cdk.App(outdir=str(tmp_path), analytics_reporting=False)
    kinds: list[dict[str, Any]] = [{"auto_mode": AutoMode()}, {"ip_family": "ipv6", "pack_gpus": True}]
    for number, says in enumerate(kinds):
        stack = cdk.Stack(app, f"Kind{number}")
        GpuCluster(stack, "Gpu", **says)
    stack = cdk.Stack(app, "Isolated")
    GpuCluster(stack, "Gpu", vpc=gpu_vpc(stack, "Vpc", nat_gateways=0))
    app.synth()

    assert cfn_lint(sorted(tmp_path.glob("*.template.json"))) == []
