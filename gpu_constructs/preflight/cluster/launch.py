"""What the launch template of a node group or an Auto Scaling group says, where it is in the input.

Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-ec2-launchtemplate-launchtemplatedata.html
"""

from __future__ import annotations

from typing import Any

from gpu_constructs.preflight.model.cluster import Cluster, Pool
from gpu_constructs.preflight.reading.unknown import Unknown, dig, mapping, mappings


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
    return value is not None and not (isinstance(value, Unknown) and value.expression.startswith("${Fn::If "))


def launched_groups(cluster: Cluster) -> list[Pool]:
    """Return the groups, those without GPUs included, whose launch template is in the input."""
    return [pool for pool in cluster.pools if pool.is_group and pool.launch and is_visible(pool)]


def interfaces(pool: Pool) -> list[dict[str, Any]]:
    """Return the network interfaces that a launch template lists."""
    return mappings(pool.launch.get("NetworkInterfaces"))


def market(pool: Pool) -> Any:
    """Return the market that a launch template buys on."""
    options = pool.launch.get("InstanceMarketOptions")
    return options if isinstance(options, Unknown) else dig(options, "MarketType")


def reservation(pool: Pool) -> Any:
    """Return the id of the capacity reservation that a launch template targets."""
    return _target(pool, "CapacityReservationId")


def reservation_group(pool: Pool) -> Any:
    """Return the resource group of capacity reservations that a launch template targets."""
    return _target(pool, "CapacityReservationResourceGroupArn")


def is_capacity_known(pool: Pool) -> bool:
    """Whether it is known how the instances of a group are bought."""
    return not isinstance(pool.properties.get("CapacityType"), Unknown) and not isinstance(market(pool), Unknown)


def is_reserved(pool: Pool) -> bool:
    """Whether the instances of a group come out of capacity that somebody reserved."""
    blocks = "capacity-block" in pool.capacity_types
    return blocks or reservation(pool) is not None or reservation_group(pool) is not None


def _target(pool: Pool, name: str) -> Any:
    specification = pool.launch.get("CapacityReservationSpecification")
    target = (
        specification if isinstance(specification, Unknown) else mapping(specification).get("CapacityReservationTarget")
    )
    return target if isinstance(target, Unknown) else dig(target, name)
