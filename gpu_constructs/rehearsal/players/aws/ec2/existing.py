"""Networks that were there before, under ids that somebody wrote down."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_network
from unittest.mock import patch

from moto.ec2.models import subnets, vpcs

from gpu_constructs.rehearsal.players.aws.region import Region

_ADDRESSES = ip_network("10.96.0.0/16")
_OF_A_SUBNET = 20


def have_network(region: Region, *, vpc: str, in_zones: Sequence[str]) -> None:
    """Have a VPC with private subnets, each in the next Availability Zone.

    No call of the API takes an id, so moto's own choice of one is told what to choose; nobody else may be on stage yet.
    Routes out of the subnets are not made: nothing here sends a packet.

    Args:
        region: Where it is.
        vpc: Its id.
        in_zones: Ids of its subnets.
    """
    ec2 = region.service("ec2")
    zones = sorted(
        each["ZoneName"]
        for each in ec2.describe_availability_zones()["AvailabilityZones"]
        if each["ZoneType"] == "availability-zone"
    )
    with patch.object(vpcs, "random_vpc_id", return_value=vpc):
        ec2.create_vpc(CidrBlock=str(_ADDRESSES))
    for attribute in ("EnableDnsSupport", "EnableDnsHostnames"):
        ec2.modify_vpc_attribute(VpcId=vpc, **{attribute: {"Value": True}})
    blocks = _ADDRESSES.subnets(new_prefix=_OF_A_SUBNET)
    for number, (subnet, block) in enumerate(zip(in_zones, blocks, strict=False)):
        with patch.object(subnets, "random_subnet_id", return_value=subnet):
            ec2.create_subnet(VpcId=vpc, CidrBlock=str(block), AvailabilityZone=zones[number % len(zones)])
