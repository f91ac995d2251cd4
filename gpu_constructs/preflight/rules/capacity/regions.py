"""Regions that do not offer an instance type, or that there are not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_constructs.facts.hardware.regions import is_unseen, region_hint, regions_as_of, zones_by_region
from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.model.cluster import Cluster, Pool
from gpu_constructs.preflight.node.nodes import gpu_types
from gpu_constructs.preflight.rules.rule import Problem, rule

# A zone is its region and a letter.
_ZONE = re.compile(r"([a-z]+(?:-[a-z]+)+-\d)[a-z]")
_MOST_REGIONS = 6


@rule("GPU271", "warning", source="https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-regions.html")
def instance_type_that_is_not_seen_in_the_region(case: Case) -> Iterator[Problem]:
    """Instance type that is not seen in the region.

    EKS refuses the node group, and Karpenter launches none of it; what AWS began to offer since is not known here.

    Fix: Take another region or type; aws ec2 describe-instance-type-offerings tells what is offered today.
    """
    for pool in case.gpu_pools:
        region, types = _region(pool, case.cluster), gpu_types(pool)
        unseen = [each for each in types if region and is_unseen(each, region)]
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


def _region(pool: Pool, cluster: Cluster) -> str | None:
    """Return the region of a pool: of its stack, of its cluster's, or of a zone that it names."""
    stacks = [each.region for each in (pool.resource, cluster.resource) if each and each.region]
    zones = [_ZONE.fullmatch(each) for each in pool.zones if isinstance(each, str)]
    return next(iter([*stacks, *(each[1] for each in zones if each)]), None)


@rule("GPU272", "warning", source="https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-regions.html")
def region_that_there_is_not(case: Case) -> Iterator[Problem]:
    """Region that there is not.

    The name is nearly one of a region; nothing can be deployed to it.

    Fix: Correct the name.
    """
    for pool in case.gpu_pools:
        region = _region(pool, case.cluster)
        if region and (hint := region_hint(region)):
            yield Problem.of(pool, f"AWS has no region {region}{hint}")
