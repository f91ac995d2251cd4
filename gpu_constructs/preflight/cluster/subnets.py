"""How traffic leaves the subnets of a pool, and where they are.

Source: https://docs.aws.amazon.com/vpc/latest/userguide/VPC_Route_Tables.html (2026-08)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

from gpu_constructs.facts.labels import ZONE_ID
from gpu_constructs.preflight.cluster.references import referred, refers
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Cluster, Pool
from gpu_constructs.preflight.reading.cloudformation import Resource
from gpu_constructs.preflight.reading.unknown import Unknown, mapping, mappings

Way = Literal["internet gateway", "nat", "elsewhere", "nowhere", "unknown"]

_EVERYWHERE = ("0.0.0.0/0", "::/0")
# The zones of a Region differ, whatever their names are.
_NTH_ZONE = re.compile(r"\$\{Fn::Select \[\"?(\d+)\"?,\"?\$\{Fn::GetAZs .*")
# A zone is its region and a letter.
_ZONE = re.compile(r"([a-z]+(?:-[a-z]+)+-\d)[a-z]")
_OWN_ZONE = re.compile(r"\$\{AWS::Region\}[a-z]")
_ASSOCIATION = "AWS::EC2::SubnetRouteTableAssociation"


def way_out(subnet: Any, resources: Mapping[str, Resource]) -> Way:
    """Return how traffic leaves a subnet; nowhere only when the whole VPC is in the input."""
    found = referred(subnet, resources)
    vpc = referred(found.properties.get("VpcId"), resources) if found else None
    if found is None or vpc is None or found.type != "AWS::EC2::Subnet" or vpc.type != "AWS::EC2::VPC":
        return "unknown"
    joined = [each for each in resources.values() if each.type == _ASSOCIATION]
    tables = [each for each in joined if refers(each.properties.get("SubnetId"), found)]
    if not tables and any(referred(each.properties.get("SubnetId"), resources) is None for each in joined):
        return "unknown"
    # A subnet without table of its own has the main one of the VPC, in which no template writes.
    return _of_table(tables[0].properties.get("RouteTableId"), resources) if tables else "nowhere"


def _of_table(reference: Any, resources: Mapping[str, Resource]) -> Way:
    table = referred(reference, resources)
    if table is None:
        return "unknown"
    routes = [each for each in resources.values() if each.type == "AWS::EC2::Route"]
    own = [each for each in routes if refers(each.properties.get("RouteTableId"), table)]
    ways = {_of_route(each, resources) for each in own}
    order: tuple[Way, ...] = ("unknown", "internet gateway", "nat", "elsewhere")
    return next((each for each in order if each in ways), "nowhere")


def _of_route(route: Resource, resources: Mapping[str, Resource]) -> Way:
    target = route.properties
    to = target.get("DestinationCidrBlock") or target.get("DestinationIpv6CidrBlock")
    if route.conditional or isinstance(to, Unknown):
        return "unknown"
    if to not in _EVERYWHERE:
        return "elsewhere"
    gateway = referred(target.get("GatewayId"), resources)
    if gateway is not None and gateway.type == "AWS::EC2::InternetGateway":
        return "internet gateway"
    return "nat" if target.get("NatGatewayId") else "elsewhere"


def ways_out(pool: Pool, resources: Mapping[str, Resource]) -> set[Way]:
    """Return how traffic leaves the subnets of a pool; empty where none is known."""
    return {way_out(each, resources) for each in pool.subnets}


def is_isolated(pool: Pool, resources: Mapping[str, Resource]) -> bool:
    """Whether nothing leads out of any subnet of a pool."""
    return ways_out(pool, resources) == {"nowhere"}


def vpcs_of(pool: Pool, resources: Mapping[str, Resource]) -> list[Resource]:
    """Return the VPCs of a pool's subnets that are in the input."""
    subnets = (referred(each, resources) for each in pool.subnets)
    found = (referred(each.properties.get("VpcId"), resources) for each in subnets if each)
    return list({each.key: each for each in found if each and each.type == "AWS::EC2::VPC"}.values())


def spans_zones(pool: Pool) -> Answer:
    """Say whether the subnets of a pool are in more than one zone."""
    return are_apart(pool.zones)


def are_apart(zones: Collection[str | Unknown]) -> Answer:
    """Say whether some zones of one region are more than one; of none nothing is known."""
    if not zones:
        return Answer.UNKNOWN
    named = {_letter(each) for each in zones}
    if len(set(zones)) == 1 or (len(named) == 1 and None not in named):
        return Answer.NO
    numbered = {found.group(1) for each in zones if (found := _nth(each))}
    return Answer.YES if len(named - {None}) > 1 or len(numbered) > 1 else Answer.UNKNOWN


def _letter(zone: str | Unknown) -> str | None:
    """Return what tells a zone from the others of its region, whatever region that is; ``None`` where nothing does."""
    if isinstance(zone, Unknown):
        return zone.expression[-1] if _OWN_ZONE.fullmatch(zone.expression) else None
    return zone[-1] if _ZONE.fullmatch(zone) else zone


def _nth(zone: str | Unknown) -> re.Match[str] | None:
    return _NTH_ZONE.fullmatch(zone.expression) if isinstance(zone, Unknown) else None


def names_zone_ids(pool: Pool, cluster: Cluster) -> bool:
    """Whether somebody chose the zones of a pool by their ids, such as ``use1-az6``."""
    subnets = (referred(each, cluster.resources) for each in pool.subnets)
    chosen = any(isinstance(each.properties.get("AvailabilityZoneId"), str) for each in subnets if each)
    return chosen or any(each.key == ZONE_ID and each.operator == "In" for each in pool.requirements)


def region_of(pool: Pool, cluster: Cluster) -> str | None:
    """Return the region of a pool: of its stack, of its cluster's, or of a zone that it names."""
    stacks = [each.region for each in (pool.resource, cluster.resource) if each and each.region]
    zones = [_ZONE.fullmatch(each) for each in pool.zones if isinstance(each, str)]
    return next(iter([*stacks, *(each[1] for each in zones if each)]), None)


def region_of_cluster(cluster: Cluster) -> str | None:
    """Return the region of a cluster: of its stack, or of its pools."""
    regions = (region_of(each, cluster) for each in cluster.pools)
    own = cluster.resource.region if cluster.resource else None
    return own or next((each for each in regions if each), None)


def tagged_subnets(terms: Iterable[Mapping[str, Any]], resources: Mapping[str, Resource]) -> list[Resource]:
    """Return the subnets that terms select by tags, none where a term selects otherwise."""
    asked = [mapping(each.get("tags")) for each in terms]
    if not asked or not all(asked):
        return []
    found = [each for each in resources.values() if each.type == "AWS::EC2::Subnet"]
    return [each for each in found if any(_carries(each, tags) for tags in asked)]


def _carries(subnet: Resource, tags: Mapping[str, Any]) -> bool:
    have = {str(each.get("Key")): each.get("Value") for each in mappings(subnet.properties.get("Tags"))}
    return all(key in have and value in (have[key], "*") for key, value in tags.items())
