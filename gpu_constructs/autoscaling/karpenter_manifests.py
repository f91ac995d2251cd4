"""NodePool, EC2NodeClass and NodeOverlay: what Karpenter may launch, how, and what it cannot know by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_constructs.autoscaling.node_pool import Network, NodePool, is_in, node_taints
from gpu_constructs.nodes.launch_template import block_device
from gpu_constructs.nodes.user_data import node_class_user_data
from gpu_constructs.pools.disk import Volume
from gpu_constructs.pools.node_shape import NodeShape
from gpu_facts.labels import INSTANCE_TYPE, KARPENTER_AWS_DOMAIN, KARPENTER_DOMAIN, NODE_POOL, OS
from gpu_facts.resources import GPU

_AMI_FAMILY = {"al2023": "AL2023", "bottlerocket": "Bottlerocket"}


def ec2_node_class(
    *, pool: NodePool, ami_release: str, runs_as: Mapping[str, str], network: Network, tags: Any
) -> dict[str, Any]:
    """Return the EC2NodeClass. Its alias makes Karpenter boot GPU types from the NVIDIA image.

    Args:
        pool: The pool.
        ami_release: Release of the image.
        runs_as: ``role`` or ``instanceProfile`` of the nodes.
        network: Where they start.
        tags: Tags of what Karpenter launches, or what tells them when the template is written.

    Source: https://karpenter.sh/docs/concepts/nodeclasses/
    """
    shape = pool.shape
    found: dict[str, Any] = {
        **runs_as,
        **_image(shape, ami_release),
        "subnetSelectorTerms": [{"id": id} for id in network.subnet_ids],
        "securityGroupSelectorTerms": [{"id": id} for id in network.security_group_ids],
        "blockDeviceMappings": [_block_device(volume) for volume in shape.volumes],
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpProtocolIPv6": "disabled",
            "httpPutResponseHopLimit": shape.host.metadata_hop_limit,
            "httpTokens": "required",
        },
        "tags": tags,
    }
    if shape.uses_raid0:
        found["instanceStorePolicy"] = "RAID0"
    if kubelet := shape.kubelet.config():
        found["kubelet"] = kubelet
    if user_data := node_class_user_data(shape):
        found["userData"] = user_data
    if shape.efa:
        found["networkInterfaces"] = [
            {"networkCardIndex": each.card, "deviceIndex": each.device, "interfaceType": each.kind}
            for each in shape.rows[0].efa_interfaces
        ]
    if shape.placement_group is not None:
        found["placementGroupSelector"] = {"name": shape.placement_group}
    if pool.reservations:
        found["capacityReservationSelectorTerms"] = pool.reservations
    return {
        "apiVersion": f"{KARPENTER_AWS_DOMAIN}/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": pool.name},
        "spec": found,
    }


def node_pool(pool: NodePool) -> dict[str, Any]:
    """Return the NodePool.

    Source: https://karpenter.sh/docs/concepts/nodepools/
    """
    nodes = {
        "nodeClassRef": {"group": KARPENTER_AWS_DOMAIN, "kind": "EC2NodeClass", "name": pool.name},
        "requirements": [*pool.requirements(), is_in(OS, ("linux",))],
        **node_taints(pool.shape),
        **pool.disruption.node_lifetime(),
    }
    return {
        "apiVersion": f"{KARPENTER_DOMAIN}/v1",
        "kind": "NodePool",
        "metadata": {"name": pool.object_name},
        "spec": {
            "template": {"metadata": {"labels": pool.shape.node_labels(pool.name)}, "spec": nodes},
            **pool.to_size(),
            "disruption": pool.disruption.to_manifest(),
        },
    }


def node_overlays(pool: NodePool) -> list[dict[str, Any]]:
    """Return what Karpenter must be told of types whose GPUs EC2 counts otherwise than their nodes do.

    EC2 counts a fraction of a GPU (g6f, gr6f) as none and knows no shares, so that Karpenter never launches such a node
    for a pod, or too many.
    Source: https://karpenter.sh/docs/concepts/nodeoverlays/
    """
    if pool.shape.managed_by.by_claim:
        return []
    by_capacity: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for each in pool.shape.rows:
        offered = {GPU: 0} | pool.shape.gpu_resources(each.gpus)
        if offered != {GPU: each.ec2_gpus}:
            by_capacity.setdefault(tuple(offered.items()), []).append(each.name)
    return [
        {
            "apiVersion": f"{KARPENTER_DOMAIN}/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": {"name": pool.name if number == 0 else f"{pool.name}-{number + 1}"},
            "spec": {
                "requirements": [
                    is_in(NODE_POOL, (pool.object_name,)),
                    is_in(INSTANCE_TYPE, names),
                ],
                "capacity": {resource: str(amount) for resource, amount in capacity},
            },
        }
        for number, (capacity, names) in enumerate(by_capacity.items())
    ]


def _image(shape: NodeShape, ami_release: str) -> dict[str, Any]:
    if shape.image is None:
        return {"amiSelectorTerms": [{"alias": f"{shape.os}@{ami_release}"}]}
    return {"amiFamily": _AMI_FAMILY[shape.os], "amiSelectorTerms": [{"id": shape.image.id}]}


def _block_device(volume: Volume) -> dict[str, Any]:
    """Return a launch template's volume as Karpenter spells it."""
    mapping = block_device(volume)
    ebs = mapping["ebs"] | {"volumeSize": f"{volume.size_gib}Gi"}
    for ec2s, karpenters in (("kmsKeyId", "kmsKeyID"), ("snapshotId", "snapshotID")):
        if ec2s in ebs:
            ebs[karpenters] = ebs.pop(ec2s)
    return mapping | {"ebs": ebs}
