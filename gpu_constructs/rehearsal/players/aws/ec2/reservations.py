"""Capacity Reservations and Capacity Blocks: bought by nobody here, given by the stage.

Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CapacityReservation.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from gpu_constructs.rehearsal.players.aws.api.operations import plays
from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal
from gpu_constructs.rehearsal.players.aws.api.requests import Request
from gpu_constructs.rehearsal.players.aws.ec2.filters import matching
from gpu_constructs.rehearsal.players.aws.region import Region


@dataclass(kw_only=True)
class Reservation:
    """One reservation.

    Attributes:
        id: ``cr-...``.
        instance_type: What is reserved.
        zone: Where.
        count: How many.
        kind: ``default`` or ``capacity-block``.
        state: State that EC2 tells, e.g. ``scheduled``, ``active`` or ``expired``.
        end: When it ends, of a block.
        tags: Tags of it.
        used: Instances that spend it.
    """

    id: str
    instance_type: str
    zone: str
    count: int
    kind: str = "default"
    state: str = "active"
    end: datetime | None = None
    tags: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)


class Reservations:
    """The reservations of an account.

    Args:
        region: Where they are, and whose.
    """

    def __init__(self, region: Region) -> None:
        self._region = region
        self._reservations: dict[str, Reservation] = {}

    def add(self, reservation: Reservation) -> None:
        """Have a reservation."""
        self._reservations[reservation.id] = reservation

    def find(self, identity: str) -> Reservation:
        """Return a reservation.

        Raises:
            AwsRefusal: There is none.
        """
        if identity not in self._reservations:
            message = f"The capacity reservation '{identity}' does not exist"
            raise AwsRefusal("InvalidCapacityReservationId.NotFound", message)
        return self._reservations[identity]

    def spendable(self, identity: str, instance_type: str, zone: str) -> Reservation:
        """Return a reservation that an instance may spend.

        Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html

        Raises:
            AwsRefusal: It has not begun or is over, is for something else, or is spent.
        """
        found = self.find(identity)
        if (found.instance_type, found.zone) != (instance_type, zone):
            message = f"The capacity reservation {identity} is for {found.instance_type} in {found.zone}"
            raise AwsRefusal("InvalidParameterValue", f"{message}, not for {instance_type} in {zone}")
        if found.state != "active" or len(found.used) >= found.count:
            message = f"The requested reservation {identity} does not have sufficient compatible and available capacity"
            raise AwsRefusal("ReservationCapacityExceeded", f"{message} for this request.")
        return found

    def release(self, instances: list[str]) -> None:
        """Give back what terminated instances have spent."""
        for reservation in self._reservations.values():
            reservation.used.difference_update(instances)

    @plays("ec2", "DescribeCapacityReservations")
    def describe(self, request: Request) -> Mapping[str, Any]:
        """Return the reservations that are asked for."""
        identities = request.parameters.get("CapacityReservationIds")
        found = [self.find(one) for one in identities] if identities else list(self._reservations.values())
        told = [self._told(reservation) for reservation in found]
        return {"CapacityReservations": matching(told, request.parameters.get("Filters", ()), _FILTERS)}

    def _told(self, reservation: Reservation) -> dict[str, Any]:
        told = {
            "CapacityReservationId": reservation.id,
            "CapacityReservationArn": self._region.arn("ec2", f"capacity-reservation/{reservation.id}"),
            "OwnerId": self._region.account,
            "InstanceType": reservation.instance_type,
            "AvailabilityZone": reservation.zone,
            "TotalInstanceCount": reservation.count,
            "AvailableInstanceCount": reservation.count - len(reservation.used),
            "InstanceMatchCriteria": "targeted",
            "InstancePlatform": "Linux/UNIX",
            "Tenancy": "default",
            "State": reservation.state,
            "ReservationType": reservation.kind,
            "StartDate": datetime.now(timezone.utc),
            "EndDateType": "limited" if reservation.end else "unlimited",
            "Tags": [{"Key": key, "Value": value} for key, value in reservation.tags.items()],
        }
        return told | ({"EndDate": reservation.end} if reservation.end else {})


_FILTERS = {
    "state": "State",
    "owner-id": "OwnerId",
    "instance-type": "InstanceType",
    "availability-zone": "AvailabilityZone",
    "instance-match-criteria": "InstanceMatchCriteria",
    "reservation-type": "ReservationType",
}
