"""Purchase options of a pool's nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, get_args

from gpu_facts.hardware.catalogue import InstanceType
from gpu_facts.hardware.regions import is_reservation_id
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import (
    is_token,
    refuse_unless_bool,
    refuse_unless_instance,
    refuse_unless_whole_number,
    refuse_unless_zone,
    suggest_call,
)

# 182 days, in minutes.
# Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html
_LONGEST_BLOCK = 182 * 24 * 60
_GROUP_ARN = re.compile(r"arn:[\w-]+:resource-groups:[\w-]+:\d{12}:group/[\w+=,.@/:-]+", re.ASCII)


@named_arguments
@dataclass(frozen=True, slots=True)
class OnDemand:
    """Instances at the list price, from the capacity that EC2 has at that moment."""

    purchase_option: ClassVar[str] = "on-demand"
    managed_capacity_type: ClassVar[str] = "ON_DEMAND"
    karpenter_capacity_type: ClassVar[str] = "on-demand"
    availability_zone: ClassVar[None] = None


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Spot:
    """Spare instances at a discount. EC2 reclaims them with two minutes' notice.

    Attributes:
        checkpointed: Whether runs on these nodes save checkpoints, so that the loss of a node costs minutes, not the
            whole run. Pools for training accept spot only if it is set.

    Raises:
        TypeError: ``checkpointed`` isn't a ``bool``.
    """

    checkpointed: bool = False

    purchase_option: ClassVar[str] = "spot"
    managed_capacity_type: ClassVar[str] = "SPOT"
    karpenter_capacity_type: ClassVar[str] = "spot"
    availability_zone: ClassVar[None] = None

    def __post_init__(self) -> None:
        refuse_unless_bool("spot", "checkpointed", self.checkpointed)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """Instances of your own On-Demand Capacity Reservation.

    Attributes:
        availability_zone: Zone of the reservation, e.g. ``us-east-1a``. All nodes start in it.
        id: Reservation id, ``cr-`` and 17 hexadecimal digits.
        resource_group_arn: Resource group of reservations, instead of one id.

    Raises:
        ValueError: There is no reservation, there are two, or ``id`` is invalid.
    """

    availability_zone: str
    id: str | None = None
    resource_group_arn: str | None = None

    purchase_option: ClassVar[str] = "on-demand"
    managed_capacity_type: ClassVar[str] = "ON_DEMAND"
    karpenter_capacity_type: ClassVar[str] = "reserved"

    def __post_init__(self) -> None:
        if self.id is not None:
            _refuse_unless_reservation_id("reservation", self.id)
        zone: object = self.availability_zone
        if isinstance(zone, str) and zone.startswith("cr-"):
            raise ValueError(
                f"reservation: availability_zone must be a zone name such as 'us-east-1a', got {zone!r}; write "
                f"Reservation(id={zone!r}, availability_zone=...)"
            )
        refuse_unless_zone("reservation", "availability_zone", zone)
        if (self.id is None) == (self.resource_group_arn is None):
            raise ValueError(
                f"reservation: it must have either id or resource_group_arn, got {self.id!r} and "
                f"{self.resource_group_arn!r}; list yours with 'aws ec2 describe-capacity-reservations'"
            )
        group = self.resource_group_arn
        if group is not None and not is_token(group) and not (isinstance(group, str) and _GROUP_ARN.fullmatch(group)):
            raise ValueError(
                f"reservation: resource_group_arn must be the ARN of a resource group, got {group!r}; list yours with "
                "'aws resource-groups list-groups'"
            )


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class CapacityBlock:
    """A Capacity Block for ML: instances that you buy for a period of time.

    Before the period every launch fails. EC2 begins to terminate the instances 30 minutes before its end. EKS scales a
    managed node group to zero 40 minutes before the end.
    Source: https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html

    Attributes:
        id: Reservation id of the block, ``cr-`` and 17 hexadecimal digits.
        availability_zone: Zone of the block, e.g. ``us-east-1a``.
        starts: Start of the block, with time zone.
        ends: End of the block, with time zone.
        instances: Number of instances in the block.
        started: Set it when the block has begun. It leaves out the schedule that starts its nodes, because Auto Scaling
            rejects a time in the past. The deployment itself starts the nodes.
        drain_minutes: Time between the drain of the nodes and the end, in minutes. It must be more than the 40 minutes
            of EKS.

    Raises:
        TypeError: A time has no time zone.
        ValueError: The block is invalid, or it would be over before the drain.
    """

    id: str
    availability_zone: str
    starts: datetime
    ends: datetime
    instances: int
    started: bool = False
    drain_minutes: int = 60

    purchase_option: ClassVar[str] = "capacity-block"
    managed_capacity_type: ClassVar[str] = "CAPACITY_BLOCK"
    karpenter_capacity_type: ClassVar[str] = "reserved"

    def __post_init__(self) -> None:
        who = "capacity block"
        _refuse_unless_reservation_id(who, self.id)
        refuse_unless_zone(who, "availability_zone", self.availability_zone)
        refuse_unless_bool(who, "started", self.started)
        for argument, moment in (("starts", self.starts), ("ends", self.ends)):
            if not isinstance(moment, datetime) or moment.tzinfo is None:
                raise TypeError(
                    f"{who}: {argument} must be a datetime with time zone, got {moment!r}; "
                    "write datetime(2026, 12, 1, 11, 30, tzinfo=timezone.utc)"
                )
        refuse_unless_whole_number(who, "instances", self.instances, least=1)
        refuse_unless_whole_number(who, "drain_minutes", self.drain_minutes, least=41, most=_LONGEST_BLOCK)
        if self.ends - self.starts <= timedelta(minutes=self.drain_minutes):
            raise ValueError(
                f"{who}: ends must be more than {self.drain_minutes} minutes after starts, got {self.starts} and "
                f"{self.ends}; copy both from 'aws ec2 describe-capacity-reservations'"
            )

    @property
    def drained_at(self) -> datetime:
        """Time at which the nodes are drained."""
        return self.ends - timedelta(minutes=self.drain_minutes)

    @property
    def steps(self) -> list[tuple[str, datetime, int]]:
        """Changes of the number of nodes: name, time, and the number from this time on."""
        start = [] if self.started else [("Start", self.starts, self.instances)]
        return [*start, ("Drain", self.drained_at, 0)]


Capacity = OnDemand | Spot | Reservation | CapacityBlock
# Capacities without arguments, by their name in cdk.json.
CAPACITIES: dict[str, Capacity] = {each.purchase_option: each for each in (OnDemand(), Spot())}


def refuse_unless_capacity(who: object, capacity: object) -> None:
    """Reject a value that isn't a `Capacity`.

    Raises:
        TypeError: ``capacity`` is a class, a string or another type.
    """
    written = "OnDemand(), Spot(), Reservation(...) or CapacityBlock(...)"
    fix = ""
    if isinstance(capacity, (list, tuple)):
        first = capacity[0] if capacity else None
        fix = f"{suggest_call(first, written)}; only pools of Karpenter and Auto Mode accept a list"
    if isinstance(capacity, str) and capacity in CAPACITIES:
        fix = f"; write {type(CAPACITIES[capacity]).__name__}()"
    refuse_unless_instance(who, "capacity", capacity, get_args(Capacity), written, fix=fix)


def refuse_spot_for_training(who: object, purpose: str | None, capacity: Capacity) -> None:
    """Reject spot for runs that a lost node would end.

    Raises:
        ValueError: The pool is for training, and ``checkpointed`` isn't set.
    """
    if purpose == "training" and isinstance(capacity, Spot) and not capacity.checkpointed:
        raise ValueError(
            f"{who}: capacity must not be Spot() if the shape's purpose is 'training', got Spot(); write "
            "Spot(checkpointed=True) if the run continues from a checkpoint, because EC2 can reclaim a node at any "
            "time"
        )


def refuse_unless_sold(who: object, types: tuple[InstanceType, ...], capacities: Sequence[Capacity]) -> None:
    """Reject a type that EC2 doesn't sell with any of the capacities, and a capacity that fits none of the types.

    Raises:
        ValueError: EC2 doesn't sell a type this way, or one reservation would need several types.
    """
    asked = {each.purchase_option for each in capacities}
    kinds = ", ".join(type(each).__name__ for each in capacities)
    for each in types:
        if asked.isdisjoint(each.purchase_options):
            raise ValueError(
                f"{who}: capacity must be one that EC2 sells {each.name!r} with, {', '.join(each.purchase_options)}, "
                f"got {kinds}; choose one"
            )
    for capacity in capacities:
        if not any(capacity.purchase_option in each.purchase_options for each in types):
            raise ValueError(
                f"{who}: capacity must fit one of the instance types, got {type(capacity).__name__}; remove it"
            )
    names = ", ".join(each.name for each in types)
    if len(capacities) == 1 and isinstance(capacities[0], (Reservation, CapacityBlock)) and len(types) > 1:
        raise ValueError(f"{who}: shape must have only the reserved instance type, got {names}; remove the others")


def _refuse_unless_reservation_id(who: str, id: object) -> None:
    if not isinstance(id, str) or not (is_token(id) or is_reservation_id(id)):
        raise ValueError(
            f"{who}: id must be 'cr-' and 17 hexadecimal digits, got {id!r}; list yours with "
            "'aws ec2 describe-capacity-reservations'"
        )
