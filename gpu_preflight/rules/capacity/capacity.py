"""How much capacity the pools need, and how easily EC2 has none."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.hardware.quotas import Quota, quota_of
from gpu_facts.resources import GPU
from gpu_preflight.case import Case
from gpu_preflight.cluster.launch import is_capacity_known, is_reserved, is_visible
from gpu_preflight.model.cluster import Pool
from gpu_preflight.node.nodes import gpu_types
from gpu_preflight.rules.rule import Problem, rule

# As many pools of spot instances EC2 should have to choose from; a type in a zone is one.
# Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-best-practices.html (2026-08)
_SPOT_POOLS = 3


@rule("GPU020", "note", source="https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html")
def ec2_quota_that_the_pools_need(case: Case) -> Iterator[Problem]:
    """EC2 quota that the pools need.

    Launches above the quota fail with VcpuLimitExceeded; new accounts have 0 for P and little for G.

    Fix: Compare with 'aws service-quotas get-service-quota --service-code ec2 --quota-code CODE'; ask for more.
    """
    demands: dict[Quota, dict[str, int | None]] = {}
    for pool in case.gpu_pools:
        for quota, rows in _counted(pool).items():
            demands.setdefault(quota, {})[pool.name] = _most_vcpus(pool, rows)
    for quota, pools in demands.items():
        yield Problem(case.cluster.resource or case.gpu_pools[0], _demand(quota, pools))


def _counted(pool: Pool) -> dict[Quota, list[InstanceType]]:
    """Return the types of a pool by the quota that they count against."""
    found: dict[Quota, list[InstanceType]] = {}
    for capacity in pool.capacity_types:
        for row in (catalogue()[name] for name in gpu_types(pool)):
            quota = quota_of(row, capacity)
            if quota is not None and row.vcpus is not None:
                found.setdefault(quota, []).append(row)
    return found


def _most_vcpus(pool: Pool, rows: list[InstanceType]) -> int | None:
    """Return how many vCPUs a pool may have at most; ``None`` where nothing that is known bounds it."""
    bounds = []
    if pool.max_nodes is not None:
        bounds.append(pool.max_nodes * max(row.vcpus or 0 for row in rows))
    if not pool.is_group and "cpu" in pool.limits:
        bounds.append(pool.limits["cpu"] // 1000)
    if not pool.is_group and GPU in pool.limits and all(row.ec2_gpus for row in rows):
        bounds.append(max(pool.limits[GPU] * (row.vcpus or 0) // row.ec2_gpus for row in rows))
    return min(bounds, default=None)


def _demand(quota: Quota, pools: dict[str, int | None]) -> str:
    bounded = {name: vcpus for name, vcpus in pools.items() if vcpus is not None}
    unbounded = [f"{name} without a known bound" for name in pools if name not in bounded]
    of = ", ".join(f"{name} {vcpus}" for name, vcpus in bounded.items())
    total = [f"up to {sum(bounded.values())} vCPUs ({of})"] if bounded else []
    return f"quota {quota.code}, {quota.name}: {', '.join([*total, *unbounded])}"


@rule("GPU021", "warning", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-best-practices.html")
def spot_with_too_little_to_choose_from(case: Case) -> Iterator[Problem]:
    """Spot with too little to choose from.

    When EC2 has no spare instance of that type in that zone, nothing launches and nothing else is tried.

    Fix: Add types with as many GPUs, or zones, until there are three; or an on-demand pool beside it.
    """
    for pool in case.gpu_pools:
        types, zones = gpu_types(pool), len(set(pool.zones))
        if pool.capacity_types == ("spot",) and 0 < len(types) * zones < _SPOT_POOLS:
            where = f"{_count(len(types), 'type')} in {_count(zones, 'zone')}"
            yield Problem.of(pool, f"spot of {where}, {', '.join(types)}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


@rule("GPU022", "note", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-launch.html")
def one_type_in_one_zone_without_a_reservation(case: Case) -> Iterator[Problem]:
    """One type in one zone, without a reservation.

    When EC2 has none free there (InsufficientInstanceCapacity), no node starts until it has again.

    Fix: Reserve the capacity, or add zones, or a second pool of another type.
    """
    for pool in case.gpu_pools:
        types = gpu_types(pool)
        bought = pool.capacity_types == ("on-demand",) and not (pool.is_group and _may_be_reserved(pool))
        if bought and len(types) == 1 and len(set(pool.zones)) == 1:
            yield Problem.of(pool, f"only {types[0]}, on demand, in one Availability Zone")


def _may_be_reserved(pool: Pool) -> bool:
    return not is_visible(pool) or not is_capacity_known(pool) or is_reserved(pool)
