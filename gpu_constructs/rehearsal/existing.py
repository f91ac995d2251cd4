"""What a stack takes for granted: the network and the cluster that it names and does not make."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_VPC, _SUBNET = re.compile(r"\bvpc-[0-9a-f]{8,17}\b"), re.compile(r"\bsubnet-[0-9a-f]{8,17}\b")


@dataclass(frozen=True, kw_only=True, slots=True)
class Network:
    """A VPC of somebody else.

    Attributes:
        vpc: Its id.
        subnets: Ids of its subnets.
    """

    vpc: str
    subnets: tuple[str, ...]


def network_of(template: Mapping[str, Any]) -> Network | None:
    """Return the network that a template names by id; ``None`` where it names none.

    Raises:
        LookupError: It names several VPCs, or subnets of one that it does not name.
    """
    text = json.dumps(template["Resources"])
    vpcs, subnets = sorted(set(_VPC.findall(text))), tuple(sorted(set(_SUBNET.findall(text))))
    if not vpcs and not subnets:
        return None
    if len(vpcs) != 1:
        raise LookupError(f"a rehearsal makes one network for a stack, got subnets {list(subnets)} of VPCs {vpcs}")
    return Network(vpc=vpcs[0], subnets=subnets)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reserved:
    """Capacity that somebody has reserved.

    Attributes:
        id: Its id.
        instance_type: Of what.
        zone: In which Availability Zone: its name, or its place among those of the region.
        count: How many instances.
        block: Whether it is a Capacity Block.
    """

    id: str
    instance_type: str
    zone: str | int
    count: int
    block: bool


def reserved_for(template: Mapping[str, Any]) -> list[Reserved]:
    """Return the reservations that node groups of a template launch into, as large as each group may get."""
    resources = template["Resources"]
    groups = (each["Properties"] for each in resources.values() if each["Type"] == "AWS::EKS::Nodegroup")
    return [found for group in groups if (found := _reserved(resources, group))]


def _reserved(resources: Mapping[str, Any], group: Mapping[str, Any]) -> Reserved | None:
    launched = group.get("LaunchTemplate", {}).get("Id", {})
    data = resources[launched["Ref"]]["Properties"]["LaunchTemplateData"] if "Ref" in launched else {}
    target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    id = target.get("CapacityReservationId")
    if not isinstance(id, str):
        return None
    return Reserved(
        id=id,
        instance_type=data["InstanceType"] if "InstanceType" in data else group["InstanceTypes"][0],
        zone=_zone(resources, group["Subnets"][0]),
        count=_most(resources, group["ScalingConfig"]["MaxSize"]),
        block=group.get("CapacityType") == "CAPACITY_BLOCK",
    )


def _most(resources: Mapping[str, Any], size: Any) -> int:
    """Return the most nodes of a group, whose size a custom resource may set while a block lasts."""
    return int(resources[size["Fn::GetAtt"][0]]["Properties"]["Max"]) if isinstance(size, dict) else int(size)


def _zone(resources: Mapping[str, Any], subnet: Any) -> str | int:
    """Return the zone of a subnet of the template; the first where it is of another."""
    said = resources[subnet["Ref"]]["Properties"]["AvailabilityZone"] if isinstance(subnet, dict) else 0
    return int(said["Fn::Select"][0]) if isinstance(said, dict) else said


def people_of(template: Mapping[str, Any], account: str) -> list[str]:
    """Return the names of roles of the stack's own account that it lets into its cluster and does not make."""
    entries = (each for each in template["Resources"].values() if each["Type"] == "AWS::EKS::AccessEntry")
    named = {
        each["Properties"]["PrincipalArn"] for each in entries if isinstance(each["Properties"]["PrincipalArn"], str)
    }
    own = f"arn:aws:iam::{account}:role/"
    return sorted(each.rpartition("/")[2] for each in named if each.startswith(own))


def cluster_of(template: Mapping[str, Any]) -> str:
    """Return the name of the cluster that a template makes.

    Raises:
        LookupError: It makes none, or its name is known at deployment only.
    """
    clusters = [each for each in template["Resources"].values() if each["Type"] == "AWS::EKS::Cluster"]
    names = [each["Properties"].get("Name") for each in clusters]
    if len(names) != 1 or not isinstance(names[0], str):
        raise LookupError(f"a rehearsal plays one cluster with a name in the template, got {json.dumps(names)}")
    return names[0]


def kubernetes_of(template: Mapping[str, Any]) -> str:
    """Return the minor version of the cluster that a template makes; empty where it says none."""
    clusters = [each for each in template["Resources"].values() if each["Type"] == "AWS::EKS::Cluster"]
    return next((str(each["Properties"]["Version"]) for each in clusters if "Version" in each["Properties"]), "")


def why_not_played(template: Mapping[str, Any]) -> str:
    """Return what a stack takes for granted that nothing here makes; empty where it can be played."""
    try:
        cluster_of(template)
        network_of(template)
    except LookupError as error:
        return str(error)
    return ""
