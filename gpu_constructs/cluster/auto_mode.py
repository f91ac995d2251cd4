"""The built-in components of EKS Auto Mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.installing import registry
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.delivery import apply_manifests
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.nodes.gpu_nodes import make_auto_mode_role
from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_choice, words

# Source: https://docs.aws.amazon.com/eks/latest/userguide/set-builtin-node-pools.html
BuiltInPool = Literal["system", "general-purpose"]
_POOLS: tuple[BuiltInPool, ...] = ("system", "general-purpose")


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class AutoMode:
    """EKS Auto Mode: AWS operates nodes, network, disks, load balancers, DNS and Karpenter of the cluster.

    Use an `AutoModeNodePool` for GPU nodes, because the built-in pools have none.

    Attributes:
        node_pools: Built-in pools that run the cluster's own software: ``system`` and ``general-purpose``.

    Raises:
        TypeError: ``node_pools`` isn't a list of names.
        ValueError: Auto Mode has no such pool.
    """

    node_pools: Sequence[BuiltInPool] = _POOLS

    def __post_init__(self) -> None:
        object.__setattr__(self, "node_pools", words("auto mode", "node_pools", self.node_pools))
        for pool in self.node_pools:
            refuse_unless_choice("auto mode", "node_pools", pool, _POOLS)


def compute(scope: Construct, auto_mode: AutoMode | None) -> dict[str, Any]:
    """Return the properties of a cluster's control plane that select the operator of its nodes."""
    if auto_mode is None:
        return {"default_capacity_type": eks.DefaultCapacityType.NODEGROUP, "default_capacity": 0}
    # Without a built-in pool EKS rejects a role.
    role = make_auto_mode_role(scope, "AutoModeRole") if auto_mode.node_pools else None
    return {
        "default_capacity_type": eks.DefaultCapacityType.AUTOMODE,
        "compute": eks.ComputeConfig(
            node_pools=list(auto_mode.node_pools), node_role=cast("iam.IRole", role) if role else None
        ),
    }


def enforce_network_policies(scope: Construct, cluster: ClusterRef) -> None:
    """Enable network policies in Auto Mode.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/auto-net-pol.html (2026-11)
    """
    cluster.claim(PathOf(scope), registry.NETWORK_POLICIES, why="both would filter traffic of the same pods")
    switch = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "amazon-vpc-cni", "namespace": KUBE_SYSTEM},
        "data": {"enable-network-policy-controller": "true"},
    }
    apply_manifests(scope, "NetworkPolicies", cluster=cluster, manifests=[switch])
