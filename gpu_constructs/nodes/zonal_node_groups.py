"""One managed node group in each zone."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.installing.subnets import subnet_zone
from gpu_constructs.nodes.bootstrap import Bootstrap
from gpu_constructs.nodes.gpu_nodes import GpuNodes
from gpu_constructs.nodes.group_arguments import NodeUpdate
from gpu_constructs.nodes.managed_node_group import ManagedNodeGroup
from gpu_constructs.pools.capacity import Capacity, OnDemand
from gpu_constructs.pools.disruption import NodeRepair
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.pool import Autoscaler
from gpu_constructs.pools.size import ScalingOptions
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import is_number_token, refuse_unless_whole_number


@named_arguments
class ZonalNodeGroups(GpuNodes):
    """The same managed node group once in every zone, with one pool name.

    If a group spans several zones, cluster autoscaler considers only the first zone. A pod that is bound to another
    zone by its volume or a spread constraint stays Pending. In addition, Auto Scaling terminates running nodes to
    balance the zones of one group.

    Args:
        cluster: Cluster that the nodes join, created here or imported.
        name: Value of the nodes' label ``gpu-constructs.io/pool``, the same in each zone.
        shape: Hardware and software of the nodes.
        max_nodes_per_zone: Max number of nodes in each zone.
        min_nodes_per_zone: Number of nodes that always run in each zone.
        subnets: One subnet for each zone. Default: the private subnets of the cluster's VPC.
        capacity: As for a `ManagedNodeGroup`. This and the following arguments apply to each group.
        node_role: As for a `ManagedNodeGroup`.
        ami_release: As for a `ManagedNodeGroup`.
        bootstrap: As for a `ManagedNodeGroup`.
        node_repair: As for a `ManagedNodeGroup`.
        update: As for a `ManagedNodeGroup`, in each zone.
        force_update: As for a `ManagedNodeGroup`.
        scaling_options: As for a `ManagedNodeGroup`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Two subnets are in one zone, or EKS would reject a group.

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
        capacity: Capacity = OnDemand(),  # noqa: B008 - frozen value
        node_role: iam.IRole | None = None,
        ami_release: str | None = None,
        bootstrap: Bootstrap = Bootstrap(),  # noqa: B008 - frozen value
        node_repair: NodeRepair = NodeRepair(),  # noqa: B008 - frozen value
        update: NodeUpdate = NodeUpdate(),  # noqa: B008 - frozen value
        force_update: bool = False,
        scaling_options: ScalingOptions | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster)
        chosen = ref.subnets(subnets, who=who)
        zones = [subnet_zone(subnet) or f"Zone{number}" for number, subnet in enumerate(chosen, start=1)]
        if len(set(zones)) < len(zones):
            raise ValueError(f"{who}: subnets must be in different zones, got {', '.join(zones)}; pass one of each")
        self.name = name
        self.shape = shape
        _refuse_unless_number(who, "max_nodes_per_zone", max_nodes_per_zone, least=1)
        _refuse_unless_number(who, "min_nodes_per_zone", min_nodes_per_zone, least=0)
        # The max can't be multiplied if it is known only at deployment.
        several = 1 if is_number_token(max_nodes_per_zone) else len(chosen)
        self.max_nodes = max_nodes_per_zone * several
        self.subnets = chosen
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
                capacity=capacity,
                node_role=node_role,
                ami_release=ami_release,
                bootstrap=bootstrap,
                node_repair=node_repair,
                update=update,
                force_update=force_update,
                scaling_options=scaling_options,
            )
            for zone, subnet in zip(zones, chosen, strict=True)
        ]
        self.node_role = self.groups[0].node_role

    @property
    def auto_scaling_group_pattern(self) -> str:
        """Regular expression of the names of the groups' Auto Scaling groups."""
        return "|".join(each.auto_scaling_group_pattern for each in self.groups)


def _refuse_unless_number(who: object, argument: str, number: object, *, least: int) -> None:
    if not is_number_token(number):
        refuse_unless_whole_number(who, argument, number, least=least)
