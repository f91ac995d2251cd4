"""The launch template that eksctl makes for a node group.

Source: eksctl-io/eksctl 99984adb6 pkg/cfn/builder (nodegroup.go, managed_launch_template.go, network_interfaces.go,
block_device_mapping.go) and pkg/apis/eksctl.io/v1alpha5/defaults.go (2026-08-21)
"""

from __future__ import annotations

from typing import Any

from gpu_facts.hardware.catalogue import catalogue
from gpu_preflight.reading.eksctl.groups import BOTTLEROCKET, family_of, tags_of, types_of
from gpu_preflight.reading.eksctl.resources import without_none
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, items, mapping, mappings

SECURITY_GROUPS = Unknown("${security groups of eksctl}")
_GIB, _KIND, _IOPS, _THROUGHPUT = 80, "gp3", 3000, 125
_WITH_IOPS = ("gp3", "io1", "io2")
_LOWEST_IOPS = {"gp3": _IOPS, "io1": 100, "io2": 100}


def launch_template_data(config: Object, group: dict[str, Any], user_data: Any) -> dict[str, Any]:
    """Return what stands in the launch template of a group, its image and its instance type excepted."""
    on_reservation = mapping(group.get("capacityReservation"))
    data = {
        "BlockDeviceMappings": _disks(group),
        "CapacityReservationSpecification": _reservation(on_reservation) if on_reservation else None,
        # eksctl writes it beside a reservation only.
        "InstanceMarketOptions": _market(group) if on_reservation else None,
        "MetadataOptions": {
            "HttpPutResponseHopLimit": 1 if group.get("disablePodIMDS") is True else 2,
            "HttpTokens": "optional" if group.get("disableIMDSv1") is False else "required",
        },
        "NetworkInterfaces": _interfaces(group),
        "Placement": {"GroupName": dig(group, "placement", "groupName")} if group.get("placement") else None,
        "TagSpecifications": _tags(config, group),
        "UserData": user_data,
    }
    return without_none(data)


def _reservation(said: dict[str, Any]) -> dict[str, Any]:
    target = mapping(said.get("capacityReservationTarget"))
    named = {
        "CapacityReservationId": target.get("capacityReservationID"),
        "CapacityReservationResourceGroupArn": target.get("capacityReservationResourceGroupARN"),
    }
    preference = said.get("capacityReservationPreference")
    specification = {
        "CapacityReservationPreference": preference,
        "CapacityReservationTarget": without_none(named) or None,
    }
    return without_none(specification)


def _market(group: dict[str, Any]) -> dict[str, Any] | None:
    kind = dig(group, "instanceMarketOptions", "marketType")
    return {"MarketType": kind} if kind else None


def _disks(group: dict[str, Any]) -> list[dict[str, Any]]:
    device = group.get("volumeName") or ("/dev/xvdb" if str(family_of(group)).startswith(BOTTLEROCKET) else None)
    if device is None:
        device = "/dev/sda1" if str(family_of(group)).startswith("Windows") else "/dev/xvda"
    return [_disk(each) for each in ({**group, "volumeName": device}, *mappings(group.get("additionalVolumes")))]


def _disk(said: dict[str, Any]) -> dict[str, Any]:
    kind = said.get("volumeType") or _KIND
    ebs = {
        "VolumeSize": said.get("volumeSize", _GIB),
        "VolumeType": kind,
        "Iops": said.get("volumeIOPS", _LOWEST_IOPS[kind]) if kind in _WITH_IOPS else None,
        "Throughput": said.get("volumeThroughput", _THROUGHPUT) if kind == _KIND else None,
        "Encrypted": said.get("volumeEncrypted"),
        "KmsKeyId": said.get("volumeKmsKeyID"),
    }
    return {"DeviceName": said.get("volumeName"), "Ebs": without_none(ebs)}


def _interfaces(group: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return an interface of EFA for each network card that every type of the group has."""
    if group.get("efaEnabled") is not True:
        return None
    rows = [catalogue().get(str(each)) for each in items(types_of(group))]
    cards = [len(each.network_cards) if each else 1 for each in rows]
    return [
        {
            "DeviceIndex": min(card, 1),
            "Groups": SECURITY_GROUPS,
            "InterfaceType": "efa",
            "NetworkCardIndex": card,
        }
        for card in range(min(cards, default=1))
    ]


def _tags(config: Object, group: dict[str, Any]) -> list[dict[str, Any]]:
    tags = [{"Key": key, "Value": value} for key, value in tags_of(config, group).items()]
    return [{"ResourceType": each, "Tags": tags} for each in ("instance", "volume")] if tags else []
