"""Rules for EFA interfaces that pods can't use or that keep nodes from starting."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gpu_facts.charts import DRANET
from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.quantities import count
from gpu_facts.refusals import did_you_mean
from gpu_facts.resources import EFA, GPU, HUGE_PAGES
from gpu_preflight.case import Case
from gpu_preflight.cluster.network import (
    known_groups,
    lets_everything,
    pool_security_groups,
    rules,
    spans_zones,
    ways_out,
)
from gpu_preflight.cluster.pools import is_given, launched_groups
from gpu_preflight.cluster.references import referred, refers, setting
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.launch import Interface
from gpu_preflight.model.pod import Workload
from gpu_preflight.model.programs import programs
from gpu_preflight.model.software import DaemonSet
from gpu_preflight.node.nodes import gpu_types, miss, surely_launches
from gpu_preflight.reading.unknown import Unknown, dig, is_true, items, known_number, known_text, mapping
from gpu_preflight.rule import Problem, rule

_EFA_DOCS = "https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html"
_PAGES = (HUGE_PAGES, "hugepages-1Gi")
# Kinds whose pods are the processes of one job.
_DISTRIBUTED = ("MPIJob", "PyTorchJob", "TrainJob")
# Environment variables that select another network for NCCL.
_CHOSEN_NETWORK = ("NCCL_NET", "NCCL_NET_PLUGIN", "FI_PROVIDER")
_WAYS = {"Ingress": "in from", "Egress": "out to"}
# An efa-only interface has no address.
# Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/create-efa.html (2026-11)
_EFA_TYPES_DOCS = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html"
_INTERFACE_TYPES = ("interface", "efa", "efa-only")
_GROUP = "AWS::EC2::SecurityGroup"
_RULES = ("AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress", _GROUP)


def _pools(case: Case) -> list[Pool]:
    return [each for each in case.gpu_pools if each.launch.efa_interfaces]


@rule("GPU100", "error", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html")
def security_group_that_blocks_efa_between_nodes(case: Case) -> Iterator[Problem]:
    """Security group blocks EFA between nodes.

    EFA needs a security group that allows all traffic from and to itself. Without it, jobs on several nodes time out.

    Fix: Allow protocol -1 in and out with the group itself as source and destination.
    """
    cluster = case.cluster
    for pool in _pools(case):
        everyone = known_groups(pool_security_groups(pool, efa=True), cluster.resources)
        interfaces = [list(each.groups) for each in pool.launch.interfaces if each.is_efa and each.groups]
        sets = [everyone] if everyone else [known_groups(each, cluster.resources) for each in interfaces]
        others = [group for each in sets for group in each or ()]
        for groups in sets:
            lacking = [
                way for way in _WAYS if groups and not any(_opens(each, way, others, cluster) for each in groups)
            ]
            if groups and lacking:
                ways = " and ".join(_WAYS[each] for each in lacking)
                names = ", ".join(each.path for each in groups)
                text = f"security group {names} must allow all traffic {ways} itself for EFA"
                yield Problem.from_subject(pool, f"{text}, or jobs on several nodes time out")


def _opens(group: Any, way: str, groups: list[Any], cluster: Cluster) -> bool:
    """Whether a group allows all traffic between the nodes; true if its rules aren't known."""
    found = rules(group, way, cluster.resources)
    key = "SourceSecurityGroupId" if way == "Ingress" else "DestinationSecurityGroupId"
    return found is None or any(
        lets_everything(each) and _may_match_group(each.get(key), groups, cluster) for each in found
    )


def _may_match_group(reference: Any, groups: list[Any], cluster: Cluster) -> bool:
    unclear = isinstance(reference, Unknown) and referred(reference, cluster.resources) is None
    return unclear or any(refers(reference, each) for each in groups)


