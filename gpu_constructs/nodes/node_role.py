"""The IAM roles of nodes: one for all managed node groups of a cluster, and similar ones for others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.own_stack import owning_stack
from gpu_constructs.pools.host import Host
from gpu_constructs.pools.node_shape import NodeShape

# Source: https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html
_POLICIES = ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly")
_CNI_POLICY = "AmazonEKS_CNI_Policy"
_SESSION_MANAGER = "AmazonSSMManagedInstanceCore"
# Source: https://docs.aws.amazon.com/eks/latest/userguide/auto-create-node-role.html
_AUTO_MODE_POLICIES = ("AmazonEKSWorkerNodeMinimalPolicy", "AmazonEC2ContainerRegistryPullOnly")


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
