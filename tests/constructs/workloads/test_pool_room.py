"""Replicas that the nodes of a pool never have room for are refused."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks

from gpu_constructs import GpuDeployment, GpuPod, KarpenterNodePool, ManagedNodeGroup, NodeShape, TimeSlicing, UpTo
from gpu_constructs.nodes.gpu_nodes import GpuNodes
from gpu_constructs.pools import Static

IMAGE = "example.com/chat:1"
FOUR = NodeShape(instance_types=("g6.12xlarge",))
ONE = NodeShape(instance_types=("g6.xlarge",))


def group(stack: cdk.Stack, cluster: eks.ICluster, **says: Any) -> GpuNodes:
    """A group of at most two nodes with four GPUs each, with changes."""
    changed: dict[str, Any] = {"shape": FOUR, "max_nodes": 2} | says
    return ManagedNodeGroup(stack, "Pool", cluster=cluster, name="l4", **changed)


def karpenter(stack: cdk.Stack, cluster: eks.ICluster, **says: Any) -> GpuNodes:
    """A pool of Karpenter."""
    role = cdk.aws_iam.Role.from_role_name(stack, "Nodes", "nodes")
    return KarpenterNodePool(stack, "Pool", cluster=cluster, name="l4", node_role=role, **says)


def deploy(stack: cdk.Stack, cluster: eks.ICluster, pool: GpuNodes, replicas: int, **pod: Any) -> None:
    """Deploy pods."""
    made = GpuPod(image=IMAGE, **pod)
    GpuDeployment(stack, "Chat", cluster=cluster, pool=pool, name="chat", pod=made, port=8000, replicas=replicas)


@pytest.mark.parametrize(
    ("pod", "most"),
    [
        ({}, 8),
        ({"gpus": 3}, 2),
        ({"cpus": 20}, 4),
        ({"memory_gib": 80}, 4),
    ],
)
def test_the_nodes_of_a_group_bound_the_replicas(
    stack: cdk.Stack, cluster: eks.ICluster, pod: dict[str, Any], most: int
) -> None:
    pool = group(stack, cluster)

    refused = f"Test/Chat: replicas must be at most {most}, which fit on the 2 nodes of pool 'l4', got {most + 1}"
    with pytest.raises(ValueError, match=rf"{refused}; .* \[GPU121\]"):
        deploy(stack, cluster, pool, most + 1, **pod)
    stack.node.try_remove_child("Chat")
    deploy(stack, cluster, pool, most, **pod)


@pytest.mark.parametrize(
    ("shape", "size", "most"),
    [
        (ONE, UpTo(gpus=2), 2),
        (FOUR, UpTo(gpus=7), 4),
        (NodeShape(instance_types=("g6.xlarge",), sharing=TimeSlicing(replicas=4)), UpTo(gpus=2), 8),
        (FOUR, Static(nodes=1), 4),
    ],
)
def test_the_size_of_a_pool_of_karpenter_bounds_them(
    stack: cdk.Stack, cluster: eks.ICluster, shape: NodeShape, size: Any, most: int
) -> None:
    pool = karpenter(stack, cluster, shape=shape, size=size)

    pod = {"cpus": 0.5, "memory_gib": 2}
    with pytest.raises(ValueError, match=rf"replicas must be at most {most}, .*, got {most + 1}"):
        deploy(stack, cluster, pool, most + 1, **pod)
    stack.node.try_remove_child("Chat")
    deploy(stack, cluster, pool, most, **pod)


def test_replicas_are_free_where_only_the_deployment_knows_the_number_of_nodes(
    stack: cdk.Stack, cluster: eks.ICluster
) -> None:
    most = cdk.CfnParameter(stack, "Most", type="Number").value_as_number

    deploy(stack, cluster, group(stack, cluster, max_nodes=most), 100)


def test_replicas_are_free_where_an_overlay_changes_the_pod(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    deploy(stack, cluster, group(stack, cluster), 100, overlay={"nodeSelector": {"gpu-constructs.io/pool": None}})
