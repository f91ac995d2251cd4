"""SelfManagedNodeGroup makes nodes that join by themselves, and tells the autoscaler all about an empty group."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import aws_cdk as cdk
import pytest
import tomli
import yaml
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import CapacityBlock, GpuCluster, ManagedNodeGroup, NodeShape, Reservation, Spot, Taint
from gpu_constructs.nodes import Bootstrap, SelfManagedNodeGroup
from gpu_constructs.nodes.bootstrap import Membership, image_parameter
from gpu_constructs.nodes.user_data import joining_user_data
from gpu_constructs.pools import CustomImage
from gpu_facts.hardware.catalogue import catalogue
from tests.clusters import CERTIFICATE, ENDPOINT, imported_cluster
from tests.templates import depends_on, of_type, only, resources_of, slice_of, text_of
from tests.user_data import parts_of

ASG, TEMPLATE = "AWS::AutoScaling::AutoScalingGroup", "AWS::EC2::LaunchTemplate"
MEMBERSHIP = Membership(
    name="demo",
    endpoint=ENDPOINT,
    certificate_authority=CERTIFICATE,
    service_cidr="172.20.0.0/16",
    kubernetes_version="1.36",
    ami_release="v20260714",
    image_parameter="/image",
)
SAYS = Bootstrap(kubernetes_version="1.36", service_cidr="10.100.0.0/16")
EVICTS = Taint(key="a", value="b", effect="NoExecute")
TAINT = "k8s.io/cluster-autoscaler/node-template/taint/nvidia.com/gpu"


@pytest.fixture
def joinable(stack: cdk.Stack, vpc: ec2.IVpc) -> eks.ICluster:
    """An imported cluster with everything a node joins by."""
    return imported_cluster(stack, vpc, cluster_endpoint=ENDPOINT, cluster_certificate_authority_data=CERTIFICATE)


def group(stack: cdk.Stack, cluster: eks.ICluster, /, **changes: Any) -> SelfManagedNodeGroup:
    says = {"cluster": cluster, "name": "l4", "shape": NodeShape(instance_types=("g6.xlarge",)), "max_nodes": 4}
    return SelfManagedNodeGroup(stack, "Nodes", **says | {"bootstrap": SAYS} | changes)


def tags_of(stack: cdk.Stack) -> dict[str, str]:
    return {text_of(each["Key"]): each["Value"] for each in only(resources_of(stack), ASG)["Tags"]}


def test_group(stack: cdk.Stack, joinable: eks.ICluster, snapshot_yaml: SnapshotAssertion) -> None:
    group(stack, joinable)

    assert slice_of(resources_of(stack), "Nodes") == snapshot_yaml


def test_spot_group_of_two_types_on_bottlerocket(
    stack: cdk.Stack, joinable: eks.ICluster, snapshot_yaml: SnapshotAssertion
) -> None:
    shape = NodeShape(instance_types=("g6.xlarge", "g5.xlarge"), operating_system="bottlerocket")
    group(stack, joinable, shape=shape, capacity=Spot(), termination_handler="installed")

    assert slice_of(resources_of(stack), "Nodes") == snapshot_yaml


@pytest.mark.parametrize("name", [name for name, each in catalogue().items() if each.family != "p6e-gb200"])
def test_nodeadm_reads_how_to_join(name: str) -> None:
    shape = NodeShape(instance_types=(name,))

    [(kind, text)] = parts_of(joining_user_data(shape, "all", MEMBERSHIP))
    assert kind == "application/node.eks.aws"
    config = yaml.safe_load(text)
    assert config["spec"]["cluster"] == {
        "name": "demo",
        "apiServerEndpoint": MEMBERSHIP.endpoint,
        "certificateAuthority": MEMBERSHIP.certificate_authority,
        "cidr": "172.20.0.0/16",
    }
    labels, taints = config["spec"]["kubelet"]["flags"]
    assert dict(pair.split("=") for pair in labels.removeprefix("--node-labels=").split(",")) == shape.node_labels(
        "all"
    )
    assert taints == "--register-with-taints=nvidia.com/gpu=true:NoSchedule"
    assert ("instance" in config["spec"]) == (catalogue()[name].nvme_disks > 0)


def test_bottlerocket_reads_how_to_join() -> None:
    shape = NodeShape(instance_types=("g6.xlarge",), operating_system="bottlerocket")

    settings = tomli.loads(joining_user_data(shape, "all", MEMBERSHIP))["settings"]
    kubernetes = settings["kubernetes"]
    assert kubernetes["cluster-name"] == "demo"
    assert kubernetes["api-server"] == MEMBERSHIP.endpoint
    assert kubernetes["cluster-certificate"] == MEMBERSHIP.certificate_authority
    assert kubernetes["cluster-dns-ip"] == "172.20.0.10"
    assert kubernetes["node-labels"] == shape.node_labels("all")
    assert kubernetes["node-taints"] == {"nvidia.com/gpu": ["true:NoSchedule"]}
    assert "bootstrap-commands" in settings


def test_bottlerocket_registers_every_taint_of_a_key() -> None:
    evicts = Taint(key="nvidia.com/gpu", value="true", effect="NoExecute")
    shape = NodeShape(instance_types=("g6.xlarge",), operating_system="bottlerocket", taints=(evicts,))

    settings = tomli.loads(joining_user_data(shape, "all", MEMBERSHIP))["settings"]
    assert settings["kubernetes"]["node-taints"] == {"nvidia.com/gpu": ["true:NoSchedule", "true:NoExecute"]}


def test_a_node_without_taints_registers_none() -> None:
    text = joining_user_data(NodeShape(instance_types=("g5g.xlarge",), gpu_taint=False), "all", MEMBERSHIP)

    assert "--register-with-taints" not in text


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        (
            ("al2023", "x86_64", "1.36", "v20260724"),
            "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/nvidia/"
            "amazon-eks-node-al2023-x86_64-nvidia-1.36-v20260724/image_id",
        ),
        (
            ("bottlerocket", "arm64", "1.34", "1.66.0"),
            "/aws/service/bottlerocket/aws-k8s-1.34-nvidia/arm64/1.66.0/image_id",
        ),
    ],
)
def test_image_is_a_pinned_release(arguments: tuple[str, str, str, str], parameter: str) -> None:
    assert image_parameter(*arguments) == parameter


def test_tags_tell_the_autoscaler_what_an_empty_group_offers(stack: cdk.Stack, joinable: eks.ICluster) -> None:
    group(stack, joinable, shape=NodeShape(instance_types=("g6f.xlarge",)))

    tags = tags_of(stack)
    prefix = "k8s.io/cluster-autoscaler"
    assert (tags[f"{prefix}/enabled"], tags[f"{prefix}/demo"]) == ("true", "owned")
    assert tags[TAINT] == "true:NoSchedule"
    assert tags[f"{prefix}/node-template/resources/nvidia.com/gpu"] == "1"
    assert tags[f"{prefix}/node-template/label/k8s.amazonaws.com/accelerator"] == "nvidia-l4"
    assert tags["kubernetes.io/cluster/demo"] == "owned"


def test_a_created_cluster_tells_everything(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    gpu = GpuCluster(stack, "Gpu", vpc=vpc)
    SelfManagedNodeGroup(
        stack, "Nodes", cluster=gpu.cluster, name="l4", shape=NodeShape(instance_types=("g6.xlarge",)), max_nodes=1
    )

    resources = resources_of(stack)
    data = next(each for id, each in of_type(resources, TEMPLATE).items() if id.startswith("Nodes"))
    text = json.dumps(data["Properties"]["LaunchTemplateData"])
    assert "172.20.0.0/16" in text
    assert "CertificateAuthorityData" in text
    assert "/1.36/amazon-linux-2023/" in text
    [asg] = of_type(resources, ASG)
    cni = next(id for id, each in resources.items() if each["Properties"].get("AddonName") == "vpc-cni")
    assert cni in depends_on(resources, asg)


def test_groups_share_one_profile_role_and_entry_beside_managed_groups(
    stack: cdk.Stack, joinable: eks.ICluster
) -> None:
    shape = NodeShape(instance_types=("g6.xlarge",))
    group(stack, joinable)
    SelfManagedNodeGroup(stack, "More", cluster=joinable, name="b", shape=shape, max_nodes=1, bootstrap=SAYS)
    managed = ManagedNodeGroup(stack, "Managed", cluster=joinable, name="c", shape=shape, max_nodes=1)

    resources = resources_of(stack)
    assert len(of_type(resources, "AWS::IAM::InstanceProfile")) == 1
    entry = only(resources, "AWS::EKS::AccessEntry")
    assert entry["Type"] == "EC2_LINUX"
    assert entry["PrincipalArn"] != stack.resolve(managed.node_role.role_arn)


def test_a_role_of_ones_own_brings_its_own_entry(stack: cdk.Stack, joinable: eks.ICluster) -> None:
    group(stack, joinable, node_role=iam.Role.from_role_name(stack, "Role", "nodes"))

    resources = resources_of(stack)
    assert only(resources, "AWS::IAM::InstanceProfile")["Roles"] == ["nodes"]
    assert of_type(resources, "AWS::IAM::Role") == of_type(resources, "AWS::EKS::AccessEntry") == {}


def test_a_capacity_block_is_scheduled(stack: cdk.Stack, joinable: eks.ICluster) -> None:
    starts = datetime(2026, 12, 1, 11, 30, tzinfo=timezone.utc)
    block = CapacityBlock(
        id="cr-0a100000000000000",
        availability_zone="us-east-1a",
        starts=starts,
        ends=starts + timedelta(days=1),
        instances=2,
    )
    group(stack, joinable, shape=NodeShape(instance_types=("p5.48xlarge",)), capacity=block, max_nodes=2)

    resources = resources_of(stack)
    actions = [each["Properties"] for each in of_type(resources, "AWS::AutoScaling::ScheduledAction").values()]
    assert [(each["StartTime"], each["DesiredCapacity"], each["MaxSize"]) for each in actions] == [
        ("2026-12-01T11:30:00Z", 2, 2),
        ("2026-12-02T10:30:00Z", 0, 0),
    ]
    [size] = of_type(resources, "Custom::GpuNodeGroupSize")
    sizes = {each: only(resources, ASG)[each] for each in ("MinSize", "MaxSize", "DesiredCapacity")}
    assert sizes == {
        "MinSize": {"Fn::GetAtt": [size, "MinSize"]},
        "MaxSize": {"Fn::GetAtt": [size, "MaxSize"]},
        "DesiredCapacity": {"Fn::GetAtt": [size, "DesiredSize"]},
    }
    assert only(resources, "Custom::GpuNodeGroupSize")["ClosedMax"] == 0
    data = only(resources, TEMPLATE)["LaunchTemplateData"]
    assert data["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    assert only(resources, ASG)["VPCZoneIdentifier"] == ["subnet-0123456789abcdef0"]


def test_a_reservation_takes_the_launch_template_alone(stack: cdk.Stack, joinable: eks.ICluster) -> None:
    group(stack, joinable, capacity=Reservation(availability_zone="us-east-1a", id="cr-0a100000000000000"))

    assert "MixedInstancesPolicy" not in only(resources_of(stack), ASG)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"bootstrap": Bootstrap()}, ValueError, r"kubernetes_version must be given for an imported cluster"),
        (
            {"bootstrap": Bootstrap(kubernetes_version="1.36")},
            ValueError,
            "bootstrap must have service_cidr if the cluster states none, got None; copy it from 'aws eks "
            "describe-cluster'",
        ),
        (
            {"bootstrap": replace(SAYS, ami_release="nonsense")},
            ValueError,
            r"bootstrap must have a release of al2023 as ami_release, got 'nonsense'; write one such as 'v\d{8}'",
        ),
        (
            {"bootstrap": replace(SAYS, ami_release="v20260714}}{{resolve:secretsmanager:prod/db}}{{x")},
            ValueError,
            r"bootstrap must have a release of al2023",
        ),
        ({"bootstrap": replace(SAYS, ami_release="1.66.0")}, ValueError, r"bootstrap must have a release of al2023"),
        (
            {
                "bootstrap": replace(SAYS, ami_release="v20261012"),
                "shape": NodeShape(
                    instance_types=("g6.xlarge",), image=CustomImage(id="ami-0123456789abcdef0", driver_branch=580)
                ),
            },
            ValueError,
            "bootstrap must be without ami_release if the shape has its own image, got 'v20261012'",
        ),
        ({"bootstrap": "1.36"}, TypeError, r"bootstrap must be a Bootstrap, got '1.36'"),
        ({"max_nodes": 0}, ValueError, r"max_nodes must be at least 1, got 0"),
        ({"node_role": "nodes"}, TypeError, r"node_role must be an iam.IRole, got 'nodes'"),
        (
            {"shape": NodeShape(instance_types=("g6.xlarge",), taints=(Taint(key="a", value="b"), EVICTS))},
            ValueError,
            "shape must have one taint for each key, got 'a' with NoSchedule, NoExecute; .*cluster autoscaler reads "
            "one effect",
        ),
        ({"shape": None}, TypeError, r"shape must be a NodeShape, got None"),
        ({"cluster": "demo"}, TypeError, r"cluster must be a GpuCluster or a cluster of aws_cdk.aws_eks_v2, got str"),
    ],
)
def test_refuses_before_a_child_is_created(
    stack: cdk.Stack, joinable: eks.ICluster, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"Test/Nodes: {message}"):
        group(stack, joinable, **changes)

    assert stack.node.find_child("Nodes").node.children == []


@pytest.mark.parametrize(
    "missing", ["cluster_endpoint", "cluster_certificate_authority_data", "cluster_security_group_id"]
)
def test_refuses_a_cluster_imported_without_what_a_node_joins_by(stack: cdk.Stack, vpc: ec2.IVpc, missing: str) -> None:
    attributes: dict[str, Any] = {
        "cluster_endpoint": MEMBERSHIP.endpoint,
        "cluster_certificate_authority_data": MEMBERSHIP.certificate_authority,
        "cluster_security_group_id": "sg-0123456789abcdef0",
    }
    attributes.pop(missing)
    bare = eks.Cluster.from_cluster_attributes(stack, "Bare", cluster_name="bare", vpc=vpc, **attributes)

    with pytest.raises(ValueError, match=f"cluster must be imported with .*{missing}"):
        group(stack, bare)


@pytest.mark.parametrize(
    ("operating_system", "release"),
    [("al2023", "v20260101"), ("bottlerocket", "1.64.0"), ("bottlerocket", "1.64.0-18d04e52")],
)
def test_another_release_of_the_image(
    stack: cdk.Stack, joinable: eks.ICluster, operating_system: Any, release: str
) -> None:
    shape = NodeShape(instance_types=("g6.xlarge",), operating_system=operating_system)

    group(stack, joinable, shape=shape, bootstrap=replace(SAYS, ami_release=release))

    assert release in only(resources_of(stack), TEMPLATE)["LaunchTemplateData"]["ImageId"]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"service_cidr": 5}, TypeError, r"bootstrap: service_cidr must be a string, got 5"),
        ({"ami_release": 5}, TypeError, r"bootstrap: ami_release must be a string, got 5"),
        (
            {"kubernetes_version": 1.36},
            TypeError,
            r"bootstrap: kubernetes_version must be one of .*, got 1.36, a number",
        ),
        ({"kubernetes_version": "1.20"}, ValueError, r"bootstrap: kubernetes_version must be one of .*, got '1.20'"),
        (
            {"service_cidr": "172.20.0.0/25"},
            ValueError,
            r"service_cidr must be between /24 and /12, got '172.20.0.0/25'",
        ),
        ({"service_cidr": "172.0.0.0/11"}, ValueError, r"service_cidr must be between /24 and /12, got '172.0.0.0/11'"),
        (
            {"service_cidr": "fd00::/125"},
            ValueError,
            "service_cidr must contain a tenth address for the cluster's DNS, got 'fd00::/125'",
        ),
        ({"service_cidr": "x${Token[a\n[settings]"}, ValueError, r"service_cidr must be an address block"),
    ],
)
def test_bootstrap_refuses(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Bootstrap(**changes)


@pytest.mark.parametrize("block", ["172.20.0.0/24", "172.16.0.0/12", "fd00::/124", "${Token[TOKEN.7]}"])
def test_bootstrap_takes_a_block_that_eks_takes(block: str) -> None:
    assert Bootstrap(service_cidr=block).service_cidr == block


def test_refuses_a_service_block_that_is_none() -> None:
    with pytest.raises(ValueError, match=r"bootstrap: service_cidr must be an address block .* mean '172.20.0.0/16'"):
        Bootstrap(service_cidr="172.20.0.1/16")
