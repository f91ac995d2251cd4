"""Node groups give their machines what the host of their shape says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam

from gpu_constructs import ManagedNodeGroup, NodeShape
from gpu_constructs.nodes import Bootstrap, NodeUpdate, SelfManagedNodeGroup, ZonalNodeGroups
from gpu_constructs.pools import Host
from tests.clusters import CERTIFICATE, ENDPOINT, imported_cluster
from tests.templates import of_type, only, resources_of

TEMPLATE = "AWS::EC2::LaunchTemplate"
EXTRA = "sg-0123456789abcdef9"
Make = Callable[..., Any]


@pytest.fixture
def joinable(stack: cdk.Stack, vpc: ec2.IVpc) -> eks.ICluster:
    """An imported cluster with everything a node joins by."""
    return imported_cluster(stack, vpc, cluster_endpoint=ENDPOINT, cluster_certificate_authority_data=CERTIFICATE)


def managed(stack: cdk.Stack, cluster: eks.ICluster, shape: NodeShape, **changes: Any) -> ManagedNodeGroup:
    return ManagedNodeGroup(stack, "Nodes", cluster=cluster, name="l4", shape=shape, max_nodes=4, **changes)


def self_managed(stack: cdk.Stack, cluster: eks.ICluster, shape: NodeShape, **changes: Any) -> SelfManagedNodeGroup:
    says = Bootstrap(kubernetes_version="1.36", service_cidr="10.100.0.0/16")
    return SelfManagedNodeGroup(
        stack, "Nodes", cluster=cluster, name="l4", shape=shape, max_nodes=4, bootstrap=says, **changes
    )


BOTH = pytest.mark.parametrize("make", [managed, self_managed])


def shape(name: str = "g6.xlarge", *, efa: bool = False, **host: Any) -> NodeShape:
    return NodeShape(instance_types=(name,), efa=efa, host=Host(**host))


def data_of(stack: cdk.Stack) -> dict[str, Any]:
    data: dict[str, Any] = only(resources_of(stack), TEMPLATE)["LaunchTemplateData"]
    return data


@BOTH
def test_nodes_keep_the_clusters_group_with_others(stack: cdk.Stack, joinable: eks.ICluster, make: Make) -> None:
    make(stack, joinable, shape(security_group_ids=(EXTRA,)))

    data = data_of(stack)
    assert data["SecurityGroupIds"] == ["sg-0123456789abcdef0", EXTRA]
    assert "NetworkInterfaces" not in data


@BOTH
def test_every_interface_has_the_groups(stack: cdk.Stack, vpc: ec2.IVpc, joinable: eks.ICluster, make: Make) -> None:
    efa = shape("p5.48xlarge", efa=True, security_group_ids=(EXTRA,))
    make(stack, joinable, efa, subnets=vpc.private_subnets[:1])

    data = data_of(stack)
    groups = {tuple(each["Groups"]) for each in data["NetworkInterfaces"]}
    assert groups == {("sg-0123456789abcdef0", EXTRA)}
    assert "SecurityGroupIds" not in data


def test_a_group_of_the_app_may_be_passed(stack: cdk.Stack, vpc: ec2.IVpc, joinable: eks.ICluster) -> None:
    group = ec2.CfnSecurityGroup(stack, "Lustre", group_description="Lustre", vpc_id=vpc.vpc_id)
    managed(stack, joinable, shape(security_group_ids=(group.attr_group_id,)))

    assert data_of(stack)["SecurityGroupIds"][1] == {"Fn::GetAtt": ["Lustre", "GroupId"]}


def test_groups_together_with_none_are_refused(stack: cdk.Stack) -> None:
    cluster = eks.Cluster.from_cluster_attributes(stack, "Cluster", cluster_name="demo")
    subnet = ec2.Subnet.from_subnet_attributes(
        stack, "Subnet", subnet_id="subnet-0123456789abcdef7", route_table_id="rtb-0123456789abcdef7"
    )

    with pytest.raises(ValueError, match=r"Test/Nodes: shape must be without host.security_group_ids when the cluster"):
        managed(stack, cluster, shape(security_group_ids=(EXTRA,)), subnets=[subnet])
    assert stack.node.find_child("Nodes").node.children == []


@BOTH
@pytest.mark.parametrize("hops", [1, 2])
def test_the_metadata_service_answers_so_far(stack: cdk.Stack, joinable: eks.ICluster, make: Make, hops: int) -> None:
    make(stack, joinable, shape(metadata_hop_limit=hops))

    metadata = data_of(stack)["MetadataOptions"]
    assert metadata == {"HttpEndpoint": "enabled", "HttpTokens": "required", "HttpPutResponseHopLimit": hops}


@BOTH
@pytest.mark.parametrize("asked", [True, False])
def test_session_manager_opens_the_role_of_the_nodes(
    stack: cdk.Stack, joinable: eks.ICluster, make: Make, asked: bool
) -> None:
    make(stack, joinable, shape(session_manager=asked))

    node_roles = [each for id, each in of_type(resources_of(stack), "AWS::IAM::Role").items() if "NodeRole" in id]
    [role] = node_roles
    assert ("AmazonSSMManagedInstanceCore" in str(role["Properties"]["ManagedPolicyArns"])) is asked


@BOTH
def test_a_role_of_ones_own_is_opened_by_its_owner(stack: cdk.Stack, joinable: eks.ICluster, make: Make) -> None:
    role = iam.Role.from_role_name(stack, "Mine", "mine")

    with pytest.raises(
        ValueError, match=r"without host.session_manager if you pass the role .*attach AmazonSSMManagedInst"
    ):
        make(stack, joinable, shape(session_manager=True), node_role=role)
    assert stack.node.find_child("Nodes").node.children == []


def test_an_update_may_launch_first(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    managed(stack, cluster, shape(), update=NodeUpdate(max_unavailable="33%", strategy="DEFAULT"))

    update = only(resources_of(stack), "AWS::EKS::Nodegroup")["UpdateConfig"]
    assert update == {"MaxUnavailablePercentage": 33, "UpdateStrategy": "DEFAULT"}


def test_groups_of_zones_update_alike(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    ZonalNodeGroups(
        stack,
        "Nodes",
        cluster=cluster,
        name="l4",
        shape=shape(),
        max_nodes_per_zone=2,
        update=NodeUpdate(max_unavailable=2),
    )

    groups = of_type(resources_of(stack), "AWS::EKS::Nodegroup").values()
    assert [each["Properties"]["UpdateConfig"]["MaxUnavailable"] for each in groups] == [2] * len(groups)
    assert len(groups) > 1


@pytest.mark.parametrize("argument", ["update", "node_repair"])
def test_none_is_no_value(stack: cdk.Stack, cluster: eks.ICluster, argument: str) -> None:
    with pytest.raises(TypeError, match=f"Test/Nodes: {argument} must be a Node.*, got None"):
        managed(stack, cluster, shape(), **{argument: None})
