"""Every kind of pool has a name, a role to grant permissions to, and a way to place pods on its nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from gpu_constructs import AutoModeNodePool, KarpenterNodePool, ManagedNodeGroup, NodeShape, Taint, UpTo
from gpu_constructs.nodes import Bootstrap, GpuNodes, SelfManagedNodeGroup, ZonalNodeGroups
from tests.clusters import CERTIFICATE, ENDPOINT, imported_cluster, imported_vpc
from tests.templates import of_type, resources_of

TEAM = Taint(key="team", value="a", effect="NoExecute")
L4 = NodeShape(instance_types=("g6.xlarge",), taints=(TEAM,))
WHERE = Bootstrap(kubernetes_version="1.36", service_cidr="172.20.0.0/16")


def karpenters(stack: cdk.Stack, id: str, **says: Any) -> KarpenterNodePool:
    role = iam.Role(stack, f"{id}Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
    return KarpenterNodePool(stack, id, size=UpTo(gpus=2), node_role=role, **says)


KINDS: dict[str, Callable[..., GpuNodes]] = {
    "managed": lambda stack, id, **says: ManagedNodeGroup(stack, id, max_nodes=2, **says),
    "self-managed": lambda stack, id, **says: SelfManagedNodeGroup(stack, id, max_nodes=2, bootstrap=WHERE, **says),
    "zonal": lambda stack, id, **says: ZonalNodeGroups(stack, id, max_nodes_per_zone=1, **says),
    "karpenter": karpenters,
    "auto-mode": lambda stack, id, **says: AutoModeNodePool(stack, id, size=UpTo(gpus=2), **says),
}


@pytest.fixture
def joinable(stack: cdk.Stack) -> eks.ICluster:
    """A cluster that pools of every kind can join."""
    return imported_cluster(
        stack, imported_vpc(stack), cluster_endpoint=ENDPOINT, cluster_certificate_authority_data=CERTIFICATE
    )


@pytest.mark.parametrize("kind", KINDS)
def test_pods_get_what_is_granted_to_the_pool(stack: cdk.Stack, joinable: eks.ICluster, kind: str) -> None:
    pool = KINDS[kind](stack, "Pool", cluster=joinable, name="l4", shape=L4)

    s3.Bucket(stack, "Data").grant_read(pool)

    resources = resources_of(stack)
    [policy] = [each["Properties"] for each in of_type(resources, "AWS::IAM::Policy").values()]
    assert "s3:GetObject*" in policy["PolicyDocument"]["Statement"][0]["Action"]
    [role] = [each["Ref"] for each in policy["Roles"]]
    assert resources[role]["Type"] == "AWS::IAM::Role"
    assert role == stack.resolve(pool.node_role.role_name)["Ref"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_pool_says_how_pods_get_onto_its_nodes(stack: cdk.Stack, joinable: eks.ICluster, kind: str) -> None:
    pool = KINDS[kind](stack, "Pool", cluster=joinable, name="l4", shape=L4)

    assert pool.node_selector == {"gpu-constructs.io/pool": "l4"}
    assert pool.tolerations == [
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"},
        {"key": "team", "operator": "Equal", "value": "a", "effect": "NoExecute"},
    ]


@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_two_pools_of_one_name_are_refused_whatever_their_kind(
    stack: cdk.Stack, joinable: eks.ICluster, first: str, second: str
) -> None:
    KINDS[first](stack, "First", cluster=joinable, name="l4", shape=L4)

    with pytest.raises(
        ValueError, match="Test/Second: cluster must have one pool named 'l4', got a second one next to 'Test/First'"
    ):
        KINDS[second](stack, "Second", cluster=joinable, name="l4", shape=L4)
    KINDS[second](stack, "Third", cluster=joinable, name="other", shape=L4)


@pytest.mark.parametrize("kind", KINDS)
def test_two_clusters_have_pools_of_one_name(stack: cdk.Stack, joinable: eks.ICluster, kind: str) -> None:
    scope = Construct(stack, "Other")
    other = imported_cluster(
        scope, imported_vpc(scope), cluster_endpoint=ENDPOINT, cluster_certificate_authority_data=CERTIFICATE
    )

    pools = [KINDS[kind](scope, id, cluster=each, name="l4", shape=L4) for id, each in (("A", joinable), ("B", other))]

    assert [each.name for each in pools] == ["l4", "l4"]
