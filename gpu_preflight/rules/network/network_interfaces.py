"""Network interfaces and security groups of launch templates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.refusals import did_you_mean
from gpu_preflight.case import Case
from gpu_preflight.cluster.launch import is_given, launched_groups
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.launch import Interface
from gpu_preflight.node.nodes import gpu_types, surely_launches
from gpu_preflight.reading.unknown import Unknown, dig, is_true, items, known_number
from gpu_preflight.rules.rule import Problem, rule

# That efa-only has no address: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/create-efa.html (2026-11)
_EFA = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html"
_INTERFACE_TYPES = ("interface", "efa", "efa-only")
_GROUP = "AWS::EC2::SecurityGroup"
_RULES = ("AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress", _GROUP)


@rule(
    "GPU044",
    "error",
    source="https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RequestLaunchTemplateData.html",
)
def security_groups_of_the_instance_beside_network_interfaces(case: Case) -> Iterator[Problem]:
    """Security groups of the instance beside network interfaces.

    EC2 takes security groups in one place and refuses the launch.

    Fix: Name the groups in Groups of each network interface only.
    """
    for pool in launched_groups(case.cluster):
        names = [name for name, groups in pool.launch.security_groups.items() if is_given(groups)]
        if names and pool.launch.interfaces:
            message = f"{' and '.join(names)} beside network interfaces in the launch template"
            yield Problem.of(pool, message)


@rule(
    "GPU407",
    "error",
    source="https://docs.aws.amazon.com/AWSEC2/latest/APIReference/"
    "API_LaunchTemplateInstanceNetworkInterfaceSpecificationRequest.html",
)
def network_interface_of_a_type_that_ec2_does_not_know(case: Case) -> Iterator[Problem]:
    """Network interface of a type that EC2 does not know.

    EC2 refuses the launch template or the launch, and the group gets no node.

    Fix: Write interface, efa or efa-only, with a hyphen.
    """
    for pool in launched_groups(case.cluster):
        kinds = [each.kind for each in pool.launch.interfaces]
        for kind in dict.fromkeys(each for each in kinds if isinstance(each, str) and each not in _INTERFACE_TYPES):
            hint = did_you_mean(kind, _INTERFACE_TYPES)
            yield Problem.of(pool, f"InterfaceType {kind} is none of {', '.join(_INTERFACE_TYPES)}{hint}")


@rule("GPU045", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html")
def nodes_outside_the_clusters_security_group(case: Case) -> Iterator[Problem]:
    """Nodes outside the cluster's security group.

    With security groups of its own a launch template does not get the cluster's, and the node cannot join.

    Fix: Add the cluster's ClusterSecurityGroupId to the groups of the launch template.
    """
    cluster = case.cluster
    for pool in launched_groups(cluster) if cluster.resource else []:
        groups = _security_groups(pool)
        if groups and all(_is_own(each, cluster) for each in groups) and not _are_let_in(groups, cluster):
            names = ", ".join(str(each) for each in groups)
            message = f"its nodes are in {names}, not in the cluster's security group"
            yield Problem.of(pool, message, unknown=any(isinstance(each, str) for each in groups))


def _security_groups(pool: Pool) -> list[Any]:
    found = [*items(pool.launch.security_groups.get("SecurityGroupIds"))]
    for each in pool.launch.interfaces:
        found += each.groups
    return list(dict.fromkeys(each for each in found if isinstance(each, (str, Unknown))))


def _is_own(group: Any, cluster: Cluster) -> bool:
    """Whether a security group is not the one that EKS makes with the cluster; an id may be copied from there."""
    if isinstance(group, str):
        return True
    resource = cluster.resources.get(group.resource or "")
    return resource is not None and resource.type == _GROUP


def _are_let_in(groups: list[Any], cluster: Cluster) -> bool:
    """Whether the control plane has one of the groups, or a rule joins it with a group of the control plane."""
    resource = cluster.resource
    given = items(dig(resource.properties, "ResourcesVpcConfig", "SecurityGroupIds")) if resource else []
    plane = [_start(each) for each in given] + ([f"${{{resource.key}."] if resource else [])
    mine = [_start(each) for each in groups]
    if any(each in plane for each in mine):
        return True
    rules = [str(each.ref()) + json.dumps(dict(each.properties), default=str) for each in cluster.resources_of(*_RULES)]
    return any(_names(rule, plane) and _names(rule, [*mine, "CidrIp"]) for rule in rules)


def _start(group: Any) -> str:
    """Return what each reference to a security group begins with."""
    return str(group).removesuffix("}").partition(".")[0]


def _names(rule: str, groups: list[str]) -> bool:
    return any(each in rule for each in groups)


@rule("GPU046", "error", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-instance-addressing.html")
def public_address_with_several_network_interfaces(case: Case) -> Iterator[Problem]:
    """Public address on an instance with several network interfaces.

    EC2 gives a public address only at the launch of one interface and refuses others.

    Fix: Remove AssociatePublicIpAddress and use private subnets with a NAT gateway or endpoints.
    """
    for pool in launched_groups(case.cluster):
        cards = pool.launch.interfaces
        if len(cards) > 1 and any(is_true(each.public) for each in cards):
            yield Problem.of(pool, f"a public address and {len(cards)} network interfaces")


@rule("GPU054", "error", source=_EFA)
def efa_interface_where_the_instance_type_takes_none(case: Case) -> Iterator[Problem]:
    """EFA interface where the instance type takes none.

    EC2 refuses the launch; of several types each must take every interface of the launch template.

    Fix: Give each group one type, and interfaces as EC2's table for that type has them.
    """
    for pool in case.gpu_groups:
        for row in (catalogue()[name] for name in gpu_types(pool)):
            why = _why_not(pool, row)
            if why:
                yield Problem.of(pool, f"{row.name} {why}", unknown=not surely_launches(pool, [row.name]))


def _why_not(pool: Pool, row: InstanceType) -> str | None:
    asked = [each for each in pool.launch.interfaces if each.is_efa]
    if not asked:
        return None
    if row.max_efa == 0:
        return "has no EFA"
    if row.max_efa is not None and len(asked) > row.max_efa:
        return f"takes {row.max_efa} EFA interfaces, the launch template has {len(asked)}"
    return next((why for each in asked if (why := _why_not_there(each, row))), None)


def _why_not_there(interface: Interface, row: InstanceType) -> str | None:
    index = known_number(interface.card)
    if (index, known_number(interface.device), interface.kind) == (0, 0, "efa-only"):
        # It has no address, so that whatever EC2 makes of it no node joins.
        return "takes no efa-only as its first interface"
    card = next((each for each in row.network_cards if each.index == index), None)
    if index is None or not row.network_cards:
        return None
    if card is None:
        return f"has no network card {index}"
    refused = card.types and interface.kind not in card.types
    return f"takes no {interface.kind} on network card {index}" if refused else None
