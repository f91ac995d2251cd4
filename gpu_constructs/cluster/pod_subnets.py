"""Separate subnets for pods, in a second address block of a VPC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from gpu_constructs.installing.registry import PathOf
from gpu_constructs.installing.subnets import PodNetwork, subnets_by_zone
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import address_block, refuse_unless_bool

_ID = "Pods"
# EKS recommends this block, because companies seldom route it. It also recommends 198.19.0.0/16, which a VPC can't have
# next to a private block.
# Sources: https://docs.aws.amazon.com/eks/latest/best-practices/custom-networking.html,
# https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html (2026-11)
_FOR_PODS = IPv4Network("100.64.0.0/10")
# Source: https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html (2026-11)
_SHORTEST, _LONGEST = 16, 24


@named_arguments
class PodSubnets(Construct):
    """A second address block of a VPC of `gpu_vpc`, with a pod subnet for each private subnet.

    Args:
        vpc: The network.
        block: The address block.
        beside: The private subnets, in known zones.

    Attributes:
        by_zone: Ids of the subnets by zone.
        association: The block's association with the VPC.
    """

    def __init__(self, vpc: ec2.Vpc, *, block: IPv4Network, beside: Sequence[ec2.ISubnet]) -> None:
        super().__init__(vpc, _ID)
        self.association = ec2.CfnVPCCidrBlock(self, "Block", vpc_id=vpc.vpc_id, cidr_block=str(block))
        blocks = block.subnets(prefixlen_diff=(len(beside) - 1).bit_length())
        self.by_zone: Mapping[str, str] = {
            each.availability_zone: self._create_subnet(vpc, each, part)
            for each, part in zip(beside, blocks, strict=False)
        }

    def _create_subnet(self, vpc: ec2.Vpc, private: ec2.ISubnet, block: IPv4Network) -> str:
        zone = private.availability_zone
        subnet = ec2.CfnSubnet(
            self,
            f"Subnet-{zone}",
            vpc_id=vpc.vpc_id,
            availability_zone=zone,
            cidr_block=str(block),
            map_public_ip_on_launch=False,
        )
        subnet.node.add_dependency(self.association)
        # Otherwise it has the name of the VPC.
        cdk.Tags.of(subnet).add("Name", subnet.node.path)
        ec2.CfnSubnetRouteTableAssociation(
            self, f"Routes-{zone}", subnet_id=subnet.ref, route_table_id=private.route_table.route_table_id
        )
        return subnet.ref


def pod_block(who: object, argument: str, block: object) -> IPv4Network:
    """Return an address block for pods.

    Raises:
        TypeError: ``block`` isn't a string.
        ValueError: It isn't in the range for pods, or a VPC can't have it.
    """
    if not isinstance(block, str):
        raise TypeError(f"{who}: {argument} must be an address block, got {block!r}; write one such as '100.64.0.0/16'")
    found = address_block(who, argument, block, example="100.64.0.0/16")
    if not isinstance(found, IPv4Network) or not found.subnet_of(_FOR_PODS):
        raise ValueError(f"{who}: {argument} must be in {_FOR_PODS}, got {block!r}; write one such as '100.64.0.0/16'")
    if not _SHORTEST <= found.prefixlen <= _LONGEST:
        raise ValueError(
            f"{who}: {argument} must have a length of /{_SHORTEST} to /{_LONGEST}, got {block!r}; change its length"
        )
    return found


def find_pod_subnets(vpc: ec2.IVpc) -> PodSubnets | None:
    """Return the pod subnets of a VPC of `gpu_vpc`, if it has some."""
    own = vpc.node.try_find_child(_ID)
    return own if isinstance(own, PodSubnets) else None


def pod_network(
    cluster: Construct,
    vpc: ec2.IVpc,
    *,
    pod_subnets: Mapping[str, str] | None,
    prefix_delegation: bool,
    without: str | None,
) -> PodNetwork:
    """Return the source of pod addresses.

    Args:
        cluster: The cluster.
        vpc: Its network.
        pod_subnets: Ids of separate subnets for pods, by zone.
        prefix_delegation: Whether nodes allocate blocks of sixteen.
        without: Reason why the cluster supports neither, or ``None`` if it does.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A zone or a subnet is invalid, or the cluster doesn't support the setting.
    """
    who, made = PathOf(cluster), find_pod_subnets(vpc)
    refuse_unless_bool(who, "prefix_delegation", prefix_delegation)
    given = subnets_by_zone(who, "pod_subnets", pod_subnets) if pod_subnets is not None else {}
    if without is not None:
        said = {"pod_subnets": given, "prefix_delegation": prefix_delegation}
        for argument, value in said.items():
            if value:
                raise ValueError(f"{who}: {argument} must be left out {without}, got {value!r}; remove it")
    if made is not None and without is not None:
        raise ValueError(f"{who}: vpc must have no pod_block {without}, got {vpc.node.path!r}; create it without")
    if made is not None and not given:
        # If a block is added later, EKS recognizes it only after hours.
        # Source: https://docs.aws.amazon.com/eks/latest/userguide/cni-custom-network-tutorial.html (2026-11)
        cluster.node.add_dependency(made.association)
        given = dict(made.by_zone)
    return PodNetwork(subnets=given, prefixes=prefix_delegation)
