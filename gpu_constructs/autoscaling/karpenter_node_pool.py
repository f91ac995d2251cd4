"""A pool of GPU nodes that Karpenter launches."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.autoscaling.karpenter import Karpenter
from gpu_constructs.autoscaling.karpenter_manifests import Network, ec2_node_class, node_pool
from gpu_constructs.autoscaling.pool_arguments import (
    refuse_unless_launchable,
    refuse_unless_max_gpus,
    security_groups,
)
from gpu_constructs.cluster_ref import AnyCluster, PathOf, cluster_ref, refuse_unless_role
from gpu_constructs.delivery import apply_manifests
from gpu_constructs.nodes.zones import refuse_unless_one_zone
from gpu_constructs.pools.capacity import Capacity, OnDemand
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.versions import AMI_RELEASES

# Of `alias: <family>@<release>` in an EC2NodeClass (CRD of v1.14.1).
_MAX_ALIAS = 30


class KarpenterNodePool(Construct):
    """A NodePool and its EC2NodeClass for GPU nodes, up to a number of GPUs.

    The nodes boot a pinned image, are removed when they have been empty for ten minutes, and are never taken from a
    running pod. When the pool is deleted, its nodes are drained and gone before Karpenter is.

    Args:
        cluster: Cluster the nodes join; needs a kubectl provider.
        name: Name of both objects, and value of the nodes' label ``gpu-constructs.io/pool``.
        shape: What every node looks like.
        max_gpus: Most GPUs alive in the pool, in whole devices. Karpenter has no such limit of its own.
        capacity: How the instances are bought.
        karpenter: Controller of this app. Leave it out where the cluster runs Karpenter already.
        node_role: Role of the nodes, with an access entry. Default: the role of ``karpenter``.
        subnets: Where nodes may start. Default: the private subnets of the cluster's VPC.
        security_group_ids: Security groups of the nodes. Default: the cluster's own security group.
        ami_release: Image release, ``v20260724`` for AL2023 or ``1.66.0`` for Bottlerocket; ``latest`` replaces
            empty nodes at every release. Default: the release pinned in `gpu_constructs.versions`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Karpenter or the API server would refuse the pool, or it could never launch a node.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        name: str,
        shape: NodeShape,
        max_gpus: int,
        capacity: Capacity = OnDemand(),  # noqa: B008 - frozen value
        karpenter: Karpenter | None = None,
        node_role: iam.IRole | None = None,
        subnets: Sequence[ec2.ISubnet] | None = None,
        security_group_ids: Sequence[str] | None = None,
        ami_release: str | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_launchable(who, name=name, shape=shape, capacity=capacity)
        refuse_unless_max_gpus(who, shape, max_gpus)
        role = _role(who, karpenter, node_role)
        release = _ami_release(who, shape, ami_release)
        chosen = ref.subnets(subnets, who=who, zone=capacity.availability_zone)
        refuse_unless_one_zone(who, shape, chosen)
        network = Network(
            subnet_ids=[each.subnet_id for each in chosen],
            security_group_ids=security_groups(who, ref, security_group_ids),
        )
        ref.claim(who, f"NodePool named {name!r}", why="they are the same Kubernetes object")

        self.name = name
        self.shape = shape
        self.node_class = apply_manifests(
            self,
            "NodeClass",
            cluster=ref,
            manifests=[
                ec2_node_class(
                    name=name,
                    shape=shape,
                    capacity=capacity,
                    ami_release=release,
                    role_name=role.role_name,
                    network=network,
                    cluster_name=ref.name,
                )
            ],
        )
        self.resource = apply_manifests(
            self,
            "Resource",
            cluster=ref,
            manifests=[node_pool(name=name, shape=shape, capacity=capacity, max_gpus=max_gpus)],
        )
        # On the way down: pool, class (which waits until the nodes are gone), controller, its permissions.
        self.resource.node.add_dependency(self.node_class)
        if karpenter is not None:
            self.node_class.node.add_dependency(karpenter.chart)


def _role(who: object, karpenter: object, node_role: iam.IRole | None) -> iam.IRole:
    if karpenter is not None and not isinstance(karpenter, Karpenter):
        raise TypeError(f"{who}: karpenter must be a Karpenter, got {karpenter!r}")
    refuse_unless_role(who, "node_role", node_role)
    if node_role is not None:
        return node_role
    if karpenter is None:
        raise ValueError(
            f"{who}: node_role must be given without karpenter, got None; pass the role that the cluster's "
            "Karpenter gives to its nodes"
        )
    return karpenter.node_role


def _ami_release(who: object, shape: NodeShape, given: object) -> str:
    release = AMI_RELEASES[shape.operating_system].version if given is None else given
    if not isinstance(release, str):
        raise TypeError(f"{who}: ami_release must be a string, got {given!r}")
    room = _MAX_ALIAS - len(shape.operating_system) - 1
    if not release or len(release) > room or "@" in release:
        raise ValueError(
            f"{who}: ami_release must be 1 to {room} characters such as "
            f"{AMI_RELEASES[shape.operating_system].version!r}, got {release!r}"
        )
    return release
