"""EFA interfaces that pods cannot use, or that keep nodes from coming up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_facts.charts import DRANET
from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.resources import EFA, GPU, HUGE_PAGES
from gpu_preflight.case import Case
from gpu_preflight.cluster.references import referred, refers, setting
from gpu_preflight.cluster.security_groups import groups_of, known_groups, lets_everything, rules
from gpu_preflight.cluster.subnets import spans_zones, ways_out
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.programs import programs
from gpu_preflight.model.software import DaemonSet
from gpu_preflight.model.workload import Workload
from gpu_preflight.node.daemon_miss import miss
from gpu_preflight.node.nodes import gpu_types
from gpu_preflight.reading.unknown import Unknown, dig, is_true, known_number, mapping
from gpu_preflight.rules.rule import Problem, rule

_EFA = "https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html"
_PAGES = (HUGE_PAGES, "hugepages-1Gi")


def _pools(case: Case) -> list[Pool]:
    return [each for each in case.gpu_pools if each.launch.efa_interfaces]


# Kinds whose pods are the processes of one job.
_DISTRIBUTED = ("MPIJob", "PyTorchJob", "TrainJob")
# Variables by which a pod chooses another network for NCCL.
_CHOSEN_NETWORK = ("NCCL_NET", "NCCL_NET_PLUGIN", "FI_PROVIDER")
_WAYS = {"Ingress": "in from", "Egress": "out to"}


@rule("GPU100", "error", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html")
def security_group_that_blocks_efa_between_nodes(case: Case) -> Iterator[Problem]:
    """Security group that blocks EFA between nodes.

    EFA passes only where a group allows all traffic from and to itself; jobs on several nodes time out.

    Fix: Allow protocol -1 in and out with the group itself as source and destination.
    """
    cluster = case.cluster
    for pool in _pools(case):
        everyone = known_groups(groups_of(pool, efa=True), cluster.resources)
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
                yield Problem.of(pool, f"{names} does not let all traffic {ways} itself")


def _opens(group: Any, way: str, groups: list[Any], cluster: Cluster) -> bool:
    """Whether a group lets all traffic through between the nodes; where its rules are not known it may."""
    found = rules(group, way, cluster.resources)
    key = "SourceSecurityGroupId" if way == "Ingress" else "DestinationSecurityGroupId"
    return found is None or any(lets_everything(each) and _is_one_of(each.get(key), groups, cluster) for each in found)


def _is_one_of(reference: Any, groups: list[Any], cluster: Cluster) -> bool:
    unclear = isinstance(reference, Unknown) and referred(reference, cluster.resources) is None
    return unclear or any(refers(reference, each) for each in groups)


@rule("GPU101", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html")
def nothing_advertises_the_efa_interfaces_of_a_pool(case: Case) -> Iterator[Problem]:
    """Nothing advertises the EFA interfaces of a pool.

    Pods that ask for vpc.amazonaws.com/efa stay Pending, and the others use TCP.

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
            told = f": {why}" if why else ""
            message = f"nothing advertises {EFA}, its nodes have {pool.launch.efa_interfaces}{told}"
            yield Problem.of(pool, message, unknown=not plugins and not cluster.sees_programs)


def _miss(daemon: DaemonSet, pool: Pool, case: Case) -> str:
    found = miss(daemon, pool.taints, case.nodes(pool))
    types = ", ".join(str(each.instance_type) for each in found.unselected[:4])
    return found.intolerance or (f"{daemon.name} does not select {types}" if types else "")


@rule("GPU102", "note", source=_EFA)
def efa_without_huge_pages(case: Case) -> Iterator[Problem]:
    """EFA without huge pages.

    The provider of EFA takes its buffers from huge pages; without them it takes small ones, and is slower.

    Fix: Add hugepages-2Mi: 5120Mi to the limits of the container, and memory to its requests.
    """
    for workload in case.cluster.workloads:
        for container in workload.containers:
            asked = container.names
            if EFA in asked and not any(each in asked for each in _PAGES):
                yield Problem.of(workload, f"container {container.name} asks for {EFA} and for no hugepages-2Mi")


