"""EFA interfaces that pods cannot use, or that keep nodes from coming up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_constructs.hardware.catalogue import catalogue
from gpu_constructs.preflight.answer import Answer
from gpu_constructs.preflight.model import EFA, Cluster, Pool
from gpu_constructs.preflight.node_selection import selection
from gpu_constructs.preflight.nodes import gpu_types, nodes_to_be, reaches
from gpu_constructs.preflight.references import referred, refers, setting
from gpu_constructs.preflight.routes import ways_out
from gpu_constructs.preflight.rules.rule import OutOfReach, Problem, Rule
from gpu_constructs.preflight.security_groups import groups_of, known_groups, lets_everything, rules
from gpu_constructs.preflight.taints import untolerated
from gpu_constructs.preflight.unknown import Unknown, dig, is_true, mapping, mappings

_EFA = "https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html"
_KINDS = ("efa", "efa-only")
_PAGES = ("hugepages-2Mi", "hugepages-1Gi")
_DRA_CHART = "aws-dranet"


def _interfaces(pool: Pool) -> int:
    """Return how many EFA interfaces a pool's launch template or node class asks for."""
    kinds = [each.get("InterfaceType") for each in mappings(pool.launch.get("NetworkInterfaces"))]
    kinds += [each.get("interfaceType") for each in mappings(pool.launch.get("networkInterfaces"))]
    return sum(each in _KINDS for each in kinds)


def _pools(cluster: Cluster) -> list[Pool]:
    return [each for each in cluster.gpu_pools if _interfaces(each)]


def _closed(cluster: Cluster) -> Iterator[Problem]:
    for pool in _pools(cluster):
        groups = known_groups(groups_of(pool, efa=True), cluster.resources)
        if groups is None:
            continue
        lacking = [
            way for way in ("Ingress", "Egress") if not any(_opens(each, way, groups, cluster) for each in groups)
        ]
        if lacking:
            ways = " and ".join({"Ingress": "in from", "Egress": "out to"}[each] for each in lacking)
            names = ", ".join(each.path for each in groups)
            yield Problem(pool.origin, f"pool {pool.name}: {names} does not let all traffic {ways} itself")


def _opens(group: Any, way: str, groups: list[Any], cluster: Cluster) -> bool:
    """Whether a group lets all traffic through between the nodes; where its rules are not known it may."""
    found = rules(group, way, cluster.resources)
    key = "SourceSecurityGroupId" if way == "Ingress" else "DestinationSecurityGroupId"
    return found is None or any(lets_everything(each) and _is_one_of(each.get(key), groups, cluster) for each in found)


def _is_one_of(reference: Any, groups: list[Any], cluster: Cluster) -> bool:
    unclear = isinstance(reference, Unknown) and referred(reference, cluster.resources) is None
    return unclear or any(refers(reference, each) for each in groups)


def _not_advertised(cluster: Cluster) -> Iterator[Problem]:
    plugins = [each for each in cluster.daemon_sets if EFA in each.advertises]
    for pool in _pools(cluster):
        if pool.kind == "auto-mode" or cluster.chart(_DRA_CHART):
            continue
        answers = [reaches(each, pool, cluster) for each in plugins]
        if all(each is Answer.NO for each in answers) and (plugins or cluster.sees_software):
            why = "; ".join(text for each in plugins if (text := _miss(each, pool, cluster)))
            told = f": {why}" if why else ""
            message = f"pool {pool.name}: nothing advertises {EFA}, its nodes have {_interfaces(pool)}{told}"
            yield Problem(pool.origin, message)


def _miss(daemon: Any, pool: Pool, cluster: Cluster) -> str:
    taints = [str(taint) for taint, answer in untolerated(daemon.pod, pool.taints, daemon=True) if answer is Answer.NO]
    if taints:
        return f"{daemon.name} does not tolerate {', '.join(taints)}"
    types = [each.instance_type for each in nodes_to_be(pool, cluster) if _is_refused(daemon, each)]
    return f"{daemon.name} does not select {', '.join(str(each) for each in types[:4])}" if types else ""


def _is_refused(daemon: Any, node: Any) -> bool:
    return selection(daemon.pod).takes(node.labels) is Answer.NO


def _no_pages(cluster: Cluster) -> Iterator[Problem]:
    for workload in cluster.workloads:
        for container in workload.containers:
            asked = {
                **mapping(dig(container, "resources", "requests")),
                **mapping(dig(container, "resources", "limits")),
            }
            if EFA in asked and not any(each in asked for each in _PAGES):
                name = container.get("name")
                message = f"{workload.name}: container {name} asks for {EFA} and for no hugepages-2Mi"
                yield Problem(workload.origin, message)


