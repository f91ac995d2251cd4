"""CreateFleet of the kind that answers at once with instances, as Karpenter asks for.

Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateFleet.html
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_constructs.rehearsal.players.aws.api.operations import plays
from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal, Unplayed
from gpu_constructs.rehearsal.players.aws.api.requests import Request
from gpu_constructs.rehearsal.players.aws.ec2.launches import Launches, with_tags
from gpu_constructs.rehearsal.players.aws.ec2.sizes import Sizes
from gpu_constructs.rehearsal.players.aws.region import Region

# What an override changes of its template; the others only choose.
_CHANGES = ("InstanceType", "ImageId", "Placement", "BlockDeviceMappings")
_PRIORITIZED = ("prioritized", "capacity-optimized-prioritized")


class Fleets:
    """Fleets of type instant.

    Args:
        region: Where they are.
        launches: Who runs their instances.
        sizes: What stands for the prices of types.
    """

    def __init__(self, region: Region, launches: Launches, sizes: Sizes) -> None:
        self._region, self._launches, self._sizes = region, launches, sizes

    @plays("ec2", "CreateFleet")
    def create(self, request: Request) -> Mapping[str, Any]:
        """Launch instances in the first of the offered ways that has any, and say why the ways before it had none."""
        asked = request.parameters
        if asked.get("Type") != "instant":
            raise Unplayed(f"a fleet of type {asked.get('Type', 'maintain')}")
        target = asked["TargetCapacitySpecification"]
        lifecycle = str(target.get("DefaultTargetCapacityType") or "on-demand")
        fleet, errors = f"fleet-{uuid.uuid4()}", []
        for config, override in self._ways(asked, lifecycle):
            told = {"LaunchTemplateSpecification": config["LaunchTemplateSpecification"], "Overrides": override}
            try:
                instances = self._launch(asked, config, override, lifecycle, fleet)
            except AwsRefusal as refusal:
                errors.append(self._failed(told, refusal, lifecycle))
                continue
            launched = self._launched(told, instances, lifecycle)
            return {"FleetId": fleet, "Errors": errors, "Instances": [launched]}
        return {"FleetId": fleet, "Errors": errors, "Instances": []}

    def _ways(self, asked: Mapping[str, Any], lifecycle: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Yield template and override in the order in which the fleet tries them."""
        options = asked.get("SpotOptions" if lifecycle == "spot" else "OnDemandOptions", {})
        ways = [
            (config, override)
            for config in asked["LaunchTemplateConfigs"]
            for override in config.get("Overrides") or [{}]
        ]
        if options.get("AllocationStrategy") in _PRIORITIZED:
            return iter(sorted(ways, key=lambda way: float(way[1].get("Priority", "inf"))))
        return iter(
            sorted(ways, key=lambda way: self._sizes.of(way[1]["InstanceType"]) if "InstanceType" in way[1] else ())
        )

    def _launch(
        self, asked: Mapping[str, Any], config: Mapping[str, Any], override: dict[str, Any], lifecycle: str, fleet: str
    ) -> list[str]:
        data = self._launches.template(config["LaunchTemplateSpecification"])
        config["LaunchTemplateSpecification"].setdefault("LaunchTemplateId", _tag(data, "aws:ec2launchtemplate:id"))
        data |= {key: override[key] for key in _CHANGES if override.get(key)}
        if lifecycle == "spot":
            data["InstanceMarketOptions"] = {"MarketType": "spot"}
        elif lifecycle == "capacity-block":
            data["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
        for one in asked.get("TagSpecifications", ()):
            if one["ResourceType"] in ("instance", "volume"):
                data = with_tags(data, one["ResourceType"], {tag["Key"]: tag["Value"] for tag in one["Tags"]})
        data = with_tags(data, "instance", {"aws:ec2:fleet-id": fleet})
        subnet = override.get("SubnetId") or next(
            (one["SubnetId"] for one in data.get("NetworkInterfaces", ()) if one.get("SubnetId")), None
        )
        if subnet is None:
            raise Unplayed("a fleet without subnets")
        count = int(asked["TargetCapacitySpecification"]["TotalTargetCapacity"])
        override.setdefault("AvailabilityZone", self._launches.zone_of(subnet))
        override.setdefault("InstanceType", data["InstanceType"])
        return self._launches.launch(data, subnet=subnet, count=count)

    @staticmethod
    def _launched(told: dict[str, Any], instances: list[str], lifecycle: str) -> dict[str, Any]:
        return {
            "LaunchTemplateAndOverrides": told,
            "Lifecycle": "spot" if lifecycle == "spot" else "on-demand",
            "InstanceIds": instances,
            "InstanceType": told["Overrides"]["InstanceType"],
        }

    @staticmethod
    def _failed(told: dict[str, Any], refusal: AwsRefusal, lifecycle: str) -> dict[str, Any]:
        return {
            "LaunchTemplateAndOverrides": told,
            "Lifecycle": "spot" if lifecycle == "spot" else "on-demand",
            "ErrorCode": refusal.code,
            "ErrorMessage": refusal.message,
        }


def _tag(data: Mapping[str, Any], key: str) -> str:
    tags = next(one["Tags"] for one in data["TagSpecifications"] if one["ResourceType"] == "instance")
    return next(str(tag["Value"]) for tag in tags if tag["Key"] == key)
