"""The launch template of a node group: disks, metadata service, tags, user data."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from gpu_constructs.pools.capacity import Capacity, CapacityBlock, Reservation
from gpu_constructs.pools.disk import Volume
from gpu_constructs.pools.node_shape import NodeShape

# IMDSv2 only, and unreachable from pods, which get credentials by Pod Identity instead.
METADATA_OPTIONS = {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1}

_NO_TAGS: Mapping[str, str] = MappingProxyType({})


def launch_template_data(
    *, name: str, volumes: Sequence[Volume], user_data: str | None = None, tags: Mapping[str, str] = _NO_TAGS
) -> dict[str, Any]:
    """Return ``LaunchTemplateData`` for a managed node group.

    It names no subnet, security group, instance profile or image: EKS adds those, and refuses some of them.
    Source: https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
    """
    all_tags = [{"key": key, "value": value} for key, value in ({"Name": name} | dict(tags)).items()]
    data: dict[str, Any] = {
        "blockDeviceMappings": [block_device(volume) for volume in volumes],
        "metadataOptions": METADATA_OPTIONS,
        "tagSpecifications": [{"resourceType": kind, "tags": all_tags} for kind in ("instance", "volume")],
    }
    if user_data is not None:
        data["userData"] = base64.b64encode(user_data.encode()).decode()
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


def network(who: object, shape: NodeShape, security_group_id: str | None) -> dict[str, Any]:
    """Return interfaces and placement; nothing where EKS' own will do.

    With interfaces of its own a launch template has to name the security group too. The cluster's allows all traffic
    among its members both ways, as EFA needs, on every supported Kubernetes version.

    Raises:
        ValueError: The cluster was imported without its security group.
    """
    data: dict[str, Any] = {}
    if shape.placement_group is not None:
        data["placement"] = {"groupName": shape.placement_group}
    if shape.efa:
        if security_group_id is None:
            raise ValueError(
                f"{who}: shape must be without efa when the cluster was imported without cluster_security_group_id, "
                "got efa=True; pass the id to from_cluster_attributes"
            )
        data["networkInterfaces"] = [
            {
                "networkCardIndex": each.card,
                "deviceIndex": each.device,
                "interfaceType": each.kind,
                "groups": [security_group_id],
                "deleteOnTermination": True,
            }
            for each in shape.rows[0].efa_interfaces
        ]
    return data


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
