"""Checks of arguments that every kind of node group has, and the update settings of a group."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.nodes.bootstrap import Bootstrap
from gpu_constructs.nodes.launch_template import check_subnets
from gpu_constructs.pools.capacity import (
    Capacity,
    CapacityBlock,
    refuse_spot_for_training,
    refuse_unless_capacity,
    refuse_unless_sold,
)
from gpu_constructs.pools.disruption import NodeRepair
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.size import ScalingOptions
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_choice, refuse_unless_whole_number

UpdateStrategy = Literal["MINIMAL", "DEFAULT"]
_SHARE = re.compile(r"([1-9]\d?|100)%", re.ASCII)
_MOST_NODES = 100
# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html (instanceTypes)
MAX_INSTANCE_TYPES = 20
# Max nodes of a managed node group before its Capacity Block starts and after it is drained. EKS rejects 0.
CLOSED_MAX = 1


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class NodeUpdate:
    """Number of nodes of a managed node group that EKS replaces at once, and the order of termination and launch.

    ``MINIMAL`` terminates a node before it launches the next one, so an update needs no spare GPU. A reservation or a
    Capacity Block has no spare instance, and a sold-out type isn't available. During the update the group has fewer
    nodes, by the number of unavailable ones. ``DEFAULT`` launches the new nodes first.

    Sources: https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupUpdateConfig.html,
    https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html (2026-11)

    Attributes:
        max_unavailable: Nodes replaced at once: a number, at most 100, or a percentage of the group such as ``"33%"``.
        strategy: ``MINIMAL`` or ``DEFAULT``.

    Raises:
        TypeError: ``max_unavailable`` is neither a number nor a percentage.
        ValueError: EKS would reject it.
    """

    max_unavailable: int | str = 1
    strategy: UpdateStrategy = "MINIMAL"

    def __post_init__(self) -> None:
        who = "node update"
        refuse_unless_choice(who, "strategy", self.strategy, get_args(UpdateStrategy))
        if not isinstance(self.max_unavailable, str):
            refuse_unless_whole_number(who, "max_unavailable", self.max_unavailable, least=1, most=_MOST_NODES)
        elif not _SHARE.fullmatch(self.max_unavailable):
            raise ValueError(
                f"{who}: max_unavailable must be a number or a percentage from '1%' to '100%', got "
                f"{self.max_unavailable!r}; write 1"
            )

    def refuse_beside(self, who: object, capacity: Capacity) -> None:
        """Reject an update that launches new nodes first if all available instances already run.

        Raises:
            ValueError: The nodes are in a Capacity Block.
        """
        if isinstance(capacity, CapacityBlock) and self.strategy == "DEFAULT":
            raise ValueError(
                f"{who}: update must have strategy 'MINIMAL' with a Capacity Block, got 'DEFAULT'; change it, because "
                "the group uses all instances of the block and can't launch new nodes first [GPU029]"
            )

    def to_properties(self) -> dict[str, Any]:
        """Return ``UpdateConfig`` of a managed group."""
        if isinstance(self.max_unavailable, str):
            return {"maxUnavailablePercentage": int(self.max_unavailable[:-1]), "updateStrategy": self.strategy}
        return {"maxUnavailable": self.max_unavailable, "updateStrategy": self.strategy}


def check_group(
    group: Construct,
    *,
    who: object,
    cluster: ClusterRef,
    name: str,
    shape: NodeShape,
    capacity: Capacity,
    min_nodes: int,
    max_nodes: int,
    subnets: Sequence[ec2.ISubnet] | None,
) -> list[ec2.ISubnet]:
    """Reject an impossible group, warn about one with known drawbacks, and return the subnets of its nodes.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: EC2 or EKS would reject the group, or cluster autoscaler would make wrong assumptions about its
            nodes.
    """
    _refuse_unless_group(who, name=name, shape=shape, capacity=capacity)
    _refuse_unless_sizes(who, min_nodes, max_nodes)
    _refuse_empty_with_claims(who, shape, min_nodes)
    _refuse_unless_block_sizes(who, capacity, min_nodes, max_nodes)
    chosen = cluster.subnets(subnets, who=who, zone=capacity.availability_zone)
    check_subnets(group, who=who, cluster=cluster, shape=shape, subnets=chosen, max_nodes=max_nodes)
    _warn_of_types(group, shape)
    return chosen


def _refuse_unless_group(who: object, *, name: object, shape: object, capacity: Capacity) -> None:
    """Reject a group that EC2 doesn't sell, or whose nodes differ in a way that cluster autoscaler doesn't support.

    Raises:
        TypeError: ``name``, ``shape`` or ``capacity`` has the wrong type.
        ValueError: The group is impossible.
    """
    refuse_unless_object_name(who, "name", name)
    if not isinstance(shape, NodeShape):
        raise TypeError(f"{who}: shape must be a NodeShape, got {shape!r}; write NodeShape(instance_types=(...,))")
    refuse_unless_capacity(who, capacity)
    refuse_unless_sold(who, shape.rows, (capacity,))
    refuse_spot_for_training(who, shape.purpose, capacity)
    if len(shape.rows) > MAX_INSTANCE_TYPES:
        raise ValueError(
            f"{who}: shape must have at most {MAX_INSTANCE_TYPES} instance types, got {len(shape.rows)}; remove some"
        )
    counts = {each.name: each.gpus for each in shape.rows}
    if len(set(counts.values())) > 1:
        raise ValueError(
            f"{who}: shape must have instance types with one number of GPUs, got {counts}; make one group per number, "
            "because cluster autoscaler uses the first type for all of them"
        )


def _refuse_unless_sizes(who: object, min_nodes: object, max_nodes: object) -> None:
    """Reject invalid sizes of a group.

    Raises:
        TypeError: A size isn't an integer.
        ValueError: The sizes contradict each other, or the group could never have a node.
    """
    # A number that is known only at deployment is a float in Python.
    if not _is_token(min_nodes):
        refuse_unless_whole_number(who, "min_nodes", min_nodes, least=0)
    if not _is_token(max_nodes):
        refuse_unless_whole_number(who, "max_nodes", max_nodes, least=1, fix="delete the group to switch it off")
    if isinstance(min_nodes, int) and isinstance(max_nodes, int) and max_nodes < min_nodes:
        raise ValueError(
            f"{who}: max_nodes must be at least min_nodes, got {max_nodes} and {min_nodes}; raise max_nodes"
        )


def _refuse_empty_with_claims(who: object, shape: NodeShape, min_nodes: object) -> None:
    """Reject a group that may be empty while pods claim its GPUs.

    Source: kubernetes/autoscaler cluster-autoscaler-1.36.1 cloudprovider/aws has no template with ResourceSlices

    Raises:
        ValueError: ``min_nodes`` is 0.
    """
    if shape.managed_by.by_claim and min_nodes == 0:
        raise ValueError(
            f"{who}: min_nodes must be at least 1 with device_manager='dra', got 0; raise it, because cluster "
            "autoscaler reads the devices of existing nodes only, and so never launches the first node"
        )


def _refuse_unless_block_sizes(who: object, capacity: Capacity, min_nodes: object, max_nodes: object) -> None:
    """Reject sizes that differ from the Capacity Block of the group.

    Raises:
        ValueError: They differ.
    """
    if not isinstance(capacity, CapacityBlock):
        return
    if min_nodes != 0:
        raise ValueError(
            f"{who}: min_nodes must be 0 with a Capacity Block, got {min_nodes}; remove it, because every launch fails "
            "before the block starts"
        )
    if isinstance(max_nodes, int) and max_nodes != capacity.instances:
        raise ValueError(
            f"{who}: max_nodes must be the {capacity.instances} instances of the Capacity Block, got {max_nodes}; "
            "change one"
        )


def refuse_unless_values(
    who: object,
    *,
    bootstrap: object,
    update: object = NodeUpdate(),
    node_repair: object = NodeRepair(),
    scaling_options: object = None,
) -> None:
    """Reject values of the wrong type for arguments of a group.

    Raises:
        TypeError: A value has the wrong type.
    """
    for argument, value, expected, optional in (
        ("bootstrap", bootstrap, Bootstrap, False),
        ("update", update, NodeUpdate, False),
        ("node_repair", node_repair, NodeRepair, False),
        ("scaling_options", scaling_options, ScalingOptions, True),
    ):
        if not isinstance(value, expected) and not (optional and value is None):
            raise TypeError(
                f"{who}: {argument} must be a {expected.__name__}, got {value!r}; write {expected.__name__}(...)"
            )


def _is_token(number: object) -> bool:
    # For NaN, the call would end the jsii process.
    return isinstance(number, float) and math.isfinite(number) and cdk.Token.is_unresolved(number)


def _warn_of_types(group: Construct, shape: NodeShape) -> None:
    """Warn about types that the next image may drop, and about sizes that cluster autoscaler treats as equal."""
    if shape.ageing:
        cdk.Annotations.of(group).add_warning_v2(
            "gpu-constructs:lastDriverBranch",
            f"{', '.join(shape.ageing)}: the NVIDIA driver branch of the current EKS images is the last one for this "
            "GPU",
        )
    sizes = {(each.vcpus, each.memory_mib) for each in shape.rows}
    if len(sizes) > 1:
        cdk.Annotations.of(group).add_warning_v2(
            "gpu-constructs:mixedSizes",
            f"{', '.join(shape.names)} differ in vCPU or memory: cluster autoscaler assumes {shape.names[0]} for all "
            "of them, and a pod that fits only that one can stay Pending on another",
        )
