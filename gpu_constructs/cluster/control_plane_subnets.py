"""Subnets for the control plane alone, in regions where EKS refuses a zone and only ids tell which one that is."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network
from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from gpu_constructs.installing.once import Once
from gpu_constructs.installing.own_stack import place_of
from gpu_constructs.installing.subnets import move_to_zone_id
from gpu_facts.control_plane_zones import ACCEPTED_ZONE_IDS
from gpu_facts.named_arguments import named_arguments

_ID = "ControlPlane"
# EKS asks for 6 free addresses in each.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
_LENGTH = 28
# The last of the parts that are as large as a public subnet: no subnet of nodes reaches there.
_PARTS = 8
# Of the 256 that a VPC has, by the same thought.
_IPV6_BLOCKS = (254, 255)
_IPV6_BITS = 64


@named_arguments
class ControlPlaneSubnets(Construct):
    """Two subnets in zones that EKS takes, in a VPC of `gpu_vpc`; made when a cluster asks for them.

    They have no way out: the network interfaces of the control plane in them need none.

    Args:
        vpc: The network.
        block: Its address block.
        zone_ids: Zones of the subnets.
        ipv6: Whether they have both kinds of addresses.
        zones_chosen: Whether you named the zones of the other subnets.
    """

    def __init__(
        self, vpc: ec2.Vpc, *, block: IPv4Network, zone_ids: Sequence[str], ipv6: bool, zones_chosen: bool
    ) -> None:
        super().__init__(vpc, _ID)
        self._vpc = vpc
        *_, last = block.subnets(prefixlen_diff=_PARTS)
        self._blocks = [str(each) for each in last.subnets(new_prefix=_LENGTH)]
        self._zone_ids = zone_ids
        self._ipv6 = ipv6
        self._zones_chosen = zones_chosen
        self._made: Once[list[ec2.CfnSubnet]] = Once()

    @property
    def subnets(self) -> list[ec2.CfnSubnet]:
        """The subnets."""
        return self._made.get_or_make(lambda: [self._make(number, zone) for number, zone in enumerate(self._zone_ids)])

    def move_others(self) -> None:
        """Put the other subnets of the network into zones that EKS takes, unless you named their zones."""
        if self._zones_chosen:
            return
        for subnets in (self._vpc.public_subnets, self._vpc.private_subnets, self._vpc.isolated_subnets):
            for subnet, zone_id in zip(subnets, self._zone_ids, strict=False):
                move_to_zone_id(subnet, zone_id)

    def _make(self, number: int, zone_id: str) -> ec2.CfnSubnet:
        subnet = ec2.CfnSubnet(
            self,
            f"Subnet{number + 1}",
            vpc_id=self._vpc.vpc_id,
            availability_zone_id=zone_id,
            cidr_block=self._blocks[number],
            assign_ipv6_address_on_creation=self._ipv6 or None,
            ipv6_cidr_block=_ipv6_block(self._vpc, number) if self._ipv6 else None,
            map_public_ip_on_launch=False,
        )
        # Else it carries the name of the VPC.
        cdk.Tags.of(subnet).add("Name", subnet.node.path)
        if self._ipv6:
            subnet.node.add_dependency(self._vpc.node.find_child("ipv6cidr"))
        return subnet


def offer_control_plane_subnets(vpc: ec2.Vpc, *, block: IPv4Network, ipv6: bool, zones_chosen: bool) -> None:
    """Have subnets ready for a control plane, where the region has a zone that EKS refuses; elsewhere nothing."""
    if zone_ids := ACCEPTED_ZONE_IDS.get(place_of(vpc).region):
        ControlPlaneSubnets(vpc, block=block, zone_ids=zone_ids, ipv6=ipv6, zones_chosen=zones_chosen)


def _ipv6_block(vpc: ec2.Vpc, number: int) -> str:
    given = cdk.Fn.select(0, vpc.vpc_ipv6_cidr_blocks)
    blocks = cdk.Fn.cidr(given, _IPV6_BLOCKS[-1] + 1, str(_IPV6_BITS))
    return cdk.Fn.select(_IPV6_BLOCKS[number], blocks)


def place_control_plane(cluster: Construct, vpc: ec2.IVpc, *, nodes_beside: bool) -> None:
    """Put a control plane into subnets in zones that EKS takes, where the network is of `gpu_vpc`.

    Args:
        cluster: The cluster.
        vpc: Its network.
        nodes_beside: Whether nodes start in the same subnets, which then need a way out.
    """
    own = vpc.node.try_find_child(_ID)
    if not isinstance(own, ControlPlaneSubnets):
        return
    if nodes_beside:
        own.move_others()
        return
    resource = cast("cdk.CfnResource", cluster.node.default_child)
    # Not by `vpc_subnets`: what applies manifests starts in the same ones, and needs a way out.
    resource.add_property_override("ResourcesVpcConfig.SubnetIds", [each.ref for each in own.subnets])
