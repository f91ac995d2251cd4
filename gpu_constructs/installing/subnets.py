"""The subnets that nodes start in: which, where, and how large."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2

_BLOCKS: WeakKeyDictionary[ec2.ISubnet, str | None] = WeakKeyDictionary()


def node_subnets(vpc: ec2.IVpc) -> list[ec2.ISubnet]:
    """Return the subnets of a VPC that nodes start in: the private ones, else the isolated ones."""
    return list(vpc.private_subnets) or list(vpc.isolated_subnets)


def refuse_unless_vpc(who: object, vpc: object) -> None:
    """Refuse what is no VPC.

    Raises:
        TypeError: ``vpc`` is something else, for example an id.
    """
    if not hasattr(vpc, "private_subnets"):
        raise TypeError(f"{who}: vpc must be an ec2.IVpc, got {vpc!r}; import one with Vpc.from_lookup")


def given_subnets(given: object, who: object) -> list[ec2.ISubnet]:
    """Return subnets that a user named.

    Raises:
        TypeError: ``given`` is no list of subnets.
        ValueError: It is empty.
    """
    if not isinstance(given, (list, tuple)) or not all(hasattr(each, "subnet_id") for each in given):
        raise TypeError(f"{who}: subnets must be a list of ec2.ISubnet, got {given!r}")
    if not given:
        raise ValueError(f"{who}: subnets must name at least one subnet, got none")
    return list(given)


def in_zone(subnets: list[ec2.ISubnet], zone: str, who: object, *, unknown: bool) -> list[ec2.ISubnet]:
    """Return the subnets in a zone; those whose zone only deployment tells count when ``unknown`` is set.

    Raises:
        ValueError: There is none.
    """
    zones = {subnet: zone_of(subnet) for subnet in subnets}
    found = [subnet for subnet, where in zones.items() if where == zone or (where is None and unknown)]
    if not found:
        known = ", ".join(sorted({str(where) for where in zones.values() if where})) or "zones known at deployment only"
        raise ValueError(
            f"{who}: subnets must lie in {zone!r}, the zone of the reservation, got {known}; pass a subnet there"
        )
    return found


def ipv4_block_of(subnet: ec2.ISubnet) -> str | None:
    """Return the address block of a subnet, or ``None`` where only deployment tells."""
    if subnet not in _BLOCKS:
        _BLOCKS[subnet] = _ipv4_block_of(subnet)
    return _BLOCKS[subnet]


def _ipv4_block_of(subnet: ec2.ISubnet) -> str | None:
    try:
        block = subnet.ipv4_cidr_block
    except (jsii.errors.JSIIError, RuntimeError):
        return None
    return None if cdk.Token.is_unresolved(block) else block


def zone_of(subnet: ec2.ISubnet) -> str | None:
    """Return the zone of a subnet, or ``None`` where only deployment tells."""
    try:
        zone = subnet.availability_zone
    except (jsii.errors.JSIIError, RuntimeError):
        return None
    return None if cdk.Token.is_unresolved(zone) else zone