@rule("GPU101", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html")
def nothing_advertises_the_efa_interfaces_of_a_pool(case: Case) -> Iterator[Problem]:
    """No component advertises the EFA interfaces of a pool.

    Pods that request vpc.amazonaws.com/efa stay Pending, and the others use TCP.

    Fix: Install chart aws-efa-k8s-device-plugin with tolerations for the taints of the pool.
    """
    cluster = case.cluster
    plugins = [each for each in cluster.daemon_sets if EFA in each.advertises]
    for pool in _pools(case):
        if pool.kind == "auto-mode" or cluster.chart(DRANET):
            continue
        answers = [case.reaches(each, pool) for each in plugins]
        if all(each is Answer.NO for each in answers) and (plugins or cluster.shows_software):
            why = "; ".join(text for each in plugins if (text := _miss(each, pool, case)))
            reason = f": {why}" if why else ""
            have = count(pool.launch.efa_interfaces, "EFA interface")
            message = f"its nodes have {have} each, but no component advertises {EFA}{reason}"
            fix = next(filter(None, (miss(each, pool.taints, case.nodes(pool)).fix for each in plugins)), "")
            unknown = not plugins and not cluster.sees_programs
            yield Problem.from_subject(pool, message, fix=fix, unknown=unknown, doubt=cluster.doubt)


def _miss(daemon: DaemonSet, pool: Pool, case: Case) -> str:
    found = miss(daemon, pool.taints, case.nodes(pool))
    types = ", ".join(str(each.instance_type) for each in found.unselected[:4])
    return found.intolerance or (f"DaemonSet {daemon.name} doesn't select {types}" if types else "")


@rule("GPU102", "note", source=_EFA_DOCS)
def efa_without_huge_pages(case: Case) -> Iterator[Problem]:
    """Container requests EFA without huge pages.

    The EFA provider allocates its buffers from huge pages. Without them, it uses small pages and is slower.

    Fix: Add hugepages-2Mi: 5120Mi to the limits of the container, and memory to its requests.
    """
    for workload in case.cluster.workloads:
        for container in workload.containers:
            requested = container.names
            if EFA in requested and not any(each in requested for each in _PAGES):
                yield Problem.from_subject(workload, f"container {container.name} requests {EFA} but no hugepages-2Mi")


@rule("GPU103", "warning", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html")
def nodes_with_efa_in_several_availability_zones(case: Case) -> Iterator[Problem]:
    """Nodes with EFA are in several Availability Zones.

    EFA doesn't cross zones, so a job whose pods run in two zones hangs or is slow.

    Fix: Give the pool one subnet, and a placement group with strategy cluster.
    """
    for pool in _pools(case):
        answer = spans_zones(pool)
        # GPU053 reports placement groups in several zones.
        if pool.zones and answer is not Answer.NO and not dig(pool.launch.placement, "GroupName"):
            message = (
                f"its nodes with EFA may be in {len(set(pool.zones))} Availability Zones, but EFA doesn't cross zones"
            )
            yield Problem.from_subject(pool, message, unknown=answer is Answer.UNKNOWN)


# AWS uses a matching reservation in a placement group too, but maybe not all of it: eksctl-io/eksctl#7949 got 11 of 16.
# Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/limitations-placement-groups.html (2026-11)
@rule("GPU104", "warning", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/cr-cpg.html")
def placement_group_beside_a_reservation(case: Case) -> Iterator[Problem]:
    """Placement group doesn't match the reservation.

    EC2 must satisfy both: an instance of the reservation, near enough for the group. If the free ones are too far away,
    the launch fails with InsufficientInstanceCapacity.

    Fix: Remove the placement group, or create a new Capacity Reservation with PlacementGroupArn of this group (an
    existing one can't be moved).
    """
    for pool in case.gpu_pools:
        if not pool.launch.placement_group or not mapping(pool.launch.reservation_target):
            continue
        reservation = referred(pool.launch.reservation, case.cluster.resources)
        if reservation is None or not reservation.properties.get("PlacementGroupArn"):
            named = reservation.path if reservation else known_text(pool.launch.reservation) or ""
            placed = referred(pool.launch.placement_group, case.cluster.resources)
            group = placed.path if placed else known_text(pool.launch.placement_group) or ""
            message = (
                f"its Capacity Reservation {named}".rstrip()
                + f" wasn't created in its placement group {group}".rstrip()
                + ", so launches may fail although reserved instances are free"
            )
            yield Problem.from_subject(pool, message, unknown=reservation is None)


@rule("GPU105", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/create-managed-node-group.html")
def nodes_with_several_interfaces_in_public_subnets(case: Case) -> Iterator[Problem]:
    """Nodes with several interfaces are in public subnets.

    EC2 gives these nodes no public address, so they can't connect to a registry or to AWS.

    Fix: Put the pool into private subnets with a NAT gateway or endpoints.
    """
    cluster = case.cluster
    private = setting(cluster, "ResourcesVpcConfig", "EndpointPrivateAccess")
    endpoints = cluster.resources_of_type("AWS::EC2::VPCEndpoint")
    # Then nodes need no way out of the VPC.
    inside = is_true(private) and any("ecr.dkr" in str(each.properties.get("ServiceName")) for each in endpoints)
    for pool in _pools(case) if not inside else ():
        several = len(pool.launch.interfaces)
        if pool.is_group and several > 1 and ways_out(pool, cluster.resources) == {"internet gateway"}:
            message = f"nodes with {several} interfaces get no public address, "
            tail = "and their subnets have only an internet gateway, so they have no way out"
            yield Problem.from_subject(pool, message + tail, unknown=not cluster.whole or isinstance(private, Unknown))


@rule("GPU106", "error", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html#efa-instance-types")
def efa_interfaces_on_types_without_efa(case: Case) -> Iterator[Problem]:
    """EFA interfaces are configured for instance types without EFA.

    Every launch fails, and the pods stay Pending.

    Fix: Choose instance types with EFA, or remove the interfaces.
    """
    for pool in _pools(case):
        without = [each for each in gpu_types(pool) if not catalogue()[each].max_efa and not pool.is_group]
        if without and len(without) == len(gpu_types(pool)):
            count = pool.launch.efa_interfaces
            names = ", ".join(without[:4])
            message = f"{names} has no EFA, but its node class requests EFA (interfaces: {count}), so each launch fails"
            yield Problem.from_subject(pool, message)


@rule("GPU478", "warning", source=_EFA_DOCS)
def job_of_several_nodes_without_efa(case: Case) -> Iterator[Problem]:
    """Pods of a job on several nodes don't request EFA.

    NCCL then uses TCP between the nodes, which is many times slower than EFA, and the GPUs wait for the network.

    Fix: Set vpc.amazonaws.com/efa in limits to the number of EFA interfaces of a node.
    """
    if case.cluster.chart(DRANET):
        return
    for workload in case.gpu_workloads:
        pod = workload.pod
        if EFA in pod.requests or EFA in pod.open_requests or pod.claims or not _is_of_several_nodes(workload, case):
            continue
        if any(each in container.env for container in pod.containers or () for each in _CHOSEN_NETWORK):
            continue
        taking = case.candidate_nodes(workload)
        rows = [node.row for _, node in taking]
        gpus = pod.requests.get(GPU, 0)
        # Pods that use a part of a node may be on one node.
        whole = [row for row in rows if row is not None and row.max_efa and row.gpus == gpus]
        if rows and len(whole) == len(rows):
            names = ", ".join(dict.fromkeys(row.name for row in whole[:4]))
            most = max(row.max_efa or 0 for row in whole)
            enabled = all(pool.launch.efa_interfaces or pool.kind == "auto-mode" for pool, _ in taking)
            pools = "" if enabled else ", and the pool enables no EFA interface"
            text = (
                f"its pods communicate between nodes of {names} without EFA, of which a node has up to {most} "
                f"interfaces: they don't request {EFA}{pools}"
            )
            limit = f"Set {EFA} in limits to the number of EFA interfaces of a node"
            fix = "" if enabled else f"Add EFA interfaces and chart aws-efa-k8s-device-plugin to the pool. {limit}."
            yield Problem.from_subject(workload, text, fix=fix, unknown=any(not row.nvswitch for row in whole))


def _is_of_several_nodes(workload: Workload, case: Case) -> bool:
    """Whether a workload has several pods that exchange data all the time."""
    owner = workload.owner
    if owner.kind == "LeaderWorkerSet":
        return (known_number(dig(dict(owner.spec), "leaderWorkerTemplate", "size")) or 1) > 1
    pods = [each.replicas for each in case.cluster.owned_workloads(owner) if each.asks_for_gpu]
    if None not in pods and sum(each or 0 for each in pods) < 2:
        return False
    if owner.kind in _DISTRIBUTED:
        return True
    several = [each for one in workload.pod.containers or () for each in programs(one) if each.setting("nodes")]
    return any(not isinstance(each.nodes, int) or each.nodes > 1 for each in several)


@rule(
    "GPU044",
    "error",
    source="https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RequestLaunchTemplateData.html",
)
def security_groups_of_the_instance_beside_network_interfaces(case: Case) -> Iterator[Problem]:
    """Launch template sets security groups on the instance and on network interfaces.

    EC2 accepts security groups in only one place and rejects the launch.

    Fix: Move the groups to Groups of each network interface.
    """
    for pool in launched_groups(case.cluster):
        names = [name for name, groups in pool.launch.security_groups.items() if is_given(groups)]
        if names and pool.launch.interfaces:
            message = f"its launch template sets both {' and '.join(names)} and network interfaces, which EC2 rejects"
            yield Problem.from_subject(pool, message)


@rule(
    "GPU407",
    "error",
    source="https://docs.aws.amazon.com/AWSEC2/latest/APIReference/"
    "API_LaunchTemplateInstanceNetworkInterfaceSpecificationRequest.html",
)
def network_interface_of_a_type_that_ec2_does_not_know(case: Case) -> Iterator[Problem]:
    """Network interface has an unknown type.

    EC2 rejects the launch template or the launch, and the group gets no node.

    Fix: Set InterfaceType to interface, efa or efa-only.
    """
    for pool in launched_groups(case.cluster):
        kinds = [each.kind for each in pool.launch.interfaces]
        for kind in dict.fromkeys(each for each in kinds if isinstance(each, str) and each not in _INTERFACE_TYPES):
            hint = did_you_mean(kind, _INTERFACE_TYPES)
            text = f"InterfaceType must be one of {', '.join(_INTERFACE_TYPES)}, got {kind}{hint}"
            yield Problem.from_subject(pool, text)


@rule("GPU045", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html")
def nodes_outside_the_clusters_security_group(case: Case) -> Iterator[Problem]:
    """Nodes aren't in the cluster's security group.

    If a launch template has security groups, EKS doesn't add the cluster's security group, and the node can't join.

    Fix: Add the cluster's ClusterSecurityGroupId to the groups of the launch template.
    """
    cluster = case.cluster
    for pool in launched_groups(cluster) if cluster.resource else []:
        groups = _security_groups(pool)
        if groups and all(_is_own(each, cluster) for each in groups) and not _can_reach_control_plane(groups, cluster):
            names = ", ".join(str(each) for each in groups)
            message = (
                f"its nodes have only security group {names}, not the cluster's security group, so they can't join"
            )
            yield Problem.from_subject(pool, message, unknown=any(isinstance(each, str) for each in groups))


def _security_groups(pool: Pool) -> list[Any]:
    found = [*items(pool.launch.security_groups.get("SecurityGroupIds"))]
    for each in pool.launch.interfaces:
        found += each.groups
    return list(dict.fromkeys(each for each in found if isinstance(each, (str, Unknown))))


def _is_own(group: Any, cluster: Cluster) -> bool:
    """Whether a group isn't the security group that EKS creates for the cluster; an id may be a copy of it."""
    if isinstance(group, str):
        return True
    resource = cluster.resources.get(group.resource or "")
    return resource is not None and resource.type == _GROUP


def _can_reach_control_plane(groups: list[Any], cluster: Cluster) -> bool:
    """Whether the control plane has one of the groups, or a rule connects it with a group of the control plane."""
    resource = cluster.resource
    given = items(dig(resource.properties, "ResourcesVpcConfig", "SecurityGroupIds")) if resource else []
    plane = [_start(each) for each in given] + ([f"${{{resource.key}."] if resource else [])
    mine = [_start(each) for each in groups]
    if any(each in plane for each in mine):
        return True
    rules = [
        str(each.ref()) + json.dumps(dict(each.properties), default=str) for each in cluster.resources_of_type(*_RULES)
    ]
    return any(_names(rule, plane) and _names(rule, [*mine, "CidrIp"]) for rule in rules)


def _start(group: Any) -> str:
    """Return the common prefix of all references to a security group."""
    return str(group).removesuffix("}").partition(".")[0]


def _names(rule: str, groups: list[str]) -> bool:
    return any(each in rule for each in groups)


@rule("GPU046", "error", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-instance-addressing.html")
def public_address_with_several_network_interfaces(case: Case) -> Iterator[Problem]:
    """Instance with several network interfaces requests a public address.

    EC2 assigns a public address only to instances with one interface and rejects other launches.

    Fix: Remove AssociatePublicIpAddress and use private subnets with a NAT gateway or endpoints.
    """
    for pool in launched_groups(case.cluster):
        cards = pool.launch.interfaces
        if len(cards) > 1 and any(is_true(each.public) for each in cards):
            text = (
                f"its launch template requests a public address, which EC2 rejects with {len(cards)} network interfaces"
            )
            yield Problem.from_subject(pool, text)


@rule("GPU054", "error", source=_EFA_TYPES_DOCS)
def efa_interface_where_the_instance_type_takes_none(case: Case) -> Iterator[Problem]:
    """Instance type doesn't support the EFA interface.

    EC2 rejects the launch. If the group has several types, each type must support every interface of the launch
    template.

    Fix: Set the interfaces that EC2 documents for this type.
    """
    for pool in case.gpu_groups:
        for row in (catalogue()[name] for name in gpu_types(pool)):
            why, fix = _why_not(pool, row)
            if why:
                text = f"{row.name} {why}"
                yield Problem.from_subject(pool, text, fix=fix, unknown=not surely_launches(pool, [row.name]))


def _why_not(pool: Pool, row: InstanceType) -> tuple[str, str]:
    """Return why a type doesn't support the interfaces, and the fix; empty texts if it does."""
    requested = [each for each in pool.launch.interfaces if each.is_efa]
    if not requested:
        return "", ""
    if row.max_efa == 0:
        fix = "Remove the EFA interfaces from the launch template, or use an instance type with EFA."
        return "has no EFA, which the launch template requests", fix
    if row.max_efa is not None and len(requested) > row.max_efa:
        text = f"supports {row.max_efa} EFA interfaces, but the launch template has {len(requested)}"
        return text, f"Remove {len(requested) - row.max_efa} of the EFA interfaces from the launch template."
    found = ((why, _kind_fix(each, row)) for each in requested if (why := _why_not_there(each, row)))
    return next(found, ("", ""))


def _kind_fix(interface: Interface, row: InstanceType) -> str:
    """Return the types of interface that a network card supports; empty if the card doesn't exist."""
    index = known_number(interface.card)
    kinds = next((each.types for each in row.network_cards if each.index == index), ())
    first = (index, known_number(interface.device)) == (0, 0)
    possible = [each for each in kinds if not (first and each == "efa-only")]
    return f"Set InterfaceType on network card {index} to {' or '.join(possible)}." if possible else ""


def _why_not_there(interface: Interface, row: InstanceType) -> str | None:
    index = known_number(interface.card)
    if (index, known_number(interface.device), interface.kind) == (0, 0, "efa-only"):
        # The interface has no address, so no node joins.
        return "needs an address on its first interface, which is efa-only in the launch template"
    card = next((each for each in row.network_cards if each.index == index), None)
    if index is None or not row.network_cards:
        return None
    if card is None:
        return f"has no network card {index}, which the launch template uses"
    refused = card.types and interface.kind not in card.types
    return f"doesn't support {interface.kind} on network card {index}" if refused else None
