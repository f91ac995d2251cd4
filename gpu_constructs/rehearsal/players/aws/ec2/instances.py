"""RunInstances and TerminateInstances, with all that a launch template says.

Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RunInstances.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_constructs.rehearsal.players.aws.api.operations import plays
from gpu_constructs.rehearsal.players.aws.api.refusals import Unplayed
from gpu_constructs.rehearsal.players.aws.api.requests import Request
from gpu_constructs.rehearsal.players.aws.ec2.launches import Launches, with_tags
from gpu_constructs.rehearsal.players.aws.region import Region


class Instances:
    """Instances that somebody asks for one by one.

    Args:
        region: Where they run.
        launches: Who runs them.
    """

    def __init__(self, region: Region, launches: Launches) -> None:
        self._region, self._launches = region, launches

    @plays("ec2", "RunInstances")
    def run(self, request: Request) -> Mapping[str, Any]:
        """Run instances, of a launch template or not."""
        asked = dict(request.parameters)
        if "UserData" in asked and isinstance(asked["UserData"], bytes):
            asked["UserData"] = asked["UserData"].decode()
        reference = asked.pop("LaunchTemplate", None)
        data = (self._launches.template(reference) if reference else {}) | asked
        for one in asked.get("TagSpecifications", ()):
            data = with_tags(data, one["ResourceType"], {tag["Key"]: tag["Value"] for tag in one["Tags"]})
        subnet = data.get("SubnetId") or next((one.get("SubnetId") for one in data.get("NetworkInterfaces", ())), None)
        if subnet is None:
            raise Unplayed("RunInstances without a subnet")
        ids = self._launches.launch(data, subnet=subnet, count=int(asked["MinCount"]))
        return dict(self._region.service("ec2").describe_instances(InstanceIds=ids)["Reservations"][0])

    @plays("ec2", "TerminateInstances")
    def terminate(self, request: Request) -> Mapping[str, Any]:
        """End instances."""
        return self._launches.terminate(list(request.parameters["InstanceIds"]))
