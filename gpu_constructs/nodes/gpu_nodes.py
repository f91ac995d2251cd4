"""What every pool of GPU nodes has in common, whatever launches the nodes."""

from __future__ import annotations

from collections.abc import Sequence

import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.own_stack import keep_stack
from gpu_constructs.installing.registry import PathOf, pool_named
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.pool import Autoscaler, node_selector, tolerations
from gpu_constructs.storage.csi_drivers import bring_drivers
from gpu_facts.named_arguments import named_arguments


@jsii.implements(iam.IGrantable)
@named_arguments
class GpuNodes(Construct):
    """GPU nodes of a cluster.

    What is granted to them, the nodes may do: kubelet, and pods in the network of the node. Other pods cannot take the
    role, since the metadata service answers one hop far unless the shape's ``host`` says two; they get permissions by
    Pod Identity. Managed groups of a cluster and its system nodes share one role, unless a ``node_role`` of one's own
    is given.

    Attributes:
        name: Name of the pool, and value of its nodes' label ``gpu-constructs.io/pool``.
        shape: What every node looks like.
        max_nodes: Most nodes on which pods run at once, without spare ones; a token where only deployment tells.
        autoscaler: Who launches the nodes.
        expects_less_memory: Whether the autoscaler expects less memory of a node before launch than the node has.
        node_role: Role of the nodes.
        subnets: Where the nodes start.
    """

    name: str
    shape: NodeShape
    max_nodes: int
    autoscaler: Autoscaler
    expects_less_memory: bool = False
    node_role: iam.IRole
    subnets: Sequence[ec2.ISubnet]

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        keep_stack(self, scope)

    @property
    def grant_principal(self) -> iam.IPrincipal:
        """The role of the nodes, for every ``grant`` of the CDK."""
        return self.node_role.grant_principal

    @property
    def node_selector(self) -> dict[str, str]:
        """``nodeSelector`` of a pod that runs on these nodes."""
        return node_selector(self)

    @property
    def tolerations(self) -> list[dict[str, str]]:
        """``tolerations`` of a pod that runs on these nodes.

        EKS adds that of ``nvidia.com/gpu`` itself to pods that ask for it by that name, and none to DaemonSets.
        """
        return tolerations(self)

    def _bring_storage(self, cluster: ClusterRef) -> None:
        """Bring the drivers that take the startup taints of these nodes away.

        Raises:
            ValueError: A driver of the cluster is too old to.
        """
        bring_drivers(PathOf(self), cluster, self.shape.storage_drivers)

    def _take_name(self, cluster: ClusterRef) -> None:
        """Make this the only pool of its name in the cluster.

        Raises:
            ValueError: There is one.
        """
        why = "pods select their nodes by that name and would land on either"
        cluster.claim(PathOf(self), pool_named(self.name), why=why)
