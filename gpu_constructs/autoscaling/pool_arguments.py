"""What every pool that becomes a NodePool asks of its arguments."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk

from gpu_constructs.cluster_ref import ClusterRef
from gpu_constructs.pools.capacity import Capacity, Reservation, refuse_unless_capacity, refuse_unless_sold
from gpu_constructs.pools.kubernetes_names import refuse_unless_object_name
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.refusals import refuse_unless_whole_number, words


def refuse_unless_launchable(who: object, *, name: object, shape: object, capacity: Capacity) -> None:
    """Refuse a pool that Karpenter, or the Karpenter inside Auto Mode, could never launch a node for.

    Raises:
        TypeError: ``shape`` or ``capacity`` is something else.
        ValueError: EC2 does not sell the nodes so, or Karpenter cannot count their GPUs.
    """
    refuse_unless_object_name(who, "name", name)
    if not isinstance(shape, NodeShape):
        raise TypeError(f"{who}: shape must be a NodeShape, got {shape!r}")
    refuse_unless_capacity(who, capacity)
    refuse_unless_sold(who, shape.types, capacity)
    if isinstance(capacity, Reservation) and capacity.id is None:
        raise ValueError(
            f"{who}: capacity must be a Reservation with id, got a resource group; Karpenter selects by id"
        )
    if any(each.ultraserver_only for each in shape.types):
        raise ValueError(
            f"{who}: shape must not be {shape.names[0]!r}; Karpenter knows no UltraServers, use a ManagedNodeGroup"
        )
    uncounted = [each.name for each in shape.types if each.ec2_gpus == 0]
    if uncounted:
        raise ValueError(
            f"{who}: shape must have instance types whose GPUs EC2 counts, got {', '.join(uncounted)}; Karpenter "
            "takes a fraction of a GPU for none and never launches it, use a ManagedNodeGroup"
        )


def refuse_unless_max_gpus(who: object, shape: NodeShape, max_gpus: object) -> None:
    """Refuse a limit below the smallest node.

    Raises:
        TypeError: ``max_gpus`` is no whole number.
        ValueError: No node fits under it.
    """
    if isinstance(max_gpus, float) and cdk.Token.is_unresolved(max_gpus):
        raise ValueError(f"{who}: max_gpus must be known at synth, got a token; a NodePool limit is part of a manifest")
    least = min(each.gpus for each in shape.types)
    refuse_unless_whole_number(
        who, "max_gpus", max_gpus, least=least, fix=f"the smallest of {', '.join(shape.names)} has {least}"
    )


def security_groups(who: object, cluster: ClusterRef, given: Sequence[str] | None) -> list[str]:
    """Return the ids of the nodes' security groups: as given, or the cluster's own.

    Raises:
        TypeError: ``given`` is no list of ids.
        ValueError: It is empty, or the cluster was imported without its group.
    """
    if given is not None:
        ids = words(who, "security_group_ids", given)
        if not ids:
            raise ValueError(f"{who}: security_group_ids must name at least one group, got none")
        return list(ids)
    if cluster.security_group_id is None:
        raise ValueError(
            f"{who}: security_group_ids must be given when the cluster was imported without "
            "cluster_security_group_id, got None"
        )
    return [cluster.security_group_id]
