"""Arguments that every kind of node group checks, and how a group updates its nodes."""

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
from gpu_constructs.nodes.suitable_subnets import check_subnets
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
# Most nodes of a managed group before its Capacity Block starts and after it is drained; EKS takes no 0.
CLOSED_MAX = 1


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class NodeUpdate:
    """How many nodes of a managed group EKS replaces at once, and whether the new ones come first.

    ``MINIMAL`` ends a node before it launches the next one: an update needs no spare GPU, of which a reservation or a
    Capacity Block has none, and what is sold out gives none either. While it lasts there are as many nodes less as are
    unavailable. ``DEFAULT`` launches the new ones first.

    Sources: https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupUpdateConfig.html,
    https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html (2026-11)

    Attributes:
        max_unavailable: Nodes replaced at once: a number, at most 100, or a share of the group such as ``"33%"``.
        strategy: ``MINIMAL`` or ``DEFAULT``.

    Raises:
        TypeError: ``max_unavailable`` is neither number nor share.
        ValueError: EKS would refuse it.
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
                f"{who}: max_unavailable must be a number or a share from '1%' to '100%', got {self.max_unavailable!r}"
            )

    def refuse_beside(self, who: object, capacity: Capacity) -> None:
        """Refuse to launch new nodes first where every instance that there is runs already.

        Raises:
            ValueError: The nodes are those of a Capacity Block.
        """
        if isinstance(capacity, CapacityBlock) and self.strategy == "DEFAULT":
            raise ValueError(
                f"{who}: update must have strategy 'MINIMAL' with a Capacity Block, got 'DEFAULT'; the group is as "
                "large as the block, so that nothing is left to launch the new nodes on [GPU029]"
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
    """Refuse a group that cannot exist, warn of one that would disappoint, and return where its nodes may start.

    Raises:
        TypeError: An argument is something else.
        ValueError: EC2 or EKS would refuse the group, or cluster autoscaler would misjudge its nodes.
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
    """Refuse a group that EC2 does not sell, or whose nodes cluster autoscaler would misjudge.

    Raises:
        TypeError: ``name``, ``shape`` or ``capacity`` is something else.
        ValueError: No such group can exist.
    """
    refuse_unless_object_name(who, "name", name)
    if not isinstance(shape, NodeShape):
        raise TypeError(f"{who}: shape must be a NodeShape, got {shape!r}")
    refuse_unless_capacity(who, capacity)
    refuse_unless_sold(who, shape.rows, (capacity,))
    refuse_spot_for_training(who, shape.purpose, capacity)
    if len(shape.rows) > MAX_INSTANCE_TYPES:
        raise ValueError(f"{who}: shape must have at most {MAX_INSTANCE_TYPES} instance types, got {len(shape.rows)}")
    counts = {each.name: each.gpus for each in shape.rows}
    if len(set(counts.values())) > 1:
        raise ValueError(
            f"{who}: shape must have instance types with one number of GPUs, got {counts}; cluster autoscaler takes "
            "the first type for all of them, make one group per number"
        )


def _refuse_unless_sizes(who: object, min_nodes: object, max_nodes: object) -> None:
    """Refuse sizes no group can have.

    Raises:
        TypeError: One is no whole number.
        ValueError: They contradict each other, or the group could never have a node.
    """
    # A number known only at deployment is a float in Python.
    if not _is_token(min_nodes):
        refuse_unless_whole_number(who, "min_nodes", min_nodes, least=0)
    if not _is_token(max_nodes):
        refuse_unless_whole_number(who, "max_nodes", max_nodes, least=1, fix="delete the group to switch it off")
    if isinstance(min_nodes, int) and isinstance(max_nodes, int) and max_nodes < min_nodes:
        raise ValueError(f"{who}: max_nodes must be at least min_nodes, got {max_nodes} and {min_nodes}")


def _refuse_empty_with_claims(who: object, shape: NodeShape, min_nodes: object) -> None:
    """Refuse a group that may be empty while pods claim its GPUs.

    Source: kubernetes/autoscaler cluster-autoscaler-1.36.1 cloudprovider/aws has no template with ResourceSlices

    Raises:
        ValueError: It may have no node.
    """
    if shape.managed_by.by_claim and min_nodes == 0:
        raise ValueError(
            f"{who}: min_nodes must be at least 1 with device_manager='dra', got 0; cluster autoscaler knows the "
            "devices of a node it can look at only, and never launches the first"
        )


def _refuse_unless_block_sizes(who: object, capacity: Capacity, min_nodes: object, max_nodes: object) -> None:
    """Refuse other sizes than those of the Capacity Block that the group spends.

    Raises:
        ValueError: They differ.
    """
    if not isinstance(capacity, CapacityBlock):
        return
    if min_nodes != 0:
        raise ValueError(
            f"{who}: min_nodes must be 0 with a Capacity Block, got {min_nodes}; before it starts every launch fails"
        )
    if isinstance(max_nodes, int) and max_nodes != capacity.instances:
        raise ValueError(
            f"{who}: max_nodes must be the {capacity.instances} instances of the Capacity Block, got {max_nodes}"
        )


def refuse_unless_values(
    who: object,
    *,
    bootstrap: object,
    update: object = NodeUpdate(),
    node_repair: object = NodeRepair(),
    scaling_options: object = None,
) -> None:
    """Refuse what is not the value that an argument of a group takes.

    Raises:
        TypeError: One is something else.
    """
    for argument, value, expected, optional in (
        ("bootstrap", bootstrap, Bootstrap, False),
        ("update", update, NodeUpdate, False),
        ("node_repair", node_repair, NodeRepair, False),
        ("scaling_options", scaling_options, ScalingOptions, True),
    ):
        if not isinstance(value, expected) and not (optional and value is None):
            raise TypeError(f"{who}: {argument} must be a {expected.__name__}, got {value!r}")


def _is_token(number: object) -> bool:
    # What is no number at all would end the process behind the CDK.
    return isinstance(number, float) and math.isfinite(number) and cdk.Token.is_unresolved(number)


def _warn_of_types(group: Construct, shape: NodeShape) -> None:
    """Warn of types that tomorrow's image may drop, and of sizes that cluster autoscaler takes for one."""
    if shape.ageing:
        cdk.Annotations.of(group).add_warning_v2(
            "gpu-constructs:lastDriverBranch",
            f"{', '.join(shape.ageing)}: the NVIDIA driver branch of today's EKS images is the last one for this GPU",
        )
    sizes = {(each.vcpus, each.memory_mib) for each in shape.rows}
    if len(sizes) > 1:
        cdk.Annotations.of(group).add_warning_v2(
            "gpu-constructs:mixedSizes",
            f"{', '.join(shape.names)} differ in vCPU or memory: cluster autoscaler takes {shape.names[0]} for all of "
            "them, and a pod that fits only that one can stay Pending on another",
        )
