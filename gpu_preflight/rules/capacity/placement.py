"""Placement groups."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preflight.case import Case
from gpu_preflight.cluster.subnets import spans_zones
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.reading.unknown import Unknown, dig
from gpu_preflight.rules.rule import Problem, rule


@rule("GPU053", "warning", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html")
def cluster_placement_group_over_several_zones(case: Case) -> Iterator[Problem]:
    """Cluster placement group over several zones.

    A cluster placement group lies in the zone of its first instance; launches in another zone fail.

    Fix: Give the group subnets of one zone, or each zone a pool with a placement group of its own.
    """
    for pool in case.gpu_groups:
        answer = spans_zones(pool)
        if _is_clustered(pool, case.cluster) and pool.zones and answer is not Answer.NO:
            message = f"a cluster placement group, and subnets in {len(set(pool.zones))} zones"
            yield Problem.of(pool, message, unknown=answer is Answer.UNKNOWN)


def _is_clustered(pool: Pool, cluster: Cluster) -> bool:
    placement = pool.launch.placement
    names = (dig(placement, "GroupName"), dig(placement, "GroupId"), pool.properties.get("PlacementGroup"))
    keys = [each.resource for each in names if isinstance(each, Unknown) and each.resource]
    groups = [cluster.resources[key] for key in keys if key in cluster.resources]
    return any(each.properties.get("Strategy") == "cluster" for each in groups)
