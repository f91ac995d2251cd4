"""EFA traffic does not leave its Availability Zone."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_ec2 as ec2

from gpu_constructs.installing.subnets import zone_of
from gpu_constructs.pools.node_shape import NodeShape


def refuse_unless_one_zone(who: object, shape: NodeShape, subnets: Sequence[ec2.ISubnet]) -> None:
    """Refuse several zones for nodes that must reach each other by EFA.

    Raises:
        ValueError: The subnets lie in several zones, or may; or one is public, and EC2 gives a node with several
            interfaces no public address.
    """
    if not shape.efa:
        return
    public = [each.node.path for each in subnets if isinstance(each, ec2.PublicSubnet)]
    if public:
        raise ValueError(
            f"{who}: subnets must be private with efa, got {', '.join(public)}; pass one of private_subnets"
        )
    if len(subnets) == 1:
        return
    zones = {zone_of(subnet) for subnet in subnets}
    if len(zones) > 1 or None in zones:
        named = ", ".join(sorted(zone or "a zone known at deployment only" for zone in zones))
        raise ValueError(f"{who}: subnets must lie in one zone with efa, got {named}; pass one subnet")
