"""AutoModeNodePool emits what EKS Auto Mode understands, with the access its nodes need."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import (
    AutoModeNodePool,
    CapacityBlock,
    GpuJob,
    GpuPod,
    NodeShape,
    Reservation,
    Spot,
    Static,
    TimeSlicing,
    UpTo,
)
from gpu_constructs.autoscaling.auto_mode_node_pool import node_class, node_pool
from gpu_constructs.autoscaling.node_pool import Network, NodePool
from gpu_constructs.pools import CustomImage
from gpu_constructs.pools.capacity import OnDemand
from tests.schemas import validate_custom
from tests.templates import depends_on, manifest, object_id, of_type, only, resources_of

NETWORK = Network(subnet_ids=["subnet-0123456789abcdef0"], security_group_ids=["sg-0123456789abcdef0"])
L4 = NodeShape(instance_types=("g6.xlarge",), operating_system="bottlerocket")


def spec(*capacities: Any) -> NodePool:
    return NodePool.from_arguments(
        "who", name="l4", shape=L4, size=UpTo(gpus=8), capacity=capacities or OnDemand(), disruption=None
    )


def pool(stack: cdk.Stack, cluster: eks.ICluster, /, **changes: Any) -> AutoModeNodePool:
    return AutoModeNodePool(
        stack, "Pool", **{"cluster": cluster, "name": "l4", "shape": L4, "size": UpTo(gpus=8)} | changes
    )


def test_node_pool(snapshot_yaml: SnapshotAssertion) -> None:
    assert node_pool(spec()) == snapshot_yaml


def test_node_class(snapshot_yaml: SnapshotAssertion) -> None:
    capacity = Reservation(availability_zone="us-east-1a", id="cr-0a100000000000000")

    assert node_class(pool=spec(capacity), role_name="nodes", network=NETWORK) == snapshot_yaml


def test_node_pool_is_valid_for_its_definition(crds: Path) -> None:
    emitted = node_pool(spec(Spot()))

    validate_custom(emitted, crds)


def test_no_label_or_requirement_of_karpenter_or_a_device_plugin() -> None:
    text = str(node_pool(spec()))

    assert "karpenter.k8s.aws" not in text
    assert "kubernetes.io/os" not in text
    assert "nvidia.com/gpu.present" not in text
    assert "device-plugin" not in text


def test_the_usual_shape_boots_auto_modes_image(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    made = pool(stack, cluster, shape=NodeShape(instance_types=("g6.xlarge",)))

    assert made.shape == L4
    assert manifest(resources_of(stack), "NodePool")["spec"]["template"]["metadata"]["labels"] == {
        "gpu-constructs.io/pool": "l4",
        "gpu-constructs.io/device-manager": "auto-mode",
    }


def test_nodes_have_access_while_there_are_nodes(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    pool(stack, cluster)

    resources = resources_of(stack)
    entry = only(resources, "AWS::EKS::AccessEntry")
    assert entry["Type"] == "EC2"
    assert "AmazonEKSAutoNodePolicy" in str(entry["AccessPolicies"])
    needed = depends_on(resources, object_id(resources, "NodePool"))
    assert object_id(resources, "NodeClass") in needed
    assert set(of_type(resources, "AWS::EKS::AccessEntry")) <= needed


def test_pools_share_one_role_and_entry(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    first = pool(stack, cluster)
    second = AutoModeNodePool(stack, "More", cluster=cluster, name="more", shape=L4, size=UpTo(gpus=1))

    assert first.node_role is second.node_role
    assert len(of_type(resources_of(stack), "AWS::EKS::AccessEntry")) == 1


def test_a_given_role_brings_its_own_entry(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    pool(stack, cluster, node_role=iam.Role.from_role_name(stack, "Nodes", "auto-nodes"))

    resources = resources_of(stack)
    assert of_type(resources, "AWS::EKS::AccessEntry") == {}
    assert manifest(resources, "NodeClass")["spec"]["role"] == "auto-nodes"


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"name": "default"}, ValueError, r"name must not be 'default'"),
        (
            {"shape": NodeShape(instance_types=("g6.xlarge",), operating_system="al2023")},
            ValueError,
            "shape must have operating_system 'bottlerocket', which Auto Mode uses, or none, got 'al2023'",
        ),
        (
            {"shape": NodeShape(instance_types=("g6.xlarge",), device_manager="gpu-operator")},
            ValueError,
            "shape must be without device_manager, got 'gpu-operator'; remove it, because Auto Mode doesn't support it",
        ),
        (
            {
                "shape": NodeShape(
                    instance_types=("g6.xlarge",), image=CustomImage(id="ami-0123456789abcdef0", driver_branch=580)
                )
            },
            ValueError,
            r"shape must be without image, got CustomImage",
        ),
        (
            {"shape": NodeShape(instance_types=("g6.xlarge", "g7.2xlarge"))},
            ValueError,
            "shape must have instance types that NVIDIA driver 580 supports, got g7.2xlarge; use a KarpenterNodePool, "
            "because no document states that Auto Mode's image has a newer driver",
        ),
        (
            {"shape": NodeShape(instance_types=("g6.xlarge",), operating_system="bottlerocket", placement_group="a")},
            ValueError,
            "shape must be without placement_group, got 'a'; remove it, because Auto Mode doesn't support",
        ),
        (
            {"shape": NodeShape(instance_types=("g6.xlarge",), operating_system="bottlerocket", raid0=False)},
            ValueError,
            "shape must have raid0=True, got False; set it, because Auto Mode always joins the local disks",
        ),
        (
            {
                "shape": NodeShape(
                    instance_types=("g6.xlarge",), operating_system="bottlerocket", sharing=TimeSlicing(4)
                )
            },
            ValueError,
            r"shape must have sharing=Exclusive\(\), got TimeSlicing\(replicas=4\); change it, because Auto Mode can't "
            "share GPUs",
        ),
        ({"size": 8}, TypeError, r"size must be UpTo\(gpus=8\) or Static\(nodes=2\), got 8"),
        ({"shape": "g6.xlarge"}, TypeError, r"shape must be a NodeShape"),
        ({"node_role": "nodes"}, TypeError, r"node_role must be an iam.IRole, got 'nodes'"),
        ({"capacity": CapacityBlock}, TypeError, r"capacity must be OnDemand\(\), Spot\(\)"),
    ],
)
def test_refuses_before_a_child_is_created(
    stack: cdk.Stack, cluster: eks.ICluster, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"Test/Pool: {message}"):
        pool(stack, cluster, **changes)

    assert stack.node.find_child("Pool").node.children == []


@pytest.mark.parametrize(
    ("size", "memory", "accepted"), [(UpTo(gpus=8), 13, True), (UpTo(gpus=8), 14, False), (Static(nodes=2), 14, True)]
)
def test_refuses_memory_that_auto_mode_does_not_expect(
    stack: cdk.Stack, cluster: eks.ICluster, size: UpTo | Static, memory: int, accepted: bool
) -> None:
    nodes = pool(stack, cluster, size=size)
    pod = GpuPod(image="example.com/train:1", memory_gib=memory)

    rule = (
        "Test/Job: memory_gib must be at most 13 with sidecars, the memory that EKS Auto Mode expects of a node of "
        "pool 'l4' before launch, got 14; request less, or add a larger instance type to the pool"
    )
    with nullcontext() if accepted else pytest.raises(ValueError, match=rule):
        GpuJob(stack, "Job", cluster=cluster, pool=nodes, name="train", pod=pod)


def test_refuses_a_cluster_that_is_not_in_auto_mode(stack: cdk.Stack, created_cluster: eks.Cluster) -> None:
    with pytest.raises(ValueError, match="Test/Pool: cluster must use EKS Auto Mode, got one with node groups"):
        AutoModeNodePool(stack, "Pool", cluster=created_cluster, name="l4", shape=L4, size=UpTo(gpus=1))


def test_accepts_a_cluster_in_auto_mode(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    auto = eks.Cluster(stack, "Auto", version=eks.KubernetesVersion.of("1.36"))

    with pytest.raises(ValueError, match="must have a kubectl provider"):
        AutoModeNodePool(stack, "Without", cluster=auto, name="l4", shape=L4, size=UpTo(gpus=1))
    imported = eks.Cluster.from_cluster_attributes(
        stack,
        "AutoImported",
        cluster_name=auto.cluster_name,
        vpc=cluster.vpc,
        kubectl_provider=cluster.kubectl_provider,
        cluster_security_group_id=auto.cluster_security_group_id,
    )
    AutoModeNodePool(stack, "Pool", cluster=imported, name="l4", shape=L4, size=UpTo(gpus=1))

    assert manifest(resources_of(stack), "NodePool")["metadata"]["name"] == "l4"
