"""NodeClass and NodePool of EKS Auto Mode, whose schemas are its own or differ from Karpenter's."""

from __future__ import annotations

from typing import Any

from gpu_constructs.autoscaling.karpenter_manifests import ONLY_EMPTY_NODES, Network, node_requirements, node_taints
from gpu_constructs.pools import node_labels
from gpu_constructs.pools.capacity import Capacity, CapacityBlock, Reservation
from gpu_constructs.pools.node_shape import NodeShape

# Auto Mode replaces every node after 21 days, whatever the pool asks for.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html
MAX_AGE = "504h"


def node_class(*, name: str, shape: NodeShape, capacity: Capacity, role_name: str, network: Network) -> dict[str, Any]:
    """Return the NodeClass.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html
    """
    disk = shape.disk
    storage: dict[str, Any] = {
        "size": f"{disk.size_gib}Gi",
        "iops": disk.iops,
        "throughput": disk.throughput_mib_s,
    }
    if disk.kms_key_arn is not None:
        storage["kmsKeyID"] = disk.kms_key_arn
    spec: dict[str, Any] = {
        "role": role_name,
        "subnetSelectorTerms": [{"id": id} for id in network.subnet_ids],
        "securityGroupSelectorTerms": [{"id": id} for id in network.security_group_ids],
        "ephemeralStorage": storage,
    }
    if isinstance(capacity, (Reservation, CapacityBlock)):
        spec["capacityReservationSelectorTerms"] = [{"id": capacity.id}]
    return {"apiVersion": "eks.amazonaws.com/v1", "kind": "NodeClass", "metadata": {"name": name}, "spec": spec}


def node_pool(*, name: str, shape: NodeShape, capacity: Capacity, max_gpus: int) -> dict[str, Any]:
    """Return the NodePool.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html
    """
    # Auto Mode's nodes advertise their GPUs themselves: no label that would call a device plugin.
    labels = {node_labels.POOL: name, node_labels.DEVICE_MANAGER: "auto-mode"} | dict(shape.labels)
    nodes = {
        "nodeClassRef": {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": name},
        "requirements": node_requirements(shape, capacity),
        "taints": node_taints(shape),
        "expireAfter": MAX_AGE,
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"labels": labels}, "spec": nodes},
            "limits": {node_labels.GPU_RESOURCE: str(max_gpus)},
            "disruption": ONLY_EMPTY_NODES,
        },
    }
