"""A managed node group of GPU nodes, right for every NVIDIA type EC2 sells."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.cluster_ref import AnyCluster, PathOf, cluster_ref, refuse_unless_role
from gpu_constructs.nodes.ami_type import nvidia_ami_type
from gpu_constructs.nodes.capacity_block_schedule import CapacityBlockSchedule
from gpu_constructs.nodes.launch_template import launch_template_data, network, reserved_capacity
from gpu_constructs.nodes.node_role import shared_node_role
from gpu_constructs.nodes.user_data import user_data
from gpu_constructs.nodes.zones import refuse_unless_one_zone
from gpu_constructs.pools.capacity import Capacity, CapacityBlock, OnDemand, refuse_unless_capacity, refuse_unless_sold
from gpu_constructs.pools.kubernetes_names import refuse_unless_object_name
from gpu_constructs.pools.node_labels import TEMPLATE_RESOURCE_TAG
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.taint import Taint
from gpu_constructs.refusals import refuse_unless_whole_number

# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html (instanceTypes)
MAX_INSTANCE_TYPES = 20
_MANAGED_EFFECT = {
    "NoSchedule": "NO_SCHEDULE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
}


class ManagedNodeGroup(Construct):
    """GPU nodes that EKS creates, joins to the cluster, updates and repairs.

    The group carries everything cluster autoscaler must know to scale it up from zero. Its desired size is never
    in the template: from the first scale-up on it belongs to the autoscaler.

    Args:
        cluster: Cluster the nodes join; created here or imported.
        name: Value of the nodes' label ``gpu-constructs.io/pool``.
        shape: What every node looks like.
        max_nodes: Most nodes the group may have.
        min_nodes: Nodes that always run.
        capacity: How the instances are bought.
        subnets: Where nodes may start. Default: the private subnets of the cluster's VPC.
        role: Role of the nodes. Default: one role shared by the node groups of the cluster.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: EKS would refuse the group, or the autoscaler would misjudge its nodes.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        name: str,
        shape: NodeShape,
        max_nodes: int,
        min_nodes: int = 0,
        capacity: Capacity = OnDemand(),  # noqa: B008 - frozen value
        subnets: Sequence[ec2.ISubnet] | None = None,
        role: iam.IRole | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster)
        _refuse(who, name=name, shape=shape, capacity=capacity)
        refuse_unless_role(who, "role", role)
        _refuse_sizes(who, min_nodes, max_nodes)
        _refuse_block_sizes(who, capacity, min_nodes, max_nodes)
        chosen = ref.subnets(subnets, who=who, zone=capacity.availability_zone)
        refuse_unless_one_zone(who, shape, chosen)

        self.name = name
        self.shape = shape
        self.role = role if role is not None else shared_node_role(self, ref)
        template = ec2.CfnLaunchTemplate(
            self,
            "LaunchTemplate",
            launch_template_data=launch_template_data(
                name=f"{ref.name}-{name}", volumes=shape.volumes, user_data=user_data(shape)
            )
            | reserved_capacity(capacity, shape.names[0])
            | network(who, shape, ref.security_group_id if shape.efa else None),
        )
        # L1 on purpose: aws_eks_v2.Nodegroup (aws-cdk-lib 2.275) takes p5 and g6f for CPU types and cannot read
        # "p6-b200". No name: replacing a named group fails, because the old one still holds the name.
        self.resource = eks.CfnNodegroup(
            self,
            "Resource",
            cluster_name=ref.name_token,
            node_role=self.role,
            subnets=chosen,
            ami_type=nvidia_ami_type(shape.operating_system, shape.architecture),
            capacity_type=capacity.managed_capacity_type,
            instance_types=None if isinstance(capacity, CapacityBlock) else list(shape.names),
            launch_template={"id": template.ref, "version": template.attr_latest_version_number},
            labels=shape.node_labels(name),
            taints=[managed_taint(taint) for taint in shape.taints],
            tags=scale_from_zero_tags(shape),
            scaling_config={"minSize": min_nodes, "maxSize": max_nodes},
            # MINIMAL terminates before it launches: an update needs no spare GPU, which is what there never is.
            update_config={"maxUnavailable": 1, "updateStrategy": "MINIMAL"},
            node_repair_config={"enabled": True},
        )
        if isinstance(capacity, CapacityBlock):
            CapacityBlockSchedule(self, "Schedule", group=self.resource, cluster_name=ref.name_token, block=capacity)
        _warn(self, shape)


