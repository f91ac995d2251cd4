"""Zones that EKS refuses for the subnets of a control plane."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_facts.control_plane_zones import REFUSED_ZONE_ID
from gpu_facts.light_patterns import regex
from gpu_preflight.case import Case
from gpu_preflight.cluster.references import referred, setting
from gpu_preflight.cluster.subnets import are_apart
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.unknown import Unknown, items
from gpu_preflight.rules.rule import Problem, rule

# A name such as us-east-1a is a region and a letter.
_NAME = regex(r"(.+-\d)[a-z]")


@rule("GPU294", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html", presumed=True)
def zone_that_eks_refuses_for_the_control_plane(case: Case) -> Iterator[Problem]:
    """Zone that EKS refuses for the control plane.

    CreateCluster fails. It is one zone by its id, and which name that is differs from account to account.

    Fix: Give the cluster subnets whose AvailabilityZoneId is another one; nodes may stay where they are.
    """
    cluster = case.cluster
    if cluster.resource is None:
        return
    subnets = items(setting(cluster, "ResourcesVpcConfig", "SubnetIds"))
    refused = [each for each in (_refused(subnet, cluster) for subnet in subnets) if each]
    surely = [zone for zone, sure in refused if sure]
    if surely:
        yield Problem(cluster.resource, f"cluster {cluster.name}: a subnet is in {surely[0]}")
    elif refused:
        text = f"cluster {cluster.name}: {len(refused)} of its subnets may be in {refused[0][0]}"
        fix = (
            "aws ec2 describe-availability-zones lists the id of each zone; name others, or leave availability_zones "
            "of gpu_vpc out, and a GpuCluster avoids this one"
        )
        yield Problem(cluster.resource, text, fix, unknown=True)


@rule("GPU385", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html", stops=False)
def control_plane_in_one_zone(case: Case) -> Iterator[Problem]:
    """Control plane in one zone.

    CreateCluster fails: EKS puts its interfaces into at least two Availability Zones.

    Fix: Give the cluster subnets in two zones or more; nodes may stay in one.
    """
    cluster = case.cluster
    listed = items(setting(cluster, "ResourcesVpcConfig", "SubnetIds")) if cluster.resource else []
    found = [referred(each, cluster.resources) for each in listed]
    zones = [each.properties.get("AvailabilityZone") if each else None for each in found]
    known = [each for each in zones if isinstance(each, (str, Unknown))]
    alike = len(known) == len(listed) > 1 and are_apart(known) is Answer.NO
    # A cluster on an Outpost is in one place.
    if cluster.resource is None or setting(cluster, "OutpostConfig") is not None or not alike:
        return
    unsure = any(each.conditional for each in found if each)
    yield Problem(cluster.resource, f"cluster {cluster.name}: its subnets are all in {zones[0]}", unknown=unsure)


def _refused(subnet: Any, cluster: Cluster) -> tuple[str, bool] | None:
    """Return the refused zone that a subnet is in, and whether that is sure; ``None`` where it is in none."""
    found = referred(subnet, cluster.resources)
    placed = found.properties if found else {}
    if isinstance(zone := placed.get("AvailabilityZoneId"), str):
        return (zone, found is not None and not found.conditional) if zone in REFUSED_ZONE_ID.values() else None
    name = placed.get("AvailabilityZone")
    named = _NAME.fullmatch(name) if isinstance(name, str) else None
    region = named[1] if named else cluster.resource.region if cluster.resource else None
    return (REFUSED_ZONE_ID[region], False) if region and region in REFUSED_ZONE_ID else None
