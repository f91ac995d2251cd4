"""A launch: from a launch template and what overrides it to instances that run.

moto runs what it is told, but knows neither a template's version, tags, profile, interfaces nor purchase: they are
resolved here.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from botocore.exceptions import ClientError
from moto.ec2.exceptions import InvalidSubnetIdError

from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal
from gpu_constructs.rehearsal.players.aws.ec2.capacity import Capacity
from gpu_constructs.rehearsal.players.aws.ec2.notices import STATE, Notices
from gpu_constructs.rehearsal.players.aws.ec2.reservations import Reservation, Reservations
from gpu_constructs.rehearsal.players.aws.kept import kept_by_moto
from gpu_constructs.rehearsal.players.aws.region import Region

# What of a launch moto takes as it is.
_TAKEN = (
    "ImageId",
    "InstanceType",
    "KeyName",
    "EbsOptimized",
    "BlockDeviceMappings",
    "IamInstanceProfile",
    "MetadataOptions",
)
# What an instance of a market is, as DescribeInstances tells.
# Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Instance.html
_LIFECYCLES = {"spot": "spot", "capacity-block": "capacity-block"}


class Launches:
    """Whoever launches does it here: people, fleets and Auto Scaling groups.

    Args:
        region: Where.
        capacity: What is left to sell.
        reservations: What was bought before.
        notices: Who is told of instances.
    """

    def __init__(self, region: Region, capacity: Capacity, reservations: Reservations, notices: Notices) -> None:
        self._region, self._capacity, self._reservations, self._notices = region, capacity, reservations, notices

    def template(self, reference: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a version of a launch template says, with the tags that EC2 puts on its instances.

        Args:
            reference: ``LaunchTemplateId`` or ``LaunchTemplateName``, and ``Version``.

        Raises:
            AwsRefusal: There is no such template or version.
        """
        named = {key: reference[key] for key in ("LaunchTemplateId", "LaunchTemplateName") if reference.get(key)}
        versions = self._region.service("ec2").describe_launch_template_versions(
            **named, Versions=[str(reference.get("Version") or "$Default")]
        )["LaunchTemplateVersions"]
        if not versions:
            message = f"Could not find the launch template version {reference.get('Version')} of {named}"
            raise AwsRefusal("InvalidLaunchTemplateId.VersionNotFound", message)
        data = deepcopy(versions[0]["LaunchTemplateData"])
        # Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/create-launch-template.html
        told = {
            "aws:ec2launchtemplate:id": versions[0]["LaunchTemplateId"],
            "aws:ec2launchtemplate:version": str(versions[0]["VersionNumber"]),
        }
        return with_tags(data, "instance", told)

    def launch(self, data: Mapping[str, Any], *, subnet: str, count: int = 1) -> list[str]:
        """Run instances in a subnet and return their ids.

        Args:
            data: What they are, as data of a launch template.
            subnet: Where.
            count: How many.

        Raises:
            AwsRefusal: EC2 has none there, or a reservation is not to be spent.
        """
        zone = self.zone_of(subnet)
        kind, market = str(data["InstanceType"]), data.get("InstanceMarketOptions", {}).get("MarketType", "on-demand")
        self._offered(kind, zone)
        reservation = self._reservation(data, kind, zone)
        if reservation is None:
            self._capacity.check(kind, zone, market)
        instances = self._run(data, subnet, count)
        for identity in instances:
            self._complete(identity, data, market, reservation)
            self._notices.tell(STATE, identity, {"state": "running"})
        return instances

    def terminate(self, instances: list[str]) -> dict[str, Any]:
        """End instances, give back what they have spent, and return EC2's answer."""
        ended = self._region.service("ec2").terminate_instances(InstanceIds=instances)
        self._reservations.release(instances)
        for instance in instances:
            for state in ("shutting-down", "terminated"):
                self._notices.tell(STATE, instance, {"state": state})
        return {"TerminatingInstances": ended["TerminatingInstances"]}

    def zone_of(self, subnet: str) -> str:
        """Return the zone of a subnet."""
        try:
            return str(kept_by_moto(self._region).get_subnet(subnet).availability_zone)
        except InvalidSubnetIdError as error:
            raise AwsRefusal("InvalidSubnetID.NotFound", f"The subnet ID '{subnet}' does not exist") from error

    def _run(self, data: Mapping[str, Any], subnet: str, count: int) -> list[str]:
        asked = {key: data[key] for key in _TAKEN if data.get(key)}
        if data.get("UserData"):
            # A template has it encoded; the SDK encodes what is run.
            asked["UserData"] = base64.b64decode(data["UserData"]).decode()
        interfaces = data.get("NetworkInterfaces") or [{}]
        groups = interfaces[0].get("Groups") or data.get("SecurityGroupIds") or ()
        # One by one: of several moto gives the first alone its instance profile.
        return [self._run_one(asked, data, subnet, list(groups)) for _ in range(count)]

    def _run_one(self, asked: Mapping[str, Any], data: Mapping[str, Any], subnet: str, groups: list[str]) -> str:
        run = self._asked_of_moto(
            **asked,
            SubnetId=subnet,
            SecurityGroupIds=groups,
            TagSpecifications=[
                one for one in data.get("TagSpecifications", ()) if one["ResourceType"] in ("instance", "volume")
            ],
            MinCount=1,
            MaxCount=1,
        )
        return str(run["Instances"][0]["InstanceId"])

    def _asked_of_moto(self, **asked: Any) -> dict[str, Any]:
        try:
            return dict(self._region.service("ec2").run_instances(**asked))
        except ClientError as error:
            raise AwsRefusal(error.response["Error"]["Code"], error.response["Error"]["Message"]) from error

    def _complete(self, identity: str, data: Mapping[str, Any], market: str, reservation: Reservation | None) -> None:
        """Have moto tell of an instance what it did not take."""
        instance = kept_by_moto(self._region).get_instance(identity)
        instance.lifecycle = _LIFECYCLES.get(market)
        if market == "spot":
            instance.spot_instance_request_id = f"sir-{identity[-8:]}"
        if reservation is not None:
            reservation.used.add(identity)
            instance.capacity_reservation_id = reservation.id
            instance.capacity_reservation_specification = data["CapacityReservationSpecification"]
        for number, asked in enumerate(data.get("NetworkInterfaces", ())):
            self._interface(instance, number, asked)

    def _interface(self, instance: Any, number: int, asked: Mapping[str, Any]) -> None:
        kept = instance.nics.get(number)
        if kept is None:
            kept = kept_by_moto(self._region).create_network_interface(
                instance.subnet_id, None, group_ids=asked.get("Groups")
            )
            instance.attach_eni(kept, number)
        kept.interface_type = asked.get("InterfaceType") or "interface"

    def _offered(self, kind: str, zone: str) -> None:
        """Refuse a type that is not sold in a zone."""
        asked = {"location": [zone], "instance-type": [kind]}
        if not kept_by_moto(self._region).describe_instance_type_offerings("availability-zone", asked):
            message = (
                f"Your requested instance type ({kind}) is not supported in your requested Availability Zone ({zone})."
            )
            raise AwsRefusal("Unsupported", message)

    def _reservation(self, data: Mapping[str, Any], kind: str, zone: str) -> Reservation | None:
        target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
        identity = target.get("CapacityReservationId")
        return self._reservations.spendable(identity, kind, zone) if identity else None


def with_tags(data: Mapping[str, Any], resource: str, tags: Mapping[str, str]) -> dict[str, Any]:
    """Return data of a launch template whose resources of a kind have these tags too."""
    found = {
        one["ResourceType"]: {tag["Key"]: tag["Value"] for tag in one["Tags"]}
        for one in data.get("TagSpecifications", ())
    }
    found[resource] = found.get(resource, {}) | dict(tags)
    said = [
        {"ResourceType": kind, "Tags": [{"Key": k, "Value": v} for k, v in of.items()]} for kind, of in found.items()
    ]
    return dict(data) | {"TagSpecifications": said}