@rule("GPU103", "warning", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html")
def nodes_with_efa_in_several_availability_zones(case: Case) -> Iterator[Problem]:
    """Nodes with EFA in several Availability Zones.

    EFA does not cross zones, so a job whose pods land in two of them hangs or is slow.

    Fix: Give the pool one subnet, and a placement group with strategy cluster.
    """
    for pool in _pools(case):
        answer = spans_zones(pool)
        # Of placement groups in several zones another rule speaks.
        if pool.zones and answer is not Answer.NO and not dig(pool.launch.placement, "GroupName"):
            message = f"its nodes with EFA may be in {len(set(pool.zones))} Availability Zones"
            yield Problem.of(pool, message, unknown=answer is Answer.UNKNOWN)


@rule("GPU104", "warning", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/cr-cpg.html")
def placement_group_beside_a_reservation(case: Case) -> Iterator[Problem]:
    """Placement group beside a reservation.

    EC2 must meet both; reserved instances outside the placement group are not used.

    Fix: Leave the placement group out, or make the reservation in it.
    """
    for pool in case.gpu_pools:
        if not pool.launch.placement_group or not mapping(pool.launch.reservation_target):
            continue
        reservation = referred(pool.launch.reservation, case.cluster.resources)
        if reservation is None or not reservation.properties.get("PlacementGroupArn"):
            message = "its reservation and its placement group must be in the same place"
            yield Problem.of(pool, message, unknown=reservation is None)


@rule("GPU105", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/create-managed-node-group.html")
def nodes_with_several_interfaces_in_public_subnets(case: Case) -> Iterator[Problem]:
    """Nodes with several interfaces in public subnets.

    EC2 gives them no public address, so they reach neither a registry nor AWS.

    Fix: Put the pool into private subnets with a NAT gateway or endpoints.
    """
    cluster = case.cluster
    private = setting(cluster, "ResourcesVpcConfig", "EndpointPrivateAccess")
    endpoints = cluster.resources_of("AWS::EC2::VPCEndpoint")
    # Then nodes need no way out of the VPC.
    inside = is_true(private) and any("ecr.dkr" in str(each.properties.get("ServiceName")) for each in endpoints)
    for pool in _pools(case) if not inside else ():
        several = len(pool.launch.interfaces)
        if pool.is_group and several > 1 and ways_out(pool, cluster.resources) == {"internet gateway"}:
            message = f"nodes with {several} interfaces get no public address, "
            tail = "and their subnets lead out by an internet gateway only"
            yield Problem.of(pool, message + tail, unknown=not cluster.whole or isinstance(private, Unknown))


@rule("GPU106", "error", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html#efa-instance-types")
def efa_interfaces_on_types_without_efa(case: Case) -> Iterator[Problem]:
    """EFA interfaces on types without EFA.

    Every launch fails, and the pods stay Pending.

    Fix: Choose instance types with EFA, or leave the interfaces out.
    """
    for pool in _pools(case):
        without = [each for each in gpu_types(pool) if not catalogue()[each].max_efa and not pool.is_group]
        if without and len(without) == len(gpu_types(pool)):
            message = f"{', '.join(without[:4])} has no EFA, its node class asks for {pool.launch.efa_interfaces}"
            yield Problem.of(pool, message)


@rule("GPU478", "warning", source=_EFA)
def job_of_several_nodes_without_efa(case: Case) -> Iterator[Problem]:
    """Job runs on several nodes whose EFA its pods don't request.

    NCCL uses TCP between the nodes, which is many times slower than EFA, and the GPUs wait for the network.

    Fix: Request vpc.amazonaws.com/efa in limits, as many as the nodes have, and give the pool EFA interfaces and the
    chart aws-efa-k8s-device-plugin.
    """
    if case.cluster.chart(DRANET):
        return
    for workload in case.gpu_workloads:
        pod = workload.pod
        if EFA in pod.requests or EFA in pod.open_requests or pod.claims or not _is_of_several_nodes(workload, case):
            continue
        if any(each in container.env for container in pod.containers or () for each in _CHOSEN_NETWORK):
            continue
        taking = case.nodes_open_to(workload)
        rows = [node.row for _, node in taking]
        gpus = pod.requests.get(GPU, 0)
        # Pods that use a part of a node may be on one node.
        whole = [row for row in rows if row is not None and row.max_efa and row.gpus == gpus]
        if rows and len(whole) == len(rows):
            names = ", ".join(dict.fromkeys(row.name for row in whole[:4]))
            most = max(row.max_efa or 0 for row in whole)
            enabled = all(pool.launch.efa_interfaces or pool.kind == "auto-mode" for pool, _ in taking)
            pools = "" if enabled else ", and the pool has none"
            text = (
                f"its pods talk between nodes of {names}, which have up to {most} EFA interfaces, and request no {EFA}"
            )
            yield Problem.of(workload, f"{text}{pools}", unknown=any(not row.nvswitch for row in whole))


def _is_of_several_nodes(workload: Workload, case: Case) -> bool:
    """Whether the pods of a workload, as many as it has, exchange data all the time."""
    owner = workload.owner
    if owner.kind == "LeaderWorkerSet":
        return (known_number(dig(dict(owner.spec), "leaderWorkerTemplate", "size")) or 1) > 1
    pods = [each.replicas for each in case.cluster.workloads_of(owner) if each.asks_for_gpu]
    if None not in pods and sum(each or 0 for each in pods) < 2:
        return False
    if owner.kind in _DISTRIBUTED:
        return True
    several = [each for one in workload.pod.containers or () for each in programs(one) if each.setting("nodes")]
    return any(not isinstance(each.nodes, int) or each.nodes > 1 for each in several)