def managed_taint(taint: Taint) -> dict[str, str]:
    """Return a taint as the EKS API spells it."""
    return {"key": taint.key, "value": taint.value, "effect": _MANAGED_EFFECT[taint.effect]}


def scale_from_zero_tags(shape: NodeShape) -> dict[str, str]:
    """Return the group's own tags, which cluster autoscaler reads through DescribeNodegroup while it has no node.

    It takes labels and taints from the group itself, vCPU and memory from EC2. It cannot know the disk, EFA, huge
    pages, nor GPUs that EC2 counts as 0 (g6f, gr6f).
    Source: kubernetes/autoscaler cluster-autoscaler-1.36.1 cloudprovider/aws/aws_manager.go, aws_wrapper.go
    """
    return {f"{TEMPLATE_RESOURCE_TAG}{resource}": amount for resource, amount in shape.resources().items()}


def _refuse(who: object, *, name: object, shape: object, capacity: Capacity) -> None:
    refuse_unless_object_name(who, "name", name)
    if not isinstance(shape, NodeShape):
        raise TypeError(f"{who}: shape must be a NodeShape, got {shape!r}")
    refuse_unless_capacity(who, capacity)
    refuse_unless_sold(who, shape.types, capacity)
    if len(shape.types) > MAX_INSTANCE_TYPES:
        raise ValueError(f"{who}: shape must have at most {MAX_INSTANCE_TYPES} instance types, got {len(shape.types)}")
    counts = {each.name: each.gpus for each in shape.types}
    if len(set(counts.values())) > 1:
        raise ValueError(
            f"{who}: shape must have instance types with one number of GPUs, got {counts}; cluster autoscaler takes "
            "the first type for all of them, make one group per number"
        )


def _refuse_sizes(who: object, min_nodes: object, max_nodes: object) -> None:
    # A number known only at deployment is a float in Python.
    if not _is_token(min_nodes):
        refuse_unless_whole_number(who, "min_nodes", min_nodes, least=0)
    if not _is_token(max_nodes):
        refuse_unless_whole_number(who, "max_nodes", max_nodes, least=1, fix="delete the group to switch it off")
    if isinstance(min_nodes, int) and isinstance(max_nodes, int) and max_nodes < min_nodes:
        raise ValueError(f"{who}: max_nodes must be at least min_nodes, got {max_nodes} and {min_nodes}")


def _refuse_block_sizes(who: object, capacity: Capacity, min_nodes: object, max_nodes: object) -> None:
    if not isinstance(capacity, CapacityBlock):
        return
    if min_nodes != 0:
        raise ValueError(
            f"{who}: min_nodes must be 0 with a Capacity Block, got {min_nodes}; before it starts every launch fails"
        )
    if isinstance(max_nodes, int) and max_nodes != capacity.instances:
        raise ValueError(
            f"{who}: max_nodes must be the {capacity.instances} instances of the Capacity Block, got {max_nodes}"
        )


def _is_token(number: object) -> bool:
    return isinstance(number, float) and cdk.Token.is_unresolved(number)


def _warn(group: ManagedNodeGroup, shape: NodeShape) -> None:
    if shape.ageing:
        cdk.Annotations.of(group).add_warning_v2(
            "gpu-constructs:lastDriverBranch",
            f"{', '.join(shape.ageing)}: the NVIDIA driver branch of today's EKS images is the last one for this GPU",
        )
    sizes = {(each.vcpus, each.memory_mib) for each in shape.types}
    if len(sizes) > 1:
        cdk.Annotations.of(group).add_warning_v2(
            "gpu-constructs:mixedSizes",
            f"{', '.join(shape.names)} differ in vCPU or memory: cluster autoscaler takes {shape.names[0]} for all of "
            "them, and a pod that fits only that one can stay Pending on another",
        )
