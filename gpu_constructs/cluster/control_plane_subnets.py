"""Subnets for the control plane alone, in regions where EKS refuses a zone and only ids tell which one that is."""

from __future__ import annotations

from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from gpu_constructs.facts.control_plane_zones import ACCEPTED_ZONE_IDS

_ID = "ControlPlane"
# The last of 10.0.0.0/16, where no subnet of nodes reaches; EKS asks for 6 free addresses in each.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
_BLOCKS = ("10.0.255.0/28", "10.0.255.16/28")
# Of the 256 that a VPC has, by the same thought.
_IPV6_BLOCKS = (254, 255)
_IPV6_BITS = 64


def make_control_plane_subnets(vpc: ec2.Vpc, *, ipv6: bool) -> None:
    """Make two in zones that EKS takes, where the region has one that it refuses; elsewhere nothing.

    They have no way out: the network interfaces of the control plane in them need none.
    """
    zones = ACCEPTED_ZONE_IDS.get(cdk.Stack.of(vpc).region)
    if zones is None:
        return
    home = Construct(vpc, _ID)
    for number, (zone, block) in enumerate(zip(zones, _BLOCKS, strict=True), 1):
        subnet = ec2.CfnSubnet(
            home,
            f"Subnet{number}",
            vpc_id=vpc.vpc_id,
            availability_zone_id=zone,
            cidr_block=block,
            assign_ipv6_address_on_creation=ipv6 or None,
            ipv6_cidr_block=_ipv6_block(vpc, number) if ipv6 else None,
            map_public_ip_on_launch=False,
        )
        # Else it carries the name of the VPC.
        cdk.Tags.of(subnet).add("Name", subnet.node.path)
        if ipv6:
            subnet.node.add_dependency(vpc.node.find_child("ipv6cidr"))


def _ipv6_block(vpc: ec2.Vpc, number: int) -> str:
    given = cdk.Fn.select(0, vpc.vpc_ipv6_cidr_blocks)
    blocks = cdk.Fn.cidr(given, _IPV6_BLOCKS[-1] + 1, str(_IPV6_BITS))
    return cdk.Fn.select(_IPV6_BLOCKS[number - 1], blocks)


def place_control_plane(cluster: Construct, vpc: ec2.IVpc) -> None:
    """Put a control plane into the subnets that were made for it, where some were."""
    home = vpc.node.try_find_child(_ID)
    if home is None:
        return
    ids = [cast("ec2.CfnSubnet", each).ref for each in home.node.children]
    resource = cast("cdk.CfnResource", cluster.node.default_child)
    # Not by `vpc_subnets`: what applies manifests starts in the same ones, and needs a way out.
    resource.add_property_override("ResourcesVpcConfig.SubnetIds", ids)
