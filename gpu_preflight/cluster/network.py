"""Subnets, routes and security groups of the pools.

Source: https://docs.aws.amazon.com/vpc/latest/userguide/VPC_Route_Tables.html (2026-08)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from gpu_facts.hardware.regions import is_no_zone
from gpu_facts.labels import OLD_ZONE, ZONE, ZONE_ID
from gpu_facts.light import regex
from gpu_preflight.cluster.references import referred, refers, setting
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.label_values import Requirement, equal, exactly
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import Unknown, items, known_number, mapping, mappings, may_equal

Way = Literal["internet gateway", "nat", "elsewhere", "nowhere", "unknown"]
_EVERYWHERE = ("0.0.0.0/0", "::/0")
# The zones of a Region differ, for any names.
_NTH_ZONE = regex(r"\$\{Fn::Select \[\"?(\d+)\"?,\"?\$\{Fn::GetAZs .*")
# The name of a zone is its region and a letter.
_ZONE = regex(r"([a-z]+(?:-[a-z]+)+-\d)[a-z]")
_OWN_ZONE = regex(r"\$\{AWS::Region\}[a-z]")
_ASSOCIATION = "AWS::EC2::SubnetRouteTableAssociation"
_SUBNET = "AWS::EC2::Subnet"
_MAKES_TAGS = "createtags"
_GROUP = "AWS::EC2::SecurityGroup"
_ALL = ("-1", -1)
# A custom resource with this API call may add rules.
_ADDS_RULES = "authorizesecuritygroup"
_FROM_ADDRESSES = ("CidrIp", "CidrIpv6", "SourcePrefixListId", "SourceSecurityGroupName")


def way_out(subnet: Any, resources: Mapping[str, Resource]) -> Way:
    """Return how traffic leaves a subnet. The result is "nowhere" only if the whole VPC is in the input."""
    found = referred(subnet, resources)
    vpc = referred(found.properties.get("VpcId"), resources) if found else None
    if found is None or vpc is None or found.type != _SUBNET or vpc.type != "AWS::EC2::VPC":
        return "unknown"
    joined = [each for each in resources.values() if each.type == _ASSOCIATION]
    tables = [each for each in joined if refers(each.properties.get("SubnetId"), found)]
    if not tables and any(referred(each.properties.get("SubnetId"), resources) is None for each in joined):
        return "unknown"
    # A subnet without a route table uses the main route table of the VPC, which templates don't change.
    return _table_egress(tables[0].properties.get("RouteTableId"), resources) if tables else "nowhere"


def _table_egress(reference: Any, resources: Mapping[str, Resource]) -> Way:
    table = referred(reference, resources)
    if table is None:
        return "unknown"
    routes = [each for each in resources.values() if each.type == "AWS::EC2::Route"]
    own = [each for each in routes if refers(each.properties.get("RouteTableId"), table)]
    ways = {_route_egress(each, resources) for each in own}
    order: tuple[Way, ...] = ("unknown", "internet gateway", "nat", "elsewhere")
    return next((each for each in order if each in ways), "nowhere")


def _route_egress(route: Resource, resources: Mapping[str, Resource]) -> Way:
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
    """Return how traffic leaves the subnets of a pool; empty if it isn't known for any of them."""
    return {way_out(each, resources) for each in pool.subnets}


def is_isolated(pool: Pool, resources: Mapping[str, Resource]) -> bool:
    """Whether no subnet of a pool has a route out of the VPC."""
    return ways_out(pool, resources) == {"nowhere"}


def pool_vpcs(pool: Pool, resources: Mapping[str, Resource]) -> list[Resource]:
    """Return the VPCs of a pool's subnets that are in the input."""
    subnets = (referred(each, resources) for each in pool.subnets)
    found = (referred(each.properties.get("VpcId"), resources) for each in subnets if each)
    return list({each.key: each for each in found if each and each.type == "AWS::EC2::VPC"}.values())


def spans_zones(pool: Pool) -> Answer:
    """Return whether the subnets of a pool are in more than one zone."""
    return are_apart(pool.zones)


def are_apart(zones: Collection[str | Unknown]) -> Answer:
    """Return whether some zones of one region are different zones; unknown without zones."""
    if not zones:
        return Answer.UNKNOWN
    named = {_letter(each) for each in zones}
    if len(set(zones)) == 1 or (len(named) == 1 and None not in named):
        return Answer.NO
    numbered = {found.group(1) for each in zones if (found := _nth(each))}
    return Answer.YES if len(named - {None}) > 1 or len(numbered) > 1 else Answer.UNKNOWN


