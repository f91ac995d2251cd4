"""More nodes than addresses are refused; more than the network plugin's habits leave room for are warned of."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Annotations, Match

from gpu_constructs import KarpenterNodePool, ManagedNodeGroup, NodeShape, UpTo
from gpu_constructs.nodes.launch_template import addresses_per_node
from tests.templates import only, resources_of

P5 = NodeShape(instance_types=("p5.48xlarge",), efa=True)


def subnet(stack: cdk.Stack, block: str | None) -> ec2.ISubnet:
    return ec2.Subnet.from_subnet_attributes(
        stack, "Subnet", subnet_id="subnet-0123456789abcdef7", ipv4_cidr_block=block
    )


def group(stack: cdk.Stack, cluster: eks.ICluster, block: str | None, **changes: Any) -> None:
    says: dict[str, Any] = {"name": "p5", "shape": P5, "max_nodes": 4}
    ManagedNodeGroup(stack, "Nodes", cluster=cluster, subnets=[subnet(stack, block)], **says | changes)


def test_a_node_fills_two_interfaces_and_no_efa() -> None:
    assert addresses_per_node(P5) == 100
    assert addresses_per_node(NodeShape(instance_types=("g6.xlarge",))) == 30
    assert addresses_per_node(NodeShape(instance_types=("p6e-gb200.36xlarge",))) is None


@pytest.mark.parametrize(("block", "nodes", "warned"), [("10.0.0.0/24", 2, False), ("10.0.0.0/24", 3, True)])
def test_warns_of_a_subnet_that_the_last_nodes_would_exhaust(
    stack: cdk.Stack, cluster: eks.ICluster, block: str, nodes: int, warned: bool
) -> None:
    group(stack, cluster, block, max_nodes=nodes)

    found = Annotations.from_stack(stack).find_warning(
        "/Test/Nodes", Match.string_like_regexp("use up to 300 addresses, 100 each, and the subnets have 251")
    )
    assert bool(found) == warned


def test_refuses_a_subnet_with_less_addresses_than_nodes(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    with pytest.raises(ValueError, match="Test/Nodes: subnets must have an address for each of 12 nodes, got 11"):
        group(stack, cluster, "10.0.0.0/28", max_nodes=12)


def test_accepts_as_many_nodes_as_addresses(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    group(stack, cluster, "10.0.0.0/28", max_nodes=11)

    assert only(resources_of(stack), "AWS::EKS::Nodegroup")["ScalingConfig"]["MaxSize"] == 11


def test_says_nothing_of_what_it_does_not_know(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    group(stack, cluster, None, max_nodes=100_000)

    Annotations.from_stack(stack).has_no_warning("/Test/Nodes", Match.any_value())


def test_counts_the_nodes_of_a_pool_by_its_gpus(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    KarpenterNodePool(
        stack,
        "Pool",
        cluster=cluster,
        name="p5",
        shape=P5,
        size=UpTo(gpus=24),
        node_role=iam.Role.from_role_name(stack, "Role", "nodes"),
        subnets=[subnet(stack, "10.0.0.0/24")],
    )

    Annotations.from_stack(stack).has_warning("/Test/Pool", Match.string_like_regexp("3 nodes of p5.48xlarge"))
