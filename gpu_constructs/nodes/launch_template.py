"""The launch template of a node group: disks, metadata service, tags, user data."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.nodes.host.node_tags import NodeTags
from gpu_constructs.pools.capacity import Capacity, CapacityBlock, Reservation
from gpu_constructs.pools.disk import Volume
from gpu_constructs.pools.node_shape import NodeShape

# IMDSv2 only, and one hop is unreachable from pods, which get credentials by Pod Identity instead.
_METADATA = {"httpEndpoint": "enabled", "httpTokens": "required"}


def launch_template_data(
    *,
    tags: NodeTags,
    volumes: Sequence[Volume],
    user_data: str | None = None,
    hop_limit: int = 1,
) -> dict[str, Any]:
    """Return ``LaunchTemplateData`` for a managed node group.

    It names no subnet, security group, instance profile or image: EKS adds those, and refuses some of them.
    Source: https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
    """
    data: dict[str, Any] = {
        "blockDeviceMappings": [block_device(volume) for volume in volumes],
        "metadataOptions": _METADATA | {"httpPutResponseHopLimit": hop_limit},
        "tagSpecifications": tags.specifications,
    }
    if user_data is not None:
        # What only deployment tells is no text yet.
        late = "${Token[" in user_data
        data["userData"] = cdk.Fn.base64(user_data) if late else base64.b64encode(user_data.encode()).decode()
    return data


def reserved_capacity(capacity: Capacity, instance_type: str) -> dict[str, Any]:
    """Return what a launch template says of reserved capacity; nothing for what is bought at the moment.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html
    """
    if isinstance(capacity, Reservation):
        target = {
            "capacityReservationId": capacity.id,
            "capacityReservationResourceGroupArn": capacity.resource_group_arn,
        }
        named = {key: value for key, value in target.items() if value is not None}
        return {"capacityReservationSpecification": {"capacityReservationTarget": named}}
    if isinstance(capacity, CapacityBlock):
        # EKS wants the type here, and then not in the node group.
        return {
            "instanceType": instance_type,
            "instanceMarketOptions": {"marketType": "capacity-block"},
            "capacityReservationSpecification": {"capacityReservationTarget": {"capacityReservationId": capacity.id}},
        }
    return {}


def network(who: object, shape: NodeShape, cluster: ClusterRef, *, joins_by_itself: bool = False) -> dict[str, Any]:
    """Return interfaces, security groups and placement; nothing where EKS' own will do.

    With interfaces or security groups of its own a launch template has to name the cluster's group too, which EKS then
    leaves out. The cluster's allows all traffic among its members both ways, as EFA needs, on every supported
    Kubernetes version.

    Raises:
        ValueError: The cluster was imported without its security group.
    """
    data: dict[str, Any] = {}
    if shape.placement_group is not None:
        data["placement"] = {"groupName": shape.placement_group}
    if not (shape.efa or shape.host.security_group_ids or joins_by_itself):
        return data
    groups = list(dict.fromkeys([_cluster_group(who, shape, cluster), *shape.host.security_group_ids]))
    if shape.efa:
        data["networkInterfaces"] = [
            {
                "networkCardIndex": each.card,
                "deviceIndex": each.device,
                "interfaceType": each.kind,
                "groups": groups,
                "deleteOnTermination": True,
            }
            for each in shape.rows[0].efa_interfaces
        ]
    else:
        # EC2 takes groups of the instance or of its interfaces, not both.
        data["securityGroupIds"] = groups
    return data


def _cluster_group(who: object, shape: NodeShape, cluster: ClusterRef) -> str:
    if cluster.security_group_id is not None:
        return cluster.security_group_id
    without = "cluster was imported without cluster_security_group_id"
    fix = "pass the id to from_cluster_attributes"
    if shape.efa:
        raise ValueError(f"{who}: shape must be without efa when the {without}, got efa=True; {fix}")
    if shape.host.security_group_ids:
        raise ValueError(
            f"{who}: shape must be without host.security_group_ids when the {without}, got "
            f"{shape.host.security_group_ids!r}; {fix}"
        )
    raise ValueError(
        f"{who}: cluster must be imported with cluster_security_group_id, got none; the nodes talk to the control "
        "plane through it"
    )


def block_device(volume: Volume) -> dict[str, Any]:
    """Return one encrypted gp3 volume as a launch template names it."""
    disk = volume.disk
    ebs: dict[str, Any] = {
        "volumeSize": volume.size_gib,
        "volumeType": "gp3",
        "iops": disk.iops,
        "throughput": disk.throughput_mib_s,
        "encrypted": True,
        "deleteOnTermination": True,
    }
    optional = {
        "kmsKeyId": disk.kms_key_arn,
        "snapshotId": disk.snapshot_id,
        "volumeInitializationRate": disk.initialization_mib_s,
    }
    ebs |= {key: value for key, value in optional.items() if value is not None}
    return {"deviceName": volume.device, "ebs": ebs}
