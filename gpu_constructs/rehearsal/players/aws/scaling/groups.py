"""The API of Auto Scaling.

moto's groups put all instances in one subnet, forget the version of their template, and never fail.
Source: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_Operations.html
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from fnmatch import fnmatchcase
from threading import RLock
from typing import Any

from gpu_constructs.rehearsal.players.aws.api.operations import plays
from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal, Unplayed
from gpu_constructs.rehearsal.players.aws.api.requests import Request
from gpu_constructs.rehearsal.players.aws.ec2.launches import Launches
from gpu_constructs.rehearsal.players.aws.region import Region
from gpu_constructs.rehearsal.players.aws.scaling.group import Group
from gpu_constructs.rehearsal.players.aws.scaling.told import told

_TOO_FEW = (
    "Terminating instance without replacement will violate group's min size constraint. Either set "
    "shouldDecrementDesiredCapacity flag to false or lower group's min size."
)


class Groups:
    """The Auto Scaling groups of a region.

    Args:
        region: Where they are.
        launches: Who runs their instances.
    """

    def __init__(self, region: Region, launches: Launches) -> None:
        self._region, self._launches = region, launches
        self._groups: dict[str, Group] = {}
        self._lock = RLock()

    def settle(self) -> None:
        """Have each group do what it has yet to do."""
        for group in list(self._groups.values()):
            group.settle(self._region, self._launches)

    def find(self, name: str) -> Group:
        """Return a group.

        Raises:
            AwsRefusal: There is none.
        """
        if name not in self._groups:
            raise AwsRefusal(
                "ValidationError", f"AutoScalingGroup name not found - AutoScalingGroup '{name}' not found"
            )
        return self._groups[name]

    def add(self, asked: Mapping[str, Any]) -> Group:
        """Make a group, as CreateAutoScalingGroup is asked to, and give it its instances.

        Raises:
            AwsRefusal: There is one of that name, or its sizes contradict each other.
        """
        name, minimum, maximum = str(asked["AutoScalingGroupName"]), int(asked["MinSize"]), int(asked["MaxSize"])
        policy = asked.get("MixedInstancesPolicy")
        template = asked.get("LaunchTemplate") or (policy or {}).get("LaunchTemplate", {}).get(
            "LaunchTemplateSpecification"
        )
        if not template:
            raise Unplayed("an Auto Scaling group without a launch template")
        with self._lock:
            if name in self._groups:
                raise AwsRefusal("AlreadyExists", f"AutoScalingGroup by this name already exists - {name}")
            group = Group(
                name=name,
                arn=self._region.arn("autoscaling", f"autoScalingGroup:{uuid.uuid4()}:autoScalingGroupName/{name}"),
                subnets=self._subnets(asked),
                template=dict(template),
                policy=policy,
                minimum=minimum,
                maximum=maximum,
                desired=int(asked.get("DesiredCapacity", minimum)),
                tags=[_tag(name, tag) for tag in asked.get("Tags", ())],
            )
            _check_sizes(group.minimum, group.desired, group.maximum)
            self._launches.template(group.template)
            self._groups[name] = group
        group.settle(self._region, self._launches)
        return group

    def resize(self, group: Group, *, minimum: int | None, desired: int | None, maximum: int | None) -> None:
        """Change the sizes of a group.

        Raises:
            AwsRefusal: They contradict each other.
        """
        smallest = group.minimum if minimum is None else minimum
        largest = group.maximum if maximum is None else maximum
        # Source: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_UpdateAutoScalingGroup.html
        wanted = min(max(group.desired, smallest), largest) if desired is None else desired
        _check_sizes(smallest, wanted, largest)
        group.minimum, group.desired, group.maximum, group.tries_after = smallest, wanted, largest, 0.0
        group.settle(self._region, self._launches)

    def remove(self, name: str) -> None:
        """End a group and its instances."""
        group = self.find(name)
        del self._groups[name]
        if group.members:
            group.terminate(self._launches, [member.id for member in group.members])

    @plays("autoscaling", "CreateAutoScalingGroup")
    def create(self, request: Request) -> Mapping[str, Any]:
        """Make a group."""
        self.add(request.parameters)
        return {}

    @plays("autoscaling", "UpdateAutoScalingGroup")
    def update(self, request: Request) -> Mapping[str, Any]:
        """Change sizes, template or subnets."""
        asked = request.parameters
        group = self.find(str(asked["AutoScalingGroupName"]))
        if asked.get("LaunchTemplate"):
            group.template = dict(asked["LaunchTemplate"])
        if asked.get("MixedInstancesPolicy"):
            group.policy = asked["MixedInstancesPolicy"]
        if asked.get("VPCZoneIdentifier"):
            group.subnets = self._subnets(asked)
        sizes = (asked.get("MinSize"), asked.get("DesiredCapacity"), asked.get("MaxSize"))
        self.resize(group, minimum=sizes[0], desired=sizes[1], maximum=sizes[2])
        return {}

    @plays("autoscaling", "DescribeAutoScalingGroups")
    def describe(self, request: Request) -> Mapping[str, Any]:
        """Return groups, those named or those with tags."""
        asked = request.parameters
        names = asked.get("AutoScalingGroupNames")
        found = [group for group in self._groups.values() if not names or group.name in names]
        found = [group for group in found if all(_passes(group, one) for one in asked.get("Filters", ()))]
        return {"AutoScalingGroups": [told(group) for group in found]}

    @plays("autoscaling", "DescribeAutoScalingInstances")
    def describe_instances(self, request: Request) -> Mapping[str, Any]:
        """Return instances with their groups."""
        wanted = request.parameters.get("InstanceIds")
        found = [
            one | {"AutoScalingGroupName": group.name}
            for group in self._groups.values()
            for one in told(group)["Instances"]
        ]
        return {"AutoScalingInstances": [one for one in found if not wanted or one["InstanceId"] in wanted]}

    @plays("autoscaling", "DescribeLaunchConfigurations")
    def describe_configurations(self, _: Request) -> Mapping[str, Any]:
        """Return none: launch configurations, which templates replaced, are not played."""
        return {"LaunchConfigurations": []}

    @plays("autoscaling", "DescribeScalingActivities")
    def describe_activities(self, request: Request) -> Mapping[str, Any]:
        """Return what groups did, newest first."""
        name = request.parameters.get("AutoScalingGroupName")
        groups = [self.find(str(name))] if name else list(self._groups.values())
        activities = sorted(
            (one for group in groups for one in group.activities), key=lambda one: one["StartTime"], reverse=True
        )
        return {"Activities": activities[: int(request.parameters.get("MaxRecords", 100))]}

    @plays("autoscaling", "SetDesiredCapacity")
    def set_desired(self, request: Request) -> Mapping[str, Any]:
        """Want another number of instances.

        Source: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_SetDesiredCapacity.html
        """
        group, wanted = (
            self.find(str(request.parameters["AutoScalingGroupName"])),
            int(request.parameters["DesiredCapacity"]),
        )
        if not group.minimum <= wanted <= group.maximum:
            limit = f"above max value {group.maximum}" if wanted > group.maximum else f"below min value {group.minimum}"
            message = f"New SetDesiredCapacity value {wanted} is {limit} for the AutoScalingGroup."
            raise AwsRefusal("ValidationError", message)
        self.resize(group, minimum=None, desired=wanted, maximum=None)
        return {}

    @plays("autoscaling", "TerminateInstanceInAutoScalingGroup")
    def terminate(self, request: Request) -> Mapping[str, Any]:
        """End one instance, and want one fewer or get another."""
        identity = str(request.parameters["InstanceId"])
        group = next((one for one in self._groups.values() if identity in {m.id for m in one.members}), None)
        if group is None:
            message = f"Instance Id not found - No managed instance found for instance ID: {identity}"
            raise AwsRefusal("ValidationError", message)
        with group.lock:
            if request.parameters["ShouldDecrementDesiredCapacity"]:
                if group.desired - 1 < group.minimum:
                    raise AwsRefusal(
                        "ValidationError", f"Currently, desiredSize equals minSize ({group.minimum}). {_TOO_FEW}"
                    )
                group.desired -= 1
            activity = group.terminate(self._launches, [identity])
        return {"Activity": activity}

    @plays("autoscaling", "CreateOrUpdateTags")
    def tag(self, request: Request) -> Mapping[str, Any]:
        """Put tags on groups."""
        for tag in request.parameters["Tags"]:
            group = self.find(str(tag["ResourceId"]))
            kept = [one for one in group.tags if one["Key"] != tag["Key"]]
            group.tags = [*kept, _tag(group.name, tag)]
        return {}

    @plays("autoscaling", "DeleteAutoScalingGroup")
    def delete(self, request: Request) -> Mapping[str, Any]:
        """End a group, with its instances when that is forced."""
        group = self.find(str(request.parameters["AutoScalingGroupName"]))
        if group.members and not request.parameters.get("ForceDelete"):
            message = "You cannot delete an AutoScalingGroup while there are instances"
            raise AwsRefusal("ResourceInUse", f"{message} or pending Spot instance request(s) still in the group.")
        self.remove(group.name)
        return {}

    def _subnets(self, asked: Mapping[str, Any]) -> dict[str, str]:
        identities = [one for one in str(asked.get("VPCZoneIdentifier") or "").split(",") if one]
        if not identities:
            raise Unplayed("an Auto Scaling group without subnets")
        return {self._launches.zone_of(one): one for one in identities}


def _tag(group: str, tag: Mapping[str, Any]) -> dict[str, Any]:
    return {"ResourceId": group, "ResourceType": "auto-scaling-group", "PropagateAtLaunch": False, "Value": ""} | dict(
        tag
    )


def _check_sizes(minimum: int, desired: int, maximum: int) -> None:
    if not minimum <= desired <= maximum:
        message = f"Desired capacity:{desired} must be between the specified min size:{minimum} and max size:{maximum}"
        raise AwsRefusal("ValidationError", message)


def _passes(group: Group, one: Mapping[str, Any]) -> bool:
    tags, name, wanted = {tag["Key"]: str(tag["Value"]) for tag in group.tags}, str(one["Name"]), one["Values"]
    if name == "tag-key":
        return any(fnmatchcase(key, pattern) for key in tags for pattern in wanted)
    if name.startswith("tag:"):
        return name[4:] in tags and any(fnmatchcase(tags[name[4:]], pattern) for pattern in wanted)
    raise Unplayed(f"the filter {name} of Auto Scaling groups")
