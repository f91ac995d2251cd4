"""Checks of subnets: one zone for nodes with EFA, and enough addresses for the max number of nodes."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.subnets import PodNetwork, refuse_zones_without_pods, subnet_ipv4_block, subnet_zone
from gpu_constructs.pools.node_shape import NodeShape

# AWS reserves the first four addresses of a subnet and the last one.
# Source: https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html
_KEPT_BY_AWS = 5
# The network plugin assigns all addresses to the first interface of a node, and to a second one as a reserve for pods.
# EFA-only interfaces have none.
# Source: https://github.com/aws/amazon-vpc-cni-k8s/blob/v1.23.0/docs/eni-and-ip-target.md
_FILLED_INTERFACES = 2


def check_subnets(
    pool: Construct,
    *,
    who: object,
    cluster: ClusterRef,
    shape: NodeShape,
    subnets: Sequence[ec2.ISubnet],
    max_nodes: object,
) -> None:
    """Reject subnets in which the nodes of a pool can't start or connect to each other. Warn about small ones.

    It doesn't check addresses if the size of a subnet, or the number of nodes, is known only at deployment.

    Raises:
        ValueError: The last node could not start, or a zone has no subnet for pods. Or with EFA, the subnets are in
            several zones, may be in several zones, or one is public.
    """
    refuse_zones_without_pods(who, cluster.pod_network, subnets)
    if shape.efa:
        _refuse_unless_one_zone(who, subnets)
    if cluster.ip_family != "ipv6" and isinstance(max_nodes, int):
        _check_addresses(pool, who, shape, subnets, max_nodes, cluster.pod_network)


def _refuse_unless_one_zone(who: object, subnets: Sequence[ec2.ISubnet]) -> None:
    # EC2 assigns no public address to a node with several interfaces.
    public = [each.node.path for each in subnets if isinstance(each, ec2.PublicSubnet)]
    if public:
        raise ValueError(
            f"{who}: subnets must be private with efa, got {', '.join(public)}; pass one of private_subnets"
        )
    if len(subnets) == 1:
        return
    # EFA traffic stays in its Availability Zone.
    zones = {subnet_zone(subnet) for subnet in subnets}
    if len(zones) > 1 or None in zones:
        named = ", ".join(sorted(zone or "a zone known only at deployment" for zone in zones))
        raise ValueError(f"{who}: subnets must be in one zone with efa, got {named}; pass one subnet")


def _check_addresses(
    pool: Construct,
    who: object,
    shape: NodeShape,
    subnets: Sequence[ec2.ISubnet],
    max_nodes: int,
    network: PodNetwork | None,
) -> None:
    """Reject more nodes than addresses, and warn about more than the addresses without the plugin's reserve."""
    blocks = [subnet_ipv4_block(subnet) for subnet in subnets]
    known = [ipaddress.ip_network(block).num_addresses - _KEPT_BY_AWS for block in blocks if block is not None]
    if len(known) < len(blocks):
        return
    free = sum(known)
    if max_nodes > free:
        raise ValueError(
            f"{who}: subnets must have an address for each of {max_nodes} nodes, got {free}; pass larger ones"
        )
    each = addresses_per_node(shape) if network is None or network.is_usual else None
    if each is not None and max_nodes * each > free:
        cdk.Annotations.of(pool).add_warning_v2(
            "gpu-constructs:addresses",
            f"{max_nodes} nodes of {shape.names[0]} use up to {max_nodes * each} addresses, {each} each, and the "
            f"subnets have {free}: the last nodes or their pods would wait for an address. Use larger subnets, or set "
            "WARM_IP_TARGET of the add-on vpc-cni",
        )


def addresses_per_node(shape: NodeShape) -> int | None:
    """Return how many IPv4 addresses a node of the largest type uses, or ``None`` if no source states it."""
    stated = [each.ipv4_per_interface for each in shape.rows]
    counts = [count for count in stated if count is not None]
    return max(counts) * _FILLED_INTERFACES if len(counts) == len(stated) else None
