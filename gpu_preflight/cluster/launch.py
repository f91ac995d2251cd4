"""How much is known of what the nodes of a pool are launched with."""

from __future__ import annotations

from typing import Any

from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.reading.unknown import Unknown, choices, known_number

_RESERVATIONS = "capacityReservationSelectorTerms"


def is_visible(pool: Pool) -> bool:
    """Whether all that a pool's launch template or node class says is in the input; also of a managed group without."""
    if not pool.is_group:
        return bool(pool.launch)
    if pool.launch_resource is not None:
        return isinstance(pool.launch_resource.properties.get("LaunchTemplateData"), dict)
    if pool.kind == "managed":
        return pool.properties.get("LaunchTemplate") is None
    return bool(pool.launch)


def is_given(value: Any) -> bool:
    """Whether a property certainly has a value; ``Fn::If`` may choose ``AWS::NoValue``."""
    return bool(choices(value)) or (
        value is not None and not (isinstance(value, Unknown) and value.expression.startswith("${Fn::If "))
    )


def launched_groups(cluster: Cluster) -> list[Pool]:
    """Return the groups, those without GPUs included, whose launch template is in the input."""
    return [pool for pool in cluster.pools if pool.is_group and pool.launch and is_visible(pool)]


def is_capacity_known(pool: Pool) -> bool:
    """Whether it is known how the instances of a group are bought."""
    return not isinstance(pool.properties.get("CapacityType"), Unknown) and not isinstance(pool.launch.market, Unknown)


def is_reserved(pool: Pool) -> bool:
    """Whether the instances of a group come out of capacity that somebody reserved."""
    blocks = "capacity-block" in pool.capacity_types
    return blocks or pool.launch.reservation is not None or pool.launch.reservation_group is not None


def capacity_of(pool: Pool) -> tuple[str, ...]:
    """Return the capacity types that a pool's nodes may have: none is reserved where its class selects no reservation.

    Source: https://karpenter.sh/docs/tasks/odcrs/ (2026-11)
    """
    none = not pool.is_group and bool(pool.launch) and not pool.launch.written.get(_RESERVATIONS)
    return tuple(each for each in pool.capacity_types if not (none and each == "reserved"))


def is_one_hop(pool: Pool) -> bool:
    """Whether pods off the host's network cannot reach the metadata service; a managed group allows two hops."""
    if pool.kind in ("karpenter", "auto-mode"):
        return pool.launch.hop_limit in (None, 1)
    return known_number(pool.launch.hop_limit) == 1
