"""Placement groups."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_constructs.preflight.answer import Answer
from gpu_constructs.preflight.launch import gpu_groups
from gpu_constructs.preflight.model import Cluster, Pool
from gpu_constructs.preflight.rules.rule import OutOfReach, Problem, Rule
from gpu_constructs.preflight.unknown import Unknown, dig
from gpu_constructs.preflight.zones import spans_zones


def _across_zones(cluster: Cluster) -> Iterator[Problem]:
    for pool in gpu_groups(cluster):
        answer = spans_zones(pool)
        if _is_clustered(pool, cluster) and pool.zones and answer is not Answer.NO:
            message = f"pool {pool.name}: a cluster placement group, and subnets in {len(set(pool.zones))} zones"
            yield Problem(pool.origin, message, unknown=answer is Answer.UNKNOWN)


def _is_clustered(pool: Pool, cluster: Cluster) -> bool:
    placement = dict(pool.launch).get("Placement")
    names = (dig(placement, "GroupName"), dig(placement, "GroupId"), pool.properties.get("PlacementGroup"))
    keys = [each.resource for each in names if isinstance(each, Unknown) and each.resource]
    groups = [cluster.resources[key] for key in keys if key in cluster.resources]
    return any(each.properties.get("Strategy") == "cluster" for each in groups)


RULES = (
    Rule(
        id="GPU053",
        severity="warning",
        title="Cluster placement group over several zones",
        why="A cluster placement group lies in the zone of its first instance; launches in another zone fail.",
        source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html",
        fix="Give the group subnets of one zone, or each zone a pool with a placement group of its own.",
        causes=("B17",),
        check=_across_zones,
    ),
)

OUT_OF_REACH = (
    OutOfReach(
        "B18",
        "The instance type cannot be launched into a cluster placement group.",
        "Every NVIDIA type can, says EC2's DescribeInstanceTypes (2026-08-02), so no GPU pool breaks this.",
    ),
)