def _apart(cluster: Cluster) -> Iterator[Problem]:
    for pool in _pools(cluster):
        zones = set(pool.zones)
        # Of placement groups in several zones another rule speaks.
        if len(zones) > 1 and not dig(dict(pool.launch), "Placement", "GroupName"):
            sure = all(isinstance(each, str) or "Fn::GetAZs" in str(each) for each in zones)
            message = f"pool {pool.name}: its nodes with EFA may be in {len(zones)} Availability Zones"
            yield Problem(pool.origin, message, unknown=not sure)


def _grouped_and_reserved(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        placed = dig(dict(pool.launch), "Placement", "GroupName") or dig(dict(pool.launch), "Placement", "GroupId")
        target = mapping(dig(dict(pool.launch), "CapacityReservationSpecification", "CapacityReservationTarget"))
        if not placed or not target:
            continue
        reservation = referred(target.get("CapacityReservationId"), cluster.resources)
        if reservation is None or not reservation.properties.get("PlacementGroupArn"):
            message = f"pool {pool.name}: its reservation and its placement group must be in the same place"
            yield Problem(pool.origin, message, unknown=reservation is None)


def _public(cluster: Cluster) -> Iterator[Problem]:
    private = setting(cluster, "ResourcesVpcConfig", "EndpointPrivateAccess")
    endpoints = cluster.resources_of("AWS::EC2::VPCEndpoint")
    # Then nodes need no way out of the VPC.
    inside = is_true(private) and any("ecr.dkr" in str(each.properties.get("ServiceName")) for each in endpoints)
    for pool in _pools(cluster) if not inside else ():
        several = len(mappings(pool.launch.get("NetworkInterfaces")))
        if pool.is_group and several > 1 and ways_out(pool, cluster.resources) == {"internet gateway"}:
            message = f"pool {pool.name}: nodes with {several} interfaces get no public address, "
            tail = "and their subnets lead out by an internet gateway only"
            yield Problem(pool.origin, message + tail, unknown=not cluster.whole or isinstance(private, Unknown))


def _none_there(cluster: Cluster) -> Iterator[Problem]:
    for pool in _pools(cluster):
        without = [each for each in gpu_types(pool) if not catalogue()[each].max_efa and not pool.is_group]
        if without and len(without) == len(gpu_types(pool)):
            message = (
                f"pool {pool.name}: {', '.join(without[:4])} has no EFA, its node class asks for {_interfaces(pool)}"
            )
            yield Problem(pool.origin, message)


RULES = (
    Rule(
        id="GPU100",
        severity="error",
        title="Security group that blocks EFA between nodes",
        why="EFA passes only where a group allows all traffic from and to itself; jobs on several nodes time out.",
        source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html",
        fix="Allow protocol -1 in and out with the group itself as source and destination.",
        causes=("H1",),
        check=_closed,
    ),
    Rule(
        id="GPU101",
        severity="warning",
        title="Nothing advertises the EFA interfaces of a pool",
        why="Pods that ask for vpc.amazonaws.com/efa stay Pending, and the others use TCP.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html",
        fix="Install chart aws-efa-k8s-device-plugin with tolerations for the taints of the pool.",
        causes=("H2",),
        check=_not_advertised,
    ),
    Rule(
        id="GPU102",
        severity="note",
        title="EFA without huge pages",
        why="The provider of EFA takes its buffers from huge pages; without them it takes small ones, and is slower.",
        source=_EFA,
        fix="Add hugepages-2Mi: 5120Mi to the limits of the container, and memory to its requests.",
        causes=("H3",),
        check=_no_pages,
    ),
    Rule(
        id="GPU103",
        severity="warning",
        title="Nodes with EFA in several Availability Zones",
        why="EFA does not cross zones, so a job whose pods land in two of them hangs or is slow.",
        source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html",
        fix="Give the pool one subnet, and a placement group with strategy cluster.",
        causes=("H4", "P030"),
        check=_apart,
    ),
    Rule(
        id="GPU104",
        severity="warning",
        title="Placement group beside a reservation",
        why="EC2 must meet both; reserved instances outside the placement group are not used.",
        source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/cr-cpg.html",
        fix="Leave the placement group out, or make the reservation in it.",
        causes=("P031",),
        check=_grouped_and_reserved,
    ),
    Rule(
        id="GPU105",
        severity="error",
        title="Nodes with several interfaces in public subnets",
        why="EC2 gives them no public address, so they reach neither a registry nor AWS.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/create-managed-node-group.html",
        fix="Put the pool into private subnets with a NAT gateway or endpoints.",
        causes=("P032",),
        check=_public,
    ),
    Rule(
        id="GPU106",
        severity="error",
        title="EFA interfaces on types without EFA",
        why="Every launch fails, and the pods stay Pending.",
        source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html#efa-instance-types",
        fix="Choose instance types with EFA, or leave the interfaces out.",
        causes=("P034",),
        check=_none_there,
    ),
)
OUT_OF_REACH = (
    OutOfReach(
        "H5",
        "A placement group has no room for the nodes that are added later",
        "How much EC2 has left beside the running instances nobody says; launch together, or reserve.",
    ),
)
