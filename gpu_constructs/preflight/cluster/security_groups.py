"""Security groups of nodes, and what they let through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_constructs.preflight.cluster.references import referred, refers
from gpu_constructs.preflight.model.cluster import Pool
from gpu_constructs.preflight.reading.cloudformation import Resource
from gpu_constructs.preflight.reading.unknown import Unknown, items, known_number, mappings

_GROUP = "AWS::EC2::SecurityGroup"
_ALL = ("-1", -1)


def groups_of(pool: Pool, *, efa: bool = False) -> list[Any]:
    """Return the security groups that a launch template gives; with ``efa`` those of its EFA interfaces."""
    found: list[Any] = []
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
