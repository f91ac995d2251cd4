"""The common part of all pools of GPU nodes, independent of the component that launches the nodes."""

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

    Grants apply to the role of the nodes, so to the kubelet and pods in the node's network. Other pods can't assume the
    role, because the metadata service allows one hop unless you set two in the shape's ``host``. They get permissions
    through Pod Identity. All managed node groups of a cluster and its system nodes share one role, unless you pass your
    own ``node_role``.

    Attributes:
        name: Name of the pool, and value of its nodes' label ``gpu-constructs.io/pool``.
        shape: Hardware and software of its nodes.
        max_nodes: Max nodes on which pods run at once, without spare ones. A token if it is known only at deployment.
        autoscaler: Component that launches the nodes.
        expects_less_memory: Whether the autoscaler expects less memory of a node before launch than the node has.
        node_role: Role of the nodes.
        subnets: Subnets of the nodes.
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
        """The role of the nodes, for every ``grant`` method of the CDK."""
        return self.node_role.grant_principal

    @property
    def node_selector(self) -> dict[str, str]:
        """``nodeSelector`` of a pod that runs on these nodes."""
        return node_selector(self)

    @property
    def tolerations(self) -> list[dict[str, str]]:
        """``tolerations`` of a pod that runs on these nodes.

        EKS adds the toleration of ``nvidia.com/gpu`` to pods that request this resource, except to pods of DaemonSets.
        """
        return tolerations(self)

    def _bring_storage(self, cluster: ClusterRef) -> None:
        """Install the drivers that remove the startup taints of these nodes.

        Raises:
            ValueError: A driver of the cluster is too old for that.
        """
        bring_drivers(PathOf(self), cluster, self.shape.storage_drivers)

    def _take_name(self, cluster: ClusterRef) -> None:
        """Register this pool as the only one with its name in the cluster.

        Raises:
            ValueError: The cluster already has a pool of this name.
        """
        why = "pods select their nodes by that name and would run on either"
        cluster.claim(PathOf(self), pool_named(self.name), why=why)