def _letter(zone: str | Unknown) -> str | None:
    """Return the part of a zone's name that differs within its region; ``None`` if there is none."""
    if isinstance(zone, Unknown):
        return zone.expression[-1] if _OWN_ZONE.fullmatch(zone.expression) else None
    return zone[-1] if _ZONE.fullmatch(zone) else zone


def _nth(zone: str | Unknown) -> re.Match[str] | None:
    return _NTH_ZONE.fullmatch(zone.expression) if isinstance(zone, Unknown) else None


def names_zone_ids(pool: Pool, cluster: Cluster) -> bool:
    """Whether the user chose the zones of a pool by their ids, such as ``use1-az6``."""
    subnets = (referred(each, cluster.resources) for each in pool.subnets)
    chosen = any(isinstance(each.properties.get("AvailabilityZoneId"), str) for each in subnets if each)
    return chosen or any(each.key == ZONE_ID and each.operator == "In" for each in pool.requirements)


def pool_region(pool: Pool, cluster: Cluster) -> str | None:
    """Return the region of a pool: the region of its stack, of its cluster's stack, or of a zone that it names."""
    stacks = [each.region for each in (pool.resource, cluster.resource) if each and each.region]
    zones = [_ZONE.fullmatch(each) for each in pool.zones if isinstance(each, str)]
    return next(iter([*stacks, *(each[1] for each in zones if each)]), None)


def region_of_cluster(cluster: Cluster) -> str | None:
    """Return the region of a cluster: the region of its stack, or of its pools."""
    regions = (pool_region(each, cluster) for each in cluster.pools)
    own = cluster.resource.region if cluster.resource else None
    return own or next((each for each in regions if each), None)


def with_class_zones(pools: Iterable[Pool], used: Any, resources: Mapping[str, Resource]) -> tuple[Pool, ...]:
    """Return pools. Pools with a class get the subnets that the class selects, and their zones.

    Args:
        pools: The pools of a cluster.
        used: The subnets of the cluster itself.
        resources: Every resource of the input.
    """
    found: dict[int, tuple[list[Resource], bool]] = {}
    placed, every = [], list(pools)
    classes = any(each.node_class is not None for each in every)
    own = classes and is_own_network(items(used), resources) and not tags_later(resources)
    for pool in every:
        if pool.node_class is not None:
            terms = mappings(pool.node_class.spec.get("subnetSelectorTerms"))
            if id(pool.node_class) not in found:
                found[id(pool.node_class)] = _class_subnets(terms, resources, own=own)
            subnets, known = found[id(pool.node_class)]
            zones = tuple(dict.fromkeys(map(_subnet_zone, subnets)))
            selected = tuple(each.ref() for each in subnets) if known else pool.subnets
            pool = replace(pool, class_zones=zones, class_zones_known=known, subnets=selected)
        placed.append(pool if pool.is_group else replace(pool, zones=_zones_left(pool) or pool.zones))
    return tuple(placed)


def _class_subnets(
    terms: list[dict[str, Any]], resources: Mapping[str, Resource], *, own: bool
) -> tuple[list[Resource], bool]:
    """Return the subnets that terms select, and whether they select no others.

    If the cluster's VPC is in the input (its ``own`` subnets), terms with tags select no others: nodes can't start in
    another VPC, where the security groups of this VPC don't exist.
    """
    named = [referred(each["id"], resources) for each in terms if each.get("id")]
    by_tags = [each for each in terms if not each.get("id")]
    closed = not by_tags or own
    every = [each for each in resources.values() if by_tags and each.type == _SUBNET]
    tagged = [each for each in every if any(may_select(one, each) for one in by_tags)]
    found = [*named, *(tagged if closed else tagged_subnets(by_tags, resources))]
    subnets = [each for each in found if each is not None and each.type == _SUBNET]
    known = closed and bool(subnets) and len(subnets) == len(found)
    return subnets, known


def _subnet_zone(subnet: Resource) -> str | Unknown:
    zone = subnet.properties.get("AvailabilityZone")
    return zone if isinstance(zone, (str, Unknown)) else Unknown(f"${{zone of {subnet.key}}}")


