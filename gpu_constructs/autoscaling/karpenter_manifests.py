"""NodePool and EC2NodeClass: what Karpenter may launch, and how it launches it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpu_constructs.nodes.launch_template import block_device
from gpu_constructs.pools.capacity import Capacity, CapacityBlock, Reservation
from gpu_constructs.pools.node_labels import GPU_RESOURCE
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.operating_system import Volume

KUBERNETES_ARCHITECTURE = {"x86_64": "amd64", "arm64": "arm64"}
# No running pod is ever moved. A new image reaches a node when it has become empty.
ONLY_EMPTY_NODES: dict[str, Any] = {
    "consolidationPolicy": "WhenEmpty",
    "consolidateAfter": "10m",
    "budgets": [
        {"nodes": "100%", "reasons": ["Empty"]},
        {"nodes": "0", "reasons": ["Drifted", "Underutilized"]},
    ],
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Network:
    """Where Karpenter starts nodes.

    Attributes:
        subnet_ids: Ids of the subnets.
        security_group_ids: Ids of the nodes' security groups.
    """

    subnet_ids: Sequence[str]
    security_group_ids: Sequence[str]


def ec2_node_class(
    *,
    name: str,
    shape: NodeShape,
    capacity: Capacity,
    ami_release: str,
    role_name: str,
    network: Network,
    cluster_name: str,
) -> dict[str, Any]:
    """Return the EC2NodeClass. Its alias makes Karpenter boot GPU types from the NVIDIA image.

    Source: https://karpenter.sh/docs/concepts/nodeclasses/
    """
    spec: dict[str, Any] = {
        "role": role_name,
        "amiSelectorTerms": [{"alias": f"{shape.operating_system}@{ami_release}"}],
        "subnetSelectorTerms": [{"id": id} for id in network.subnet_ids],
        "securityGroupSelectorTerms": [{"id": id} for id in network.security_group_ids],
        "blockDeviceMappings": [_block_device(volume) for volume in shape.volumes],
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpProtocolIPv6": "disabled",
            "httpPutResponseHopLimit": 1,
            "httpTokens": "required",
        },
        "tags": {"Name": f"{cluster_name}-{name}"},
    }
    if shape.uses_raid0:
        spec["instanceStorePolicy"] = "RAID0"
    if shape.efa:
        spec["networkInterfaces"] = [
            {"networkCardIndex": each.card, "deviceIndex": each.device, "interfaceType": each.kind}
            for each in shape.types[0].efa_interfaces
        ]
    if shape.placement_group is not None:
        spec["placementGroupSelector"] = {"name": shape.placement_group}
    if isinstance(capacity, (Reservation, CapacityBlock)):
        # Without it Karpenter takes no reservation, however the pool's capacity type reads.
        spec["capacityReservationSelectorTerms"] = [{"id": capacity.id}]
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name},
        "spec": spec,
    }


def node_pool(*, name: str, shape: NodeShape, capacity: Capacity, max_gpus: int) -> dict[str, Any]:
    """Return the NodePool. Only empty nodes are removed or replaced: no running pod is ever moved.

    Source: https://karpenter.sh/docs/concepts/nodepools/
    """
    nodes = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name},
        # All of them, because Karpenter has no defaults: it would launch an arm64 spot instance.
        "requirements": [
            *node_requirements(shape, capacity),
            _in("kubernetes.io/os", ("linux",)),
        ],
        "taints": node_taints(shape),
        # The default of 30 days ends a training run whatever its disruption budget says.
        "expireAfter": "Never",
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"labels": shape.node_labels(name)}, "spec": nodes},
            "limits": {GPU_RESOURCE: str(max_gpus)},
            "disruption": ONLY_EMPTY_NODES,
        },
    }


def node_requirements(shape: NodeShape, capacity: Capacity) -> list[dict[str, Any]]:
    """Return what an instance must be."""
    zone = capacity.availability_zone
    return [
        _in("node.kubernetes.io/instance-type", shape.names),
        _in("kubernetes.io/arch", (KUBERNETES_ARCHITECTURE[shape.architecture],)),
        _in("karpenter.sh/capacity-type", (capacity.karpenter_capacity_type,)),
        *([_in("topology.kubernetes.io/zone", (zone,))] if zone else []),
    ]


def node_taints(shape: NodeShape) -> list[dict[str, str]]:
    """Return the taints of a node as Kubernetes spells them."""
    return [{"key": each.key, "value": each.value, "effect": each.effect} for each in shape.taints]


def _in(key: str, values: Sequence[str]) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def _block_device(volume: Volume) -> dict[str, Any]:
    """Return a launch template's volume as Karpenter spells it."""
    mapping = block_device(volume)
    ebs = mapping["ebs"] | {"volumeSize": f"{volume.size_gib}Gi"}
    if "kmsKeyId" in ebs:
        ebs["kmsKeyID"] = ebs.pop("kmsKeyId")
    return mapping | {"ebs": ebs}
