"""The IAM roles of nodes: one for all managed groups of a cluster, and the same kind for others that launch nodes."""

from __future__ import annotations

from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.cluster_ref import AnyCluster, shared_scope

_ID = "NodeRole"
# Marks a cluster whose VPC CNI takes a role of its own.
CNI_ROLE_ID = "CniRole"
# Source: https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html
_POLICIES = ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly")
_CNI_POLICY = "AmazonEKS_CNI_Policy"


def shared_node_role(scope: Construct, cluster: AnyCluster) -> iam.Role:
    """Return the node role of a cluster, made once in each stack that adds node groups to it."""
    owner = shared_scope(cdk.Stack.of(scope), cluster)
    found = owner.node.try_find_child(_ID)
    return cast("iam.Role", found) if found is not None else make_node_role(owner, _ID, cluster)


def make_node_role(scope: Construct, id: str, cluster: AnyCluster) -> iam.Role:
    """Make a role that the nodes of a cluster take."""
    policies = _POLICIES if _cni_has_role(cluster) else (*_POLICIES, _CNI_POLICY)
    return iam.Role(
        scope,
        id,
        assumed_by=cast("iam.IPrincipal", iam.ServicePrincipal("ec2.amazonaws.com")),
        managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(policy) for policy in policies],
    )


def _cni_has_role(cluster: AnyCluster) -> bool:
    # The CNI of a cluster we did not make may take its permissions from the nodes.
    return shared_scope(cdk.Stack.of(cluster), cluster).node.try_find_child(CNI_ROLE_ID) is not None
