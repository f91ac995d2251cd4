"""NodeClass and NodePool of EKS Auto Mode, whose schemas are its own or differ from Karpenter's."""

from __future__ import annotations

from typing import Any

from gpu_constructs.autoscaling.node_pool import Network, NodePool, node_taints
from gpu_constructs.nodes.host.surroundings import node_class_surroundings
from gpu_facts.labels import DEVICE_MANAGER, EKS_DOMAIN, KARPENTER_DOMAIN, POOL

# Auto Mode replaces every node after 21 days, whatever the pool asks for.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html
MAX_AGE_HOURS = 504


def node_class(*, pool: NodePool, role_name: str, network: Network) -> dict[str, Any]:
    """Return the NodeClass.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html
    """
    disk = pool.shape.disk
    storage: dict[str, Any] = {
        "size": f"{disk.size_gib}Gi",
        "iops": disk.iops,
        "throughput": disk.throughput_mib_s,
    }
    if disk.kms_key_arn is not None:
        storage["kmsKeyID"] = disk.kms_key_arn
    found: dict[str, Any] = {
        "role": role_name,
        "subnetSelectorTerms": [{"id": id} for id in network.subnet_ids],
        "securityGroupSelectorTerms": [{"id": id} for id in network.security_group_ids],
        "ephemeralStorage": storage,
        **node_class_surroundings(pool.shape.host),
    }
    if pool.reservations:
        found["capacityReservationSelectorTerms"] = pool.reservations
    return {"apiVersion": f"{EKS_DOMAIN}/v1", "kind": "NodeClass", "metadata": {"name": pool.name}, "spec": found}


def node_pool(pool: NodePool) -> dict[str, Any]:
    """Return the NodePool.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html
    """
    # Auto Mode's nodes advertise their GPUs themselves: no label that would call a device plugin.
    labels = {POOL: pool.name, DEVICE_MANAGER: "auto-mode"} | dict(pool.shape.labels)
    nodes = {
        "nodeClassRef": {"group": EKS_DOMAIN, "kind": "NodeClass", "name": pool.name},
        "requirements": pool.requirements(),
        **node_taints(pool.shape),
        **pool.disruption.node_lifetime(longest_hours=MAX_AGE_HOURS),
    }
    return {
        "apiVersion": f"{KARPENTER_DOMAIN}/v1",
        "kind": "NodePool",
        "metadata": {"name": pool.object_name},
        "spec": {
            "template": {"metadata": {"labels": labels}, "spec": nodes},
            **pool.to_size(),
            "disruption": pool.disruption.to_manifest(),
        },
    }
