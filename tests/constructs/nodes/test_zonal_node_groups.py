"""ZonalNodeGroups makes one group a zone, under one pool name."""

from __future__ import annotations

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks

from gpu_constructs import NodeShape, Spot
from gpu_constructs.nodes import ZonalNodeGroups
from tests.templates import of_type, resources_of

EFA = NodeShape(instance_types=("p5.48xlarge",), efa=True)


def test_one_group_in_each_zone(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    made = ZonalNodeGroups(
        stack, "Nodes", cluster=cluster, name="p5", shape=EFA, max_nodes_per_zone=2, capacity=Spot(checkpointed=True)
    )

    groups = [each["Properties"] for each in of_type(resources_of(stack), "AWS::EKS::Nodegroup").values()]
    assert [each["Subnets"] for each in groups] == [["subnet-0123456789abcdef0"], ["subnet-0123456789abcdef1"]]
    assert {each["Labels"]["gpu-constructs.io/pool"] for each in groups} == {"p5"}
    assert {each["CapacityType"] for each in groups} == {"SPOT"}
    assert [each.node.id for each in made.groups] == ["us-east-1a", "us-east-1b"]
    assert (made.name, made.shape) == ("p5", EFA)


def test_zones_known_at_deployment_only_are_counted(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    subnets = [ec2.Subnet.from_subnet_id(stack, id, f"subnet-0123456789abcde{id}") for id in ("f1", "f2")]

    made = ZonalNodeGroups(stack, "Nodes", cluster=cluster, name="p5", shape=EFA, max_nodes_per_zone=2, subnets=subnets)

    assert [each.node.id for each in made.groups] == ["Zone1", "Zone2"]


def test_refuses_two_subnets_of_a_zone(stack: cdk.Stack, cluster: eks.ICluster, vpc: ec2.IVpc) -> None:
    twice = [vpc.private_subnets[0], vpc.private_subnets[0]]

    with pytest.raises(ValueError, match="Test/Nodes: subnets must be in different zones, got us-east-1a, us-east-1a"):
        ZonalNodeGroups(stack, "Nodes", cluster=cluster, name="p5", shape=EFA, max_nodes_per_zone=2, subnets=twice)