def zone_requirements(pool: Pool) -> list[Requirement]:
    """Return a NodePool's requirements for zones by name. Karpenter treats a template label as a requirement too."""
    given = equal({key: each for key, each in pool.template_labels.items() if key in (ZONE, OLD_ZONE)})
    asked = (*pool.requirements, *given)
    return [each for each in asked if each.key in (ZONE, OLD_ZONE) and each.values is not None]


def _zones_left(pool: Pool) -> tuple[str | Unknown, ...]:
    """Return the zones in which a NodePool launches nodes; none if they aren't known, or if it launches none."""
    asked = zone_requirements(pool)
    named = [each.values for each in asked if each.operator == "In" and each.values]
    there = pool.class_zones if pool.class_zones_known else ()
    if not named:
        return tuple(each for each in there if _takes(asked, each))
    left = [each for each in named[0] if _takes(asked, each) and not is_no_zone(each)]
    return tuple(each for each in left if not there or any(may_equal(str(zone), each) for zone in there))


def _takes(asked: Iterable[Requirement], zone: str | Unknown) -> bool:
    value = exactly(zone) if isinstance(zone, str) else zone
    return all(each.matches({each.key: value}) is not Answer.NO for each in asked)


def class_has_subnet(pool: Pool) -> Answer:
    """Return whether the class of a NodePool has a subnet in a required zone; yes if nothing contradicts it."""
    asked = zone_requirements(pool)
    taken = [each for each in pool.class_zones if _takes(asked, each)]
    if not asked or not pool.class_zones:
        return Answer.YES
    if not taken:
        return Answer.NO if pool.class_zones_known else Answer.UNKNOWN
    # Only deployment sets the zones of Fn::GetAZs. A zone that is the region and a letter is the required zone.
    certain = any(isinstance(each, str) or _OWN_ZONE.fullmatch(each.expression) for each in taken)
    named = any(each.operator == "In" for each in asked)
    return Answer.UNKNOWN if named and not certain and pool.class_zones_known else Answer.YES


def tags_later(resources: Mapping[str, Resource]) -> bool:
    """Whether a custom resource or nested stack may tag existing resources."""
    custom = (each for each in resources.values() if "Custom" in each.type or each.type.endswith("::Stack"))
    return any(_MAKES_TAGS in str(each.properties).lower() or each.type.endswith("::Stack") for each in custom)


def is_own_network(used: Iterable[Any], resources: Mapping[str, Resource]) -> bool:
    """Whether the subnets that a cluster uses, and their VPC, are in the input, so that the VPC has no others."""
    found = [referred(each, resources) for each in used]
    networks = [referred(each.properties.get("VpcId"), resources) if each else None for each in found]
    return bool(networks) and all(each is not None and each.type == "AWS::EC2::VPC" for each in networks)


def may_select(term: Mapping[str, Any], candidate: Resource) -> bool:
    """Whether a term may select a resource."""
    wanted = term.get("tags")
    if not isinstance(wanted, dict) or not wanted:
        return True
    return all(_may_carry(candidate, key, value) for key, value in wanted.items())


def _may_carry(resource: Resource, key: str, value: Any) -> bool:
    tags = resource.properties.get("Tags")
    if isinstance(tags, Unknown) or any(isinstance(each, Unknown) for each in items(tags)):
        return True
    for each in mappings(tags):
        same = may_equal(str(each.get("Key")), key)
        if same and (value == "*" or isinstance(value, Unknown) or isinstance(each.get("Value"), Unknown)):
            return True
        if same and str(each.get("Value")) == str(value):
            return True
    return False


def tagged_subnets(terms: Iterable[Mapping[str, Any]], resources: Mapping[str, Resource]) -> list[Resource]:
    """Return the subnets that terms select by tags; none if a term doesn't select by tags."""
    asked = [mapping(each.get("tags")) for each in terms]
    if not asked or not all(asked):
        return []
    found = [each for each in resources.values() if each.type == _SUBNET]
    return [each for each in found if any(_carries(each, tags) for tags in asked)]


def _carries(subnet: Resource, tags: Mapping[str, Any]) -> bool:
    have = {str(each.get("Key")): each.get("Value") for each in mappings(subnet.properties.get("Tags"))}
    return all(key in have and value in (have[key], "*") for key, value in tags.items())


