"""The common part of all pools of GPU nodes, for any autoscaler, and the roles of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.context import keep_stack, owning_stack
from gpu_constructs.installing.registry import PathOf, pool_named
from gpu_constructs.pools.host import Host
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.pool import Autoscaler, node_selector, tolerations
from gpu_constructs.storage.csi_drivers import install_drivers
from gpu_facts.named_arguments import named_arguments

# Source: https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html
_POLICIES = ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly")
_CNI_POLICY = "AmazonEKS_CNI_Policy"
_SESSION_MANAGER = "AmazonSSMManagedInstanceCore"
# Source: https://docs.aws.amazon.com/eks/latest/userguide/auto-create-node-role.html
_AUTO_MODE_POLICIES = ("AmazonEKSWorkerNodeMinimalPolicy", "AmazonEC2ContainerRegistryPullOnly")


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

    def _register(
        self, cluster: ClusterRef, *, name: str, shape: NodeShape, max_nodes: int, subnets: Sequence[ec2.ISubnet]
    ) -> None:
        """Set the attributes, take the name, and install the drivers that remove the startup taints of these nodes.

        Raises:
            ValueError: The cluster has a pool of this name, or a driver that is too old to remove its taint.
        """
        self.name, self.shape, self.max_nodes, self.subnets = name, shape, max_nodes, subnets
        self._take_name(cluster)
        install_drivers(PathOf(self), cluster, shape.storage_drivers)

    def _take_name(self, cluster: ClusterRef) -> None:
        """Register this pool as the only one with its name in the cluster.

        Raises:
            ValueError: The cluster already has a pool of this name.
        """
        why = "pods select their nodes by that name and would run on either"
        cluster.claim(PathOf(self), pool_named(self.name), why=why)


def shared_node_role(scope: Construct, cluster: ClusterRef) -> iam.Role:
    """Return the node role of a cluster. It is created once in each stack that adds node groups to the cluster."""
    shared = cluster.shared(owning_stack(scope))
    return shared.node_role.get_or_make(lambda: make_node_role(shared, "NodeRole", cluster))


def make_node_role(scope: Construct, id: str, cluster: ClusterRef) -> iam.Role:
    """Create a role for the nodes of a cluster."""
    vpc_cni = cluster.shared(cluster.stack).vpc_cni.instance
    # The CNI of an imported cluster may use the permissions of the nodes.
    policies = _POLICIES if vpc_cni is not None else (*_POLICIES, _CNI_POLICY)
    role = _role(scope, id, policies)
    if vpc_cni is not None:
        # Nodes wait for their role, and the role for the network plugin. Without the plugin a new node stays NotReady.
        role.node.add_dependency(vpc_cni)
    return role


def make_auto_mode_role(scope: Construct, id: str) -> iam.Role:
    """Create a role for nodes of EKS Auto Mode. EKS grants access by default only to the cluster's own role."""
    return _role(scope, id, _AUTO_MODE_POLICIES)


def refuse_session_manager(who: object, shape: NodeShape, given: iam.IRole | None) -> None:
    """Reject Session Manager for a role that the user passed.

    Raises:
        ValueError: The role isn't created by this library.
    """
    if shape.host.session_manager and given is not None:
        raise ValueError(
            f"{who}: shape must be without host.session_manager if you pass the role of the nodes, got True; attach "
            f"{_SESSION_MANAGER} to that role"
        )


def open_to_session_manager(host: Host, role: iam.IRole) -> None:
    """Allow Session Manager to connect to the nodes of a role, if their host enables it.

    Source: https://docs.aws.amazon.com/systems-manager/latest/userguide/setup-instance-permissions.html (2026-11)
    """
    if host.session_manager:
        policy = iam.ManagedPolicy.from_aws_managed_policy_name(_SESSION_MANAGER)
        role.add_managed_policy(policy)


def _role(scope: Construct, id: str, policies: Sequence[str]) -> iam.Role:
    return iam.Role(
        scope,
        id,
        assumed_by=cast("iam.IPrincipal", iam.ServicePrincipal("ec2.amazonaws.com")),
        managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(policy) for policy in policies],
    )
