"""Zones that there are not: of node groups, of the cluster's subnets, and of pods and their volumes."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.hardware.zones import is_elsewhere, is_no_zone, is_seen_zone, last_letter
from gpu_facts.labels import ZONE
from gpu_preflight.case import Case
from gpu_preflight.cluster.references import referred
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.label_values import Requirement
from gpu_preflight.model.node_selection import Selection
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.eksctl.groups import CLUSTER_SUBNET
from gpu_preflight.reading.unknown import Unknown
from gpu_preflight.rules.rule import Problem, rule
from gpu_preflight.scheduling.demand import Demand

_ZONES = "https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html"
_REGION = "${AWS::Region}"
# The region with the most zones, which has every letter that another has.
_MOST = "us-east-1"


@rule("GPU427", "error", source=_ZONES)
def zone_that_the_region_does_not_have(case: Case) -> Iterator[Problem]:
    """Zone that the region does not have.

    EC2 makes no subnet there and Auto Scaling no group, so that the deployment fails and no node starts.

    Fix: Name a zone of the region, as aws ec2 describe-availability-zones tells them.
    """
    cluster = case.cluster
    for pool in case.gpu_groups:
        for zone, region, unsure in _zones_of(pool, cluster):
            if (answer := _has_zone(region, zone)) is not Answer.YES:
                yield Problem.of(pool, f"is in {_nowhere(zone, region)}", unknown=unsure or answer is Answer.UNKNOWN)
    for subnet in _made_with(cluster):
        placed = _zone_of(subnet)
        answer = _has_zone(subnet.region, placed) if placed is not None else Answer.YES
        if cluster.resource is not None and answer is not Answer.YES:
            text = f"cluster {cluster.name}: {subnet.path} is in {_nowhere(placed, subnet.region)}"
            yield Problem(cluster.resource, text, unknown=subnet.conditional or answer is Answer.UNKNOWN)


def _nowhere(zone: str | Unknown | None, region: str | None) -> str:
    return f"zone {zone}, which {region or 'its region'} does not have{last_letter(str(zone))}"


def _made_with(cluster: Cluster) -> list[Resource]:
    """Return the subnets without which CloudFormation, or eksctl, does not make the cluster."""
    made, every = cluster.resource, cluster.resources_of("AWS::EC2::Subnet", CLUSTER_SUBNET)
    return [each for each in every if made is not None and each.file == made.file]


def _zones_of(pool: Pool, cluster: Cluster) -> Iterator[tuple[str | Unknown, str | None, bool]]:
    """Yield zones of a group, the region of each, and whether it is there under a condition only."""
    region = pool.resource.region if pool.resource else None
    conditional = bool(pool.resource and pool.resource.conditional)
    subnets = [found for each in pool.subnets if (found := referred(each, cluster.resources))]
    for subnet in subnets:
        if (zone := _zone_of(subnet)) is not None:
            yield zone, subnet.region, conditional or subnet.conditional
    for zone in () if subnets else pool.zones:
        yield zone, region, conditional


def _zone_of(subnet: Resource) -> str | Unknown | None:
    named = subnet.properties.get("AvailabilityZone") or subnet.properties.get("AvailabilityZoneId")
    return named if isinstance(named, (str, Unknown)) else None


def _has_zone(region: str | None, zone: str | Unknown) -> Answer:
    """Say whether a region has a zone of a name or an id; what only deployment tells may be one."""
    named = zone if isinstance(zone, str) else zone.expression.replace(_REGION, region or _MOST)
    if is_no_zone(named) or is_elsewhere(named, region):
        return Answer.NO
    return Answer.YES if is_seen_zone(named) else Answer.UNKNOWN


@rule("GPU428", "error", source=_ZONES)
def pod_in_a_zone_that_there_is_not(case: Case) -> Iterator[Problem]:
    """Pod in a zone that there is not.

    No node ever has that zone, whatever pools there are, and the pod stays Pending.

    Fix: Name a zone that there is.
    """
    told: dict[int, str] = {}
    for verdict in map(case.verdict, case.gpu_workloads):
        # Pods that are alike share what they ask for.
        key = id(verdict.demand)
        if key not in told:
            told[key] = _nowhere_of(verdict.demand)
        if text := told[key]:
            yield Problem.of(verdict.workload, f"{text}, and AWS has no such zone")


def _nowhere_of(wanted: Demand) -> str:
    """Return what a pod asks of a zone that there is not, nothing where it asks for none."""
    named, zones = _asked_nowhere(wanted.pod.selection), wanted.topology.zones
    if named is not None:
        return f"asks for {named}"
    return f"has a volume in {', '.join(zones)}" if zones and Requirement(ZONE, "In", zones).is_nowhere else ""


def _asked_nowhere(selection: Selection) -> Requirement | None:
    """Return the requirement of a zone that there is not; of several terms each must have one."""
    found = [each for each in selection.selector if each.is_nowhere]
    of_terms = [next((one for one in term.labels if one.is_nowhere), None) for term in selection.terms or ()]
    return next(iter([*found, *([] if None in of_terms else of_terms)]), None)
