"""Security groups of nodes, and what they let through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_preflight.cluster.references import referred, refers, setting
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import Unknown, items, known_number, mappings

_GROUP = "AWS::EC2::SecurityGroup"
_ALL = ("-1", -1)
# A custom resource that calls it may add rules.
_ADDS_RULES = "authorizesecuritygroup"
_FROM_ADDRESSES = ("CidrIp", "CidrIpv6", "SourcePrefixListId", "SourceSecurityGroupName")


def groups_of(pool: Pool, *, efa: bool = False) -> list[Any]:
    """Return the security groups that a launch template or a class gives; with ``efa`` those of its EFA interfaces.

    A class that selects groups by tags gives none that are known.
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
    """Return the groups themselves, ``None`` when one of them is not in the input."""
    found = [referred(each, resources) for each in references]
    groups = [each for each in found if each is not None and each.type == _GROUP]
    return groups if groups and len(groups) == len(references) else None


def shut_out(pool: Pool, cluster: Cluster) -> list[Resource]:
    """Return the security groups of a pool's nodes if no rule lets these nodes call the API server inside the VPC.

    The network interfaces of the API server have the security group that EKS makes, which lets itself in alone, and
    those that the cluster names. A group that both sides have lets nothing in by itself. Nothing is returned where a
    group or a rule isn't in the input.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html (2026-11-24)
    """
    resources, plane = cluster.resources, items(setting(cluster, "ResourcesVpcConfig", "SecurityGroupIds"))
    own, others = known_groups(groups_of(pool), resources), known_groups(plane, resources)
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
    """Whether a rule may be about traffic from one of some groups."""
    source = referred(rule.get("SourceSecurityGroupId"), resources)
    return source is None or any(each is source for each in groups) or any(each in rule for each in _FROM_ADDRESSES)


def rules(group: Resource, way: str, resources: Mapping[str, Resource]) -> list[dict[str, Any]] | None:
    """Return the rules of a group, those that stand alone included; ``None`` where they are not known.

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
    """Whether a rule is about every protocol."""
    return rule.get("IpProtocol") in _ALL


def covers_port(rule: Mapping[str, Any], port: int) -> bool:
    """Whether a rule lets a TCP port through; what is not known may."""
    protocol = rule.get("IpProtocol")
    if isinstance(protocol, Unknown) or lets_everything(rule):
        return True
    low, high = known_number(rule.get("FromPort")), known_number(rule.get("ToPort"))
    return str(protocol) in ("tcp", "6") and (low is None or high is None or low <= port <= high)
