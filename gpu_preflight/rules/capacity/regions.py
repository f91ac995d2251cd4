"""Regions and zones that do not offer an instance type, and regions that there are not."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.hardware.regions import (
    is_in_every_zone,
    is_unseen,
    region_hint,
    regions_as_of,
    zones_by_region,
)
from gpu_preflight.case import Case
from gpu_preflight.cluster.launch import is_reserved
from gpu_preflight.cluster.subnets import names_zone_ids, region_of
from gpu_preflight.node.nodes import gpu_types
from gpu_preflight.rules.rule import Problem, rule

_MOST_REGIONS = 6
# What a region has in some of its zones.
_SCARCE = ("p4", "p5", "p6")


@rule("GPU271", "warning", source="https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-regions.html")
def instance_type_that_is_not_seen_in_the_region(case: Case) -> Iterator[Problem]:
    """Instance type that is not seen in the region.

    EKS refuses the node group, and Karpenter launches none of it; what AWS began to offer since is not known here.

    Fix: Take another region or type; aws ec2 describe-instance-type-offerings tells what is offered today.
    """
    for pool in case.gpu_pools:
        region, types = region_of(pool, case.cluster), gpu_types(pool)
        unseen = [each for each in types if is_unseen(each, region)]
        # Karpenter launches the others.
        if unseen and (pool.is_group or len(unseen) == len(types)):
            message = f"{_listed(unseen)} was not seen in {region} on {regions_as_of()}{_elsewhere(unseen[0])}"
            yield Problem.of(pool, message)


def _listed(types: list[str]) -> str:
    more = f" and {len(types) - _MOST_REGIONS} more" if len(types) > _MOST_REGIONS else ""
    return ", ".join(types[:_MOST_REGIONS]) + more


def _elsewhere(name: str) -> str:
    regions = sorted(zones_by_region(name))
    return f"; {name} is in {', '.join(regions)}" if 0 < len(regions) <= _MOST_REGIONS else ""


@rule("GPU272", "warning", source="https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-regions.html")
def region_that_there_is_not(case: Case) -> Iterator[Problem]:
    """Region that there is not.

    The name is nearly one of a region; nothing can be deployed to it.

    Fix: Correct the name.
    """
    for pool in case.gpu_pools:
        region = region_of(pool, case.cluster)
        if region and (hint := region_hint(region)):
            yield Problem.of(pool, f"AWS has no region {region}{hint}")


@rule("GPU297", "note", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-discovery.html")
def zone_of_a_scarce_type_that_only_deployment_tells(case: Case) -> Iterator[Problem]:
    """Zone of a scarce type that only deployment tells.

    A region may have P4, P5 and P6 in some of its zones; in the others no node of them starts.

    Fix: Name zones of aws ec2 describe-instance-type-offerings --location-type availability-zone.
    """
    for pool in case.gpu_pools:
        region = region_of(pool, case.cluster) or ""
        types = [each for each in gpu_types(pool) if each.startswith(_SCARCE) and not is_in_every_zone(each, region)]
        named = any(isinstance(each, str) for each in pool.zones) or names_zone_ids(pool, case.cluster)
        # The zone of a reservation is known to whoever bought it.
        reserved = is_reserved(pool) or pool.capacity_types == ("reserved",)
        # Karpenter takes another type, and another zone.
        if types and len(types) == len(gpu_types(pool)) and not named and not reserved:
            where = ", ".join(zones_by_region(types[0]).get(region, ()))
            seen = f" ({types[0]} was seen in {where} on {regions_as_of()})" if where else ""
            yield Problem.of(pool, f"{_listed(types)} in zones that only deployment tells{seen}")
