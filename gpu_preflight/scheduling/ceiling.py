"""The most that pools can come to: GPUs, vCPU quota, and list price an hour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from gpu_facts.hardware.catalogue import InstanceType
from gpu_facts.hardware.prices import usd_per_hour
from gpu_facts.hardware.quotas import quota_of
from gpu_facts.light_dataclasses import dataclass
from gpu_preflight.model.cluster import Pool
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.scheduling.pool_limits import node_limit


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most that every GPU pool together can come to.

    Attributes:
        gpus: GPUs of the pools that have a bound.
        vcpus: Name and vCPUs of each quota that they need, by quota code.
        usd_per_hour: On-demand list price, US dollars an hour, of the pools that have a bound: in GovCloud its own,
            elsewhere that of us-east-1.
        unbounded: Pools without a bound.
        unpriced: Instance types without a list price.
    """

    gpus: int = 0
    vcpus: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    usd_per_hour: float = 0.0
    unbounded: tuple[str, ...] = ()
    unpriced: tuple[str, ...] = ()


def ceiling(pools: Iterable[tuple[Pool, tuple[NodeToBe, ...], str | None]]) -> Ceiling:
    """Return the ceiling of some pools, each with its nodes-to-be and its region."""
    parts = [_of_pool(*each) for each in pools]
    vcpus: dict[str, tuple[str, int]] = {}
    for part in parts:
        for code, (name, count) in part.vcpus.items():
            vcpus[code] = name, vcpus.get(code, (name, 0))[1] + count
    return Ceiling(
        gpus=sum(each.gpus for each in parts),
        vcpus=dict(sorted(vcpus.items())),
        usd_per_hour=round(sum(each.usd_per_hour for each in parts), 2),
        unbounded=tuple(name for each in parts for name in each.unbounded),
        unpriced=tuple(sorted({name for each in parts for name in each.unpriced})),
    )


def _of_pool(pool: Pool, nodes: tuple[NodeToBe, ...], region: str | None) -> Ceiling:
    limits = [(each.row, node_limit(pool, each)) for each in nodes]
    bounded = [(row, most) for row, most in limits if row is not None and most is not None]
    if any(most is None for row, most in limits if row is not None):
        return Ceiling(unbounded=(pool.name,))
    prices = {row.name: usd_per_hour(row, region) for row, _ in bounded}
    return Ceiling(
        gpus=max((row.gpus * most for row, most in bounded), default=0),
        vcpus=_vcpus(pool, bounded),
        usd_per_hour=max(((prices[row.name] or 0.0) * most for row, most in bounded), default=0.0),
        unpriced=tuple(row.name for row, most in bounded if most and prices[row.name] is None),
    )


def _vcpus(pool: Pool, bounded: Iterable[tuple[InstanceType, int]]) -> dict[str, tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    for row, most in bounded:
        for capacity_type in pool.capacity_types:
            quota = quota_of(row, capacity_type)
            if quota is not None and row.vcpus is not None and most:
                count = max(row.vcpus * most, found.get(quota.code, ("", 0))[1])
                found[quota.code] = quota.name, count
    return found
