"""Instance types and placement groups of a region, and fleets that choose among types."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from gpu_rehearsal.aws.api import AwsError, NotSimulated, Request, matching, simulates
from gpu_rehearsal.aws.launches import Launches, with_tags
from gpu_rehearsal.aws.region import Region, moto_ec2

_FILTERS = {"group-name": "GroupName", "state": "State", "strategy": "Strategy"}


class Catalogue:
    """Instance types, their prices, and placement groups of a region."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self._groups: dict[str, dict[str, Any]] = {}

    @simulates("ec2", "DescribeInstanceTypes")
    def types(self, request: Request) -> Mapping[str, Any]:
        """Return the requested types.

        Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypes.html
        """
        backend, parameters = moto_ec2(self._region), request.parameters.get("InstanceTypes") or []
        offered = {one["InstanceType"] for one in backend.describe_instance_type_offerings("region")}
        unknown = sorted(set(parameters) - offered)
        if unknown:
            message = f"The following supplied instance types do not exist: [{', '.join(unknown)}]"
            raise AwsError("InvalidInstanceType", message)
        found = backend.describe_instance_types(parameters, _filters(request))
        return {"InstanceTypes": [one for one in found if one["InstanceType"] in offered]}

    @simulates("ec2", "DescribeInstanceTypeOfferings")
    def offerings(self, request: Request) -> Mapping[str, Any]:
        """Return the offerings of types.

        Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypeOfferings.html
        """
        kind = request.parameters.get("LocationType", "region")
        return {
            "InstanceTypeOfferings": moto_ec2(self._region).describe_instance_type_offerings(kind, _filters(request))
        }

    @simulates("ec2", "DescribeCapacityReservations")
    def reservations(self, request: Request) -> Mapping[str, Any]:
        """Return no reservation, so that Karpenter launches On-Demand or Spot Instances."""
        if ids := request.parameters.get("CapacityReservationIds"):
            message = f"The capacity reservation '{ids[0]}' does not exist"
            raise AwsError("InvalidCapacityReservationId.NotFound", message)
        return {"CapacityReservations": []}

    @simulates("ec2", "DescribeSpotPriceHistory")
    def spot_prices(self, _: Request) -> Mapping[str, Any]:
        """Return no price, so that Karpenter uses its built-in prices. moto has the same price for every type.

        Source: https://github.com/aws/karpenter-provider-aws/blob/v1.14.1/pkg/providers/pricing/pricing.go
        """
        return {"SpotPriceHistory": []}

    @simulates("pricing", "GetProducts")
    def prices(self, _: Request) -> Mapping[str, Any]:
        """Return no price."""
        return {"FormatVersion": "aws_v1", "PriceList": []}

    @simulates("ec2", "CreatePlacementGroup")
    def create_group(self, request: Request) -> Mapping[str, Any]:
        """Create a placement group."""
        parameters, name = request.parameters, str(request.parameters["GroupName"])
        if name in self._groups:
            raise AwsError("InvalidPlacementGroup.Duplicate", f"The placement group '{name}' already exists.")
        tags = [tag for one in parameters.get("TagSpecifications", ()) for tag in one["Tags"]]
        self._groups[name] = {
            "GroupName": name,
            "GroupId": "pg-" + hashlib.sha256(name.encode()).hexdigest()[:17],
            "GroupArn": self._region.arn("ec2", f"placement-group/{name}"),
            "Strategy": parameters.get("Strategy", "cluster"),
            "State": "available",
            "Tags": tags,
        }
        return {"PlacementGroup": self._groups[name]}

    @simulates("ec2", "DescribePlacementGroups")
    def describe_groups(self, request: Request) -> Mapping[str, Any]:
        """Return the requested placement groups."""
        parameters = request.parameters
        names, ids = parameters.get("GroupNames"), parameters.get("GroupIds")
        unknown = [name for name in names or () if name not in self._groups]
        if unknown:
            raise AwsError("InvalidPlacementGroup.Unknown", f"The placement group '{unknown[0]}' is unknown.")
        found = [one for one in self._groups.values() if not names or one["GroupName"] in names]
        found = [one for one in found if not ids or one["GroupId"] in ids]
        return {"PlacementGroups": matching(found, parameters.get("Filters", ()), _FILTERS)}

    @simulates("ec2", "DeletePlacementGroup")
    def delete_group(self, request: Request) -> Mapping[str, Any]:
        """Delete a placement group."""
        self._groups.pop(str(request.parameters["GroupName"]), None)
        return {}


def _filters(request: Request) -> dict[str, list[str]]:
    return {one["Name"]: list(one["Values"]) for one in request.parameters.get("Filters", ())}


# Fields of an override that change the launch template. The others only choose.
_CHANGES = ("InstanceType", "ImageId", "Placement", "BlockDeviceMappings")
_PRIORITIZED = ("prioritized", "capacity-optimized-prioritized")


