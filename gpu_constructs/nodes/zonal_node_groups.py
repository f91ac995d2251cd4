"""One managed node group in each zone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, PathOf, cluster_ref
from gpu_constructs.installing.subnets import zone_of
from gpu_constructs.named_arguments import named_arguments
from gpu_constructs.nodes.gpu_nodes import GpuNodes
from gpu_constructs.nodes.managed_node_group import ManagedNodeGroup
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.pool import Autoscaler


@named_arguments
class ZonalNodeGroups(GpuNodes):
    """The same managed node group once in every zone, under one pool name.

    Of a group that spans zones cluster autoscaler sees the first zone only: a pod that is bound to another one, by its
    volume or a spread constraint, stays Pending. And Auto Scaling ends running nodes to balance the zones of one group.

    Args:
        cluster: Cluster the nodes join; created here or imported.
        name: Value of the nodes' label ``gpu-constructs.io/pool``, the same in each zone.
        shape: What every node looks like.
        max_nodes_per_zone: Most nodes in each zone.
        min_nodes_per_zone: Nodes that always run in each zone.
        subnets: One subnet a zone. Default: the private subnets of the cluster's VPC.
        more: Further arguments of `ManagedNodeGroup`, the same in each zone.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Two subnets lie in one zone, or EKS would refuse a group.

    Attributes:
        groups: The groups, in the order of the subnets.
    """

    autoscaler: Autoscaler = "cluster-autoscaler"

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        name: str,
        shape: NodeShape,
        max_nodes_per_zone: int,
        min_nodes_per_zone: int = 0,
        subnets: Sequence[ec2.ISubnet] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster)
        chosen = ref.subnets(subnets, who=who)
        zones = [zone_of(subnet) or f"Zone{number}" for number, subnet in enumerate(chosen, start=1)]
        if len(set(zones)) < len(zones):
            raise ValueError(f"{who}: subnets must lie in different zones, got {', '.join(zones)}; pass one of each")
        self.name = name
        self.shape = shape
        self.max_nodes = max_nodes_per_zone * len(chosen)
        self._take_name(ref)
        self.groups = [
            ManagedNodeGroup(
                self,
                zone,
                cluster=cluster,
                name=name,
                shape=shape,
                min_nodes=min_nodes_per_zone,
                max_nodes=max_nodes_per_zone,
                subnets=[subnet],
                **more,
            )
            for zone, subnet in zip(zones, chosen, strict=True)
        ]
        self.node_role = self.groups[0].node_role

    @property
    def auto_scaling_group_pattern(self) -> str:
        """Regular expression of the names of the groups' Auto Scaling groups."""
        return "|".join(each.auto_scaling_group_pattern for each in self.groups)