def pool_security_groups(pool: Pool, *, efa: bool = False) -> list[Any]:
    """Return the security groups of a launch template or a class, with ``efa`` only of its EFA interfaces.

    A class that selects groups by tags has no known groups.
    """
    terms = pool.launch.written.get("securityGroupSelectorTerms") if pool.kind == "karpenter" else None
    named = [each.get("id") for each in mappings(terms)]
    found: list[Any] = named if all(named) else []
    for each in pool.launch.interfaces:
        if not efa or each.is_efa:
            found += each.groups
    for listed in pool.launch.security_groups.values():
        found += items(listed)
    return list(dict.fromkeys(each for each in found if isinstance(each, (str, Unknown))))


def known_groups(references: list[Any], resources: Mapping[str, Resource]) -> list[Resource] | None:
    """Return the security groups for some references; ``None`` if one of them isn't in the input."""
    found = [referred(each, resources) for each in references]
    groups = [each for each in found if each is not None and each.type == _GROUP]
    return groups if groups and len(groups) == len(references) else None


def shut_out(pool: Pool, cluster: Cluster) -> list[Resource]:
    """Return the security groups of a pool's nodes if no rule allows these nodes to call the API server inside the VPC.

    The network interfaces of the API server have the security group that EKS creates, which allows traffic only from
    itself. They also have the security groups that the cluster names. A security group that both sides have allows
    nothing by itself. Empty if a group or a rule isn't in the input.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html (2026-11-24)
    """
    resources, plane = cluster.resources, items(setting(cluster, "ResourcesVpcConfig", "SecurityGroupIds"))
    own, others = known_groups(pool_security_groups(pool), resources), known_groups(plane, resources)
    written = setting(cluster, "ResourcesVpcConfig", "SecurityGroupIds")
    if own is None or isinstance(written, Unknown) or (plane and others is None) or _may_add_rules(resources):
        return []
    listed = [rules(each, "Ingress", resources) for each in others or ()]
    alone = [each for each in resources.values() if each.type == f"{_GROUP}Ingress"]
    if None in listed or any(referred(each.properties.get("GroupId"), resources) is None for each in alone):
        return []
    to_eks = [dict(each.properties) for each in alone if refers(each.properties.get("GroupId"), cluster.resource)]
    found = [*to_eks, *(one for each in listed for one in each or ())]
    return [] if any(covers_port(each, 443) and _may_be_from(each, own, resources) for each in found) else own


def _may_add_rules(resources: Mapping[str, Resource]) -> bool:
    custom = (each for each in resources.values() if "Custom" in each.type or each.type.endswith("::Stack"))
    return any(each.type.endswith("::Stack") or _ADDS_RULES in str(each.properties).lower() for each in custom)


def _may_be_from(rule: Mapping[str, Any], groups: list[Resource], resources: Mapping[str, Resource]) -> bool:
    """Whether a rule may apply to traffic from one of some groups."""
    source = referred(rule.get("SourceSecurityGroupId"), resources)
    return source is None or any(each is source for each in groups) or any(each in rule for each in _FROM_ADDRESSES)


def rules(group: Resource, way: str, resources: Mapping[str, Resource]) -> list[dict[str, Any]] | None:
    """Return the rules of a group, including rules that are separate resources; ``None`` if they aren't known.

    Args:
        group: The group.
        way: ``Ingress`` or ``Egress``.
        resources: Every resource of the input.
    """
    inline = group.properties.get(f"SecurityGroup{way}")
    if isinstance(inline, Unknown) or any(isinstance(each, Unknown) for each in items(inline)):
        return None
    alone = [each for each in resources.values() if each.type == f"{_GROUP}{way}"]
    if any(referred(each.properties.get("GroupId"), resources) is None for each in alone):
        return None
    own = [dict(each.properties) for each in alone if refers(each.properties.get("GroupId"), group)]
    return mappings(inline) + own


def lets_everything(rule: Mapping[str, Any]) -> bool:
    """Whether a rule applies to every protocol."""
    return rule.get("IpProtocol") in _ALL


def covers_port(rule: Mapping[str, Any], port: int) -> bool:
    """Whether a rule allows a TCP port. An unknown rule may allow it."""
    protocol = rule.get("IpProtocol")
    if isinstance(protocol, Unknown) or lets_everything(rule):
        return True
    low, high = known_number(rule.get("FromPort")), known_number(rule.get("ToPort"))
    return str(protocol) in ("tcp", "6") and (low is None or high is None or low <= port <= high)