class Fleets:
    """Fleets of type instant, and instances of RunInstances."""

    def __init__(self, region: Region, launches: Launches) -> None:
        self._region, self._launches = region, launches
        self._size = cache(self._instance_size)

    def _instance_size(self, instance_type: str) -> tuple[int, int, int, str]:
        """Return GPUs, vCPUs and memory of a type. They replace prices in comparisons: larger types cost more."""
        found = moto_ec2(self._region).describe_instance_types([instance_type])[0]
        gpus = sum(one["Count"] for one in found.get("GpuInfo", {}).get("Gpus", ()))
        return gpus, found["VCpuInfo"]["DefaultVCpus"], found["MemoryInfo"]["SizeInMiB"], instance_type

    @simulates("ec2", "RunInstances")
    def run(self, request: Request) -> Mapping[str, Any]:
        """Run instances, with or without a launch template."""
        parameters = dict(request.parameters)
        if "UserData" in parameters and isinstance(parameters["UserData"], bytes):
            parameters["UserData"] = parameters["UserData"].decode()
        reference = parameters.pop("LaunchTemplate", None)
        data = (self._launches.template(reference) if reference else {}) | parameters
        for one in parameters.get("TagSpecifications", ()):
            data = with_tags(data, one["ResourceType"], {tag["Key"]: tag["Value"] for tag in one["Tags"]})
        subnet = data.get("SubnetId") or next((one.get("SubnetId") for one in data.get("NetworkInterfaces", ())), None)
        if subnet is None:
            raise NotSimulated("RunInstances without a subnet")
        ids = self._launches.launch(data, subnet=subnet, count=int(parameters["MinCount"]))
        return dict(self._region.moto_client("ec2").describe_instances(InstanceIds=ids)["Reservations"][0])

    @simulates("ec2", "TerminateInstances")
    def terminate(self, request: Request) -> Mapping[str, Any]:
        """Terminate instances."""
        return self._launches.terminate(list(request.parameters["InstanceIds"]))

    @simulates("ec2", "CreateFleet")
    def create(self, request: Request) -> Mapping[str, Any]:
        """Launch instances with the first override that has capacity, and return the errors of earlier overrides."""
        parameters = request.parameters
        if parameters.get("Type") != "instant":
            raise NotSimulated(f"a fleet of type {parameters.get('Type', 'maintain')}")
        target = parameters["TargetCapacitySpecification"]
        lifecycle = str(target.get("DefaultTargetCapacityType") or "on-demand")
        fleet, errors = f"fleet-{uuid.uuid4()}", []
        for config, override in self._ways(parameters, lifecycle):
            launched_from = {
                "LaunchTemplateSpecification": config["LaunchTemplateSpecification"],
                "Overrides": override,
            }
            try:
                instances = self._launch(parameters, config, override, lifecycle, fleet)
            except AwsError as error:
                errors.append(self._failed(launched_from, error, lifecycle))
                continue
            launched = self._launched(launched_from, instances, lifecycle)
            return {"FleetId": fleet, "Errors": errors, "Instances": [launched]}
        return {"FleetId": fleet, "Errors": errors, "Instances": []}

    def _ways(self, parameters: Mapping[str, Any], lifecycle: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Return templates and overrides in the order in which the fleet tries them."""
        options = parameters.get("SpotOptions" if lifecycle == "spot" else "OnDemandOptions", {})
        ways = [
            (config, override)
            for config in parameters["LaunchTemplateConfigs"]
            for override in config.get("Overrides") or [{}]
        ]
        if options.get("AllocationStrategy") in _PRIORITIZED:
            return iter(sorted(ways, key=lambda way: float(way[1].get("Priority", "inf"))))
        return iter(
            sorted(ways, key=lambda way: self._size(way[1]["InstanceType"]) if "InstanceType" in way[1] else ())
        )

    def _launch(
        self,
        parameters: Mapping[str, Any],
        config: Mapping[str, Any],
        override: dict[str, Any],
        lifecycle: str,
        fleet: str,
    ) -> list[str]:
        data = self._launches.template(config["LaunchTemplateSpecification"])
        config["LaunchTemplateSpecification"].setdefault("LaunchTemplateId", _tag(data, "aws:ec2launchtemplate:id"))
        data |= {key: override[key] for key in _CHANGES if override.get(key)}
        if lifecycle == "spot":
            data["InstanceMarketOptions"] = {"MarketType": "spot"}
        elif lifecycle == "capacity-block":
            data["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
        for one in parameters.get("TagSpecifications", ()):
            if one["ResourceType"] in ("instance", "volume"):
                data = with_tags(data, one["ResourceType"], {tag["Key"]: tag["Value"] for tag in one["Tags"]})
        data = with_tags(data, "instance", {"aws:ec2:fleet-id": fleet})
        subnet = override.get("SubnetId") or next(
            (one["SubnetId"] for one in data.get("NetworkInterfaces", ()) if one.get("SubnetId")), None
        )
        if subnet is None:
            raise NotSimulated("a fleet without subnets")
        count = int(parameters["TargetCapacitySpecification"]["TotalTargetCapacity"])
        override.setdefault("AvailabilityZone", self._launches.subnet_zone(subnet))
        override.setdefault("InstanceType", data["InstanceType"])
        return self._launches.launch(data, subnet=subnet, count=count)

    @staticmethod
    def _launched(launched_from: dict[str, Any], instances: list[str], lifecycle: str) -> dict[str, Any]:
        return {
            "LaunchTemplateAndOverrides": launched_from,
            "Lifecycle": "spot" if lifecycle == "spot" else "on-demand",
            "InstanceIds": instances,
            "InstanceType": launched_from["Overrides"]["InstanceType"],
        }

    @staticmethod
    def _failed(launched_from: dict[str, Any], error: AwsError, lifecycle: str) -> dict[str, Any]:
        return {
            "LaunchTemplateAndOverrides": launched_from,
            "Lifecycle": "spot" if lifecycle == "spot" else "on-demand",
            "ErrorCode": error.code,
            "ErrorMessage": error.message,
        }


def _tag(data: Mapping[str, Any], key: str) -> str:
    tags = next(one["Tags"] for one in data["TagSpecifications"] if one["ResourceType"] == "instance")
    return next(str(tag["Value"]) for tag in tags if tag["Key"] == key)
