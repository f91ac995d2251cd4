"""A managed node group of GPU nodes, right for every NVIDIA type EC2 sells."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.cluster_ref import AnyCluster, PathOf, cluster_ref, refuse_unless_role
from gpu_constructs.nodes.ami_type import nvidia_ami_type
from gpu_constructs.nodes.capacity_block_schedule import CapacityBlockSchedule
from gpu_constructs.nodes.group_arguments import (
    refuse_unless_block_sizes,
    refuse_unless_group,
    refuse_unless_sizes,
    warn_of_types,
)
from gpu_constructs.nodes.launch_template import launch_template_data, network, reserved_capacity
from gpu_constructs.nodes.node_role import shared_node_role
from gpu_constructs.nodes.user_data import user_data
from gpu_constructs.nodes.zones import refuse_unless_one_zone
from gpu_constructs.pools.capacity import Capacity, CapacityBlock, OnDemand
from gpu_constructs.pools.node_labels import TEMPLATE_RESOURCE_TAG
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.taint import Taint

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
        refuse_unless_group(who, name=name, shape=shape, capacity=capacity)
        refuse_unless_role(who, "role", role)
        refuse_unless_sizes(who, min_nodes, max_nodes)
        refuse_unless_block_sizes(who, capacity, min_nodes, max_nodes)
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
        warn_of_types(self, shape)


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
