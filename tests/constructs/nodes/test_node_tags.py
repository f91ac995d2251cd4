"""Tags of the scope reach what EC2 launches, on every kind of pool that can tag it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
import yaml
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam

from gpu_constructs import AutoModeNodePool, GpuCluster, KarpenterNodePool, ManagedNodeGroup, NodeShape, UpTo
from gpu_constructs.nodes import Bootstrap, SelfManagedNodeGroup
from tests.clusters import CERTIFICATE, ENDPOINT, imported_cluster, imported_vpc
from tests.schemas import validate_custom
from tests.templates import manifest, of_type, only, resources_of

SHAPE = NodeShape(instance_types=("g6.xlarge",))
TAGGED = NodeShape(instance_types=("g6.xlarge",), tags={"team": "search"})
RESERVED = (
    "eks:eks-cluster-name",
    "kubernetes.io/cluster/demo",
    "karpenter.sh/nodepool",
    "karpenter.sh/nodeclaim",
    "karpenter.k8s.aws/ec2nodeclass",
)
Specifications = dict[str, dict[str, Any]]


@pytest.fixture
def joinable(stack: cdk.Stack, vpc: ec2.IVpc) -> eks.ICluster:
    """An imported cluster with everything a node joins by."""
    return imported_cluster(stack, vpc, cluster_endpoint=ENDPOINT, cluster_certificate_authority_data=CERTIFICATE)


def managed(stack: cdk.Stack, cluster: eks.ICluster, shape: NodeShape) -> ManagedNodeGroup:
    return ManagedNodeGroup(stack, "Nodes", cluster=cluster, name="l4", shape=shape, max_nodes=4)


def self_managed(stack: cdk.Stack, cluster: eks.ICluster, shape: NodeShape) -> SelfManagedNodeGroup:
    says = Bootstrap(kubernetes_version="1.36", service_cidr="10.100.0.0/16")
    return SelfManagedNodeGroup(stack, "Nodes", cluster=cluster, name="l4", shape=shape, max_nodes=4, bootstrap=says)


def karpenter_pool(stack: cdk.Stack, cluster: eks.ICluster, shape: NodeShape) -> KarpenterNodePool:
    role = iam.Role.from_role_name(stack, "Role", "karpenter-nodes")
    return KarpenterNodePool(stack, "Nodes", cluster=cluster, name="l4", shape=shape, size=UpTo(gpus=8), node_role=role)


GROUPS = pytest.mark.parametrize("make", [managed, self_managed])


def specifications(data: dict[str, Any]) -> Specifications:
    """The tagged resources, and how they are tagged."""
    return {
        each["ResourceType"]: {tag["Key"]: tag["Value"] for tag in each["Tags"]} for each in data["TagSpecifications"]
    }


def launched(stack: cdk.Stack) -> Specifications:
    return specifications(only(resources_of(stack), "AWS::EC2::LaunchTemplate")["LaunchTemplateData"])


@GROUPS
def test_tags_of_the_stack_reach_all_that_is_launched(
    stack: cdk.Stack, joinable: eks.ICluster, make: Callable[..., Any]
) -> None:
    make(stack, joinable, SHAPE)
    cdk.Tags.of(stack).add("cost-centre", "4711")

    tags = {"Name": "demo-l4", "cost-centre": "4711"}
    assert launched(stack) == {"instance": tags, "volume": tags, "network-interface": tags}


@GROUPS
def test_everything_is_named(stack: cdk.Stack, joinable: eks.ICluster, make: Callable[..., Any]) -> None:
    make(stack, joinable, SHAPE)

    assert launched(stack) == {key: {"Name": "demo-l4"} for key in ("instance", "volume", "network-interface")}


def test_the_nearest_tag_wins(stack: cdk.Stack, joinable: eks.ICluster) -> None:
    group = managed(stack, joinable, TAGGED)
    cdk.Tags.of(stack).add("team", "platform")
    cdk.Tags.of(stack).add("stage", "test")
    cdk.Tags.of(group).add("stage", "production")
    cdk.Tags.of(group).add("Name", "mine")

    assert launched(stack)["instance"] == {"Name": "mine", "team": "search", "stage": "production"}


def test_a_tag_may_be_meant_for_nodes_alone_or_for_all_but_them(stack: cdk.Stack, joinable: eks.ICluster) -> None:
    managed(stack, joinable, SHAPE)
    cdk.Tags.of(stack).add("patch", "yes", include_resource_types=["AWS::EC2::Instance"])
    cdk.Tags.of(stack).add("owner", "me", exclude_resource_types=["AWS::EC2::Instance"])

    resources = resources_of(stack)
    assert launched(stack)["volume"] == {"Name": "demo-l4", "patch": "yes"}
    tags = only(resources, "AWS::EKS::Nodegroup")["Tags"]
    assert tags["owner"] == "me"
    assert "patch" not in tags


def test_a_tag_may_be_known_at_deployment_only(stack: cdk.Stack, joinable: eks.ICluster) -> None:
    managed(stack, joinable, SHAPE)
    cdk.Tags.of(stack).add("stack", cdk.Aws.STACK_NAME)

    assert launched(stack)["instance"]["stack"] == {"Ref": "AWS::StackName"}


def test_system_nodes_are_tagged_alike(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    GpuCluster(stack, "Gpu", vpc=vpc)
    cdk.Tags.of(stack).add("cost-centre", "4711")

    templates = of_type(resources_of(stack), "AWS::EC2::LaunchTemplate")
    [data] = [each["Properties"]["LaunchTemplateData"] for each in templates.values()]
    assert all(tags["cost-centre"] == "4711" for tags in specifications(data).values())
    assert "network-interface" in specifications(data)


def test_karpenter_gets_them(stack: cdk.Stack, joinable: eks.ICluster, crds: Path) -> None:
    karpenter_pool(stack, joinable, TAGGED)
    cdk.Tags.of(stack).add("cost-centre", "4711")
    for key in RESERVED:
        cdk.Tags.of(stack).add(key, "owned")

    made = manifest(resources_of(stack), "EC2NodeClass")
    assert made["spec"]["tags"] == {"Name": "demo-l4", "cost-centre": "4711", "team": "search"}
    validate_custom(made, crds)


def in_a_file(folder: Path, value: str) -> cdk.App:
    """An app whose pool is a file, with a tag of the scope."""
    told = {"gpu-constructs:delivery": "argocd", "gpu-constructs:manifests": str(folder)}
    app = cdk.App(context=told, analytics_reporting=False)
    stack = cdk.Stack(app, "Test")
    karpenter_pool(stack, imported_cluster(stack, imported_vpc(stack, ("us-east-1a",))), SHAPE)
    cdk.Tags.of(stack).add("cost-centre", value)
    return app


def test_no_file_has_what_only_deployment_tells(tmp_path: Path) -> None:
    app = in_a_file(tmp_path, cdk.Aws.STACK_NAME)

    with pytest.raises(RuntimeError, match=r"Test/Nodes/NodeTags: tag 'cost-centre' must be known at synth to be writ"):
        app.synth()


def test_a_name_that_only_deployment_tells_is_an_output(tmp_path: Path) -> None:
    told = {"gpu-constructs:delivery": "argocd", "gpu-constructs:manifests": str(tmp_path)}
    app = cdk.App(context=told, analytics_reporting=False)
    stack = cdk.Stack(app, "Test")
    name = cdk.CfnParameter(stack, "Name").value_as_string
    cluster = eks.Cluster.from_cluster_attributes(
        stack,
        "Cluster",
        cluster_name=name,
        vpc=imported_vpc(stack, ("us-east-1a",)),
        cluster_security_group_id="sg-0123456789abcdef0",
    )
    karpenter_pool(stack, cluster, SHAPE)

    template = app.synth().get_stack_by_name("Test").template

    [made] = yaml.safe_load_all((tmp_path / "Test" / "objects" / "Nodes-NodeClass.yaml").read_text())
    key = made["spec"]["tags"]["Name"].strip("${}")
    assert key == "NodesNodeclassSpecTagsName"
    assert template["Outputs"][key]["Value"] == {"Fn::Join": ["", [{"Ref": "Name"}, "-l4"]]}


def test_a_manifest_for_gitops_has_them(tmp_path: Path) -> None:
    in_a_file(tmp_path, "4711").synth()

    [made] = yaml.safe_load_all((tmp_path / "Test" / "objects" / "Nodes-NodeClass.yaml").read_text())
    assert made["spec"]["tags"] == {"Name": "demo-l4", "cost-centre": "4711"}


def test_auto_modes_nodes_are_not_tagged(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    AutoModeNodePool(stack, "Nodes", cluster=cluster, name="l4", shape=SHAPE, size=UpTo(gpus=8))
    cdk.Tags.of(stack).add("cost-centre", "4711")

    assert "4711" not in json.dumps(manifest(resources_of(stack), "NodeClass"))
