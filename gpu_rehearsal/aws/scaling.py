"""Auto Scaling groups that launch instances zone by zone and type by type, and fail if EC2 rejects the launches.

moto's groups put all instances in one subnet, forget the version of their template, and never fail.
Source: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_Operations.html
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from threading import RLock
from typing import Any

from gpu_rehearsal.aws.api import AwsError, NotSimulated, Request, matching, simulates
from gpu_rehearsal.aws.launches import Launches, with_tags
from gpu_rehearsal.aws.region import Region, moto_ec2

# Delay before a group retries after a failed launch. AWS doesn't document it.
RETRY_SECONDS = 10.0
_ALIVE = ("pending", "running")


@dataclass(kw_only=True)
class _Member:
    """An instance of a group.

    Attributes:
        id: Its id.
        instance_type: Its type.
        zone: Its Availability Zone.
        template: Launch template and version of its launch.
    """

    id: str
    instance_type: str
    zone: str
    template: dict[str, Any]


@dataclass(kw_only=True)
class Group:
    """An Auto Scaling group.

    Attributes:
        arn: Its ARN.
        subnets: Its subnets, by zone.
        template: Launch template, in the API's format.
        policy: Mixed instances policy, if any.
        minimum: Min size.
        maximum: Max size.
        desired: Desired capacity.
        tags: Tags, in the API's format.
        members: Its instances.
        activities: Its activities, newest first.
    """

    name: str
    arn: str
    subnets: dict[str, str]
    template: dict[str, Any]
    policy: dict[str, Any] | None
    minimum: int
    maximum: int
    desired: int
    tags: list[dict[str, Any]]
    members: list[_Member] = field(default_factory=list)
    activities: list[dict[str, Any]] = field(default_factory=list)
    created: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    lock: RLock = field(default_factory=RLock)
    tries_after: float = 0.0

    def settle(self, region: Region, launches: Launches) -> None:
        """Launch or terminate instances to reach the desired capacity, as far as EC2 has capacity."""
        with self.lock:
            self._forget_ended(region)
            surplus = len(self.members) - self.desired
            if surplus > 0:
                self.terminate(launches, [member.id for member in self._surplus(surplus)])
            while len(self.members) < self.desired and time.monotonic() >= self.tries_after:
                if not self._grow(launches):
                    self.tries_after = time.monotonic() + RETRY_SECONDS

    def terminate(self, launches: Launches, instances: list[str]) -> dict[str, Any]:
        """Terminate instances of the group, and return the activity."""
        launches.terminate(instances)
        self.members = [member for member in self.members if member.id not in instances]
        for instance in instances[:-1]:
            self._record_activity(f"Terminating EC2 instance: {instance}", "Successful")
        return self._record_activity(f"Terminating EC2 instance: {instances[-1]}", "Successful")

    def _forget_ended(self, region: Region) -> None:
        """Remove instances that were terminated by another caller."""
        backend = moto_ec2(region)
        alive = {member.id for member in self.members if backend.get_instance(member.id).state in _ALIVE}
        self.members = [member for member in self.members if member.id in alive]

    def _surplus(self, count: int) -> list[_Member]:
        """Return the instances to terminate: the oldest ones in the zones with most instances.

        Source: https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-termination-policies.html
        """
        left, found = list(self.members), []
        for _ in range(count):
            zones = Counter(member.zone for member in left)
            member = max(left, key=lambda one: zones[one.zone])
            left.remove(member)
            found.append(member)
        return found

    def _grow(self, launches: Launches) -> bool:
        """Launch one instance, with the first override and zone that have capacity.

        Source: https://docs.aws.amazon.com/autoscaling/ec2/userguide/auto-scaling-benefits.html
        """
        errors = []
        for override in self._overrides():
            for zone in self._zones():
                try:
                    self._launch(launches, zone, override)
                except AwsError as error:
                    errors.append(error)
                else:
                    return True
        last = errors[-1]
        message = f"{last.message} Launching EC2 instance failed."
        self._record_activity(
            "Launching a new EC2 instance.  Status Reason: " + message, "Failed", code=last.code, message=message
        )
        return False

    def _launch(self, launches: Launches, zone: str, override: Mapping[str, Any]) -> None:
        reference = override.get("LaunchTemplateSpecification") or self.template
        data = launches.template(reference)
        if override.get("InstanceType"):
            data["InstanceType"] = override["InstanceType"]
        if self._buys_spot():
            data["InstanceMarketOptions"] = {"MarketType": "spot"}
        propagated = {tag["Key"]: tag["Value"] for tag in self.tags if tag.get("PropagateAtLaunch")}
        data = with_tags(data, "instance", propagated | {"aws:autoscaling:groupName": self.name})
        (identity,) = launches.launch(data, subnet=self.subnets[zone])
        member = _Member(id=identity, instance_type=data["InstanceType"], zone=zone, template=dict(reference))
        self.members.append(member)
        self._record_activity(f"Launching a new EC2 instance: {identity}", "Successful")

    def _overrides(self) -> list[dict[str, Any]]:
        return list((self.policy or {}).get("LaunchTemplate", {}).get("Overrides") or [{}])

    def _zones(self) -> Iterator[str]:
        """Return the zones, the ones with fewest instances first."""
        counted = Counter(member.zone for member in self.members)
        return iter(sorted(self.subnets, key=lambda zone: (counted[zone], zone)))

    def _buys_spot(self) -> bool:
        distribution = (self.policy or {}).get("InstancesDistribution", {})
        base = int(distribution.get("OnDemandBaseCapacity", 0))
        above = int(distribution.get("OnDemandPercentageAboveBaseCapacity", 100))
        return above == 0 and len(self.members) >= base

    def _record_activity(self, what: str, status: str, *, code: str = "", message: str = "") -> dict[str, Any]:
        now = datetime.now(timezone.utc)
        activity = {
            "ActivityId": str(uuid.uuid4()),
            "AutoScalingGroupName": self.name,
            "AutoScalingGroupARN": self.arn,
            "Description": what,
            "Cause": f"At {now:%Y-%m-%dT%H:%M:%SZ} a difference between desired and actual capacity was found.",
            "StartTime": now,
            "EndTime": now,
            "StatusCode": status,
            "StatusMessage": message or None,
            "Progress": 100,
        }
        self.activities.insert(0, activity)
        return activity


def _describe_group(group: Group) -> dict[str, Any]:
    """Return the API's description of a group."""
    template = {"MixedInstancesPolicy": group.policy} if group.policy else {"LaunchTemplate": group.template}
    return {
        "AutoScalingGroupName": group.name,
        "AutoScalingGroupARN": group.arn,
        "MinSize": group.minimum,
        "MaxSize": group.maximum,
        "DesiredCapacity": group.desired,
        "DefaultCooldown": 300,
        "AvailabilityZones": list(group.subnets),
        "VPCZoneIdentifier": ",".join(group.subnets.values()),
        "HealthCheckType": "EC2",
        "HealthCheckGracePeriod": 15,
        "CreatedTime": group.created,
        "Instances": [_member(member) for member in group.members],
        "SuspendedProcesses": [],
        "Tags": group.tags,
        "TerminationPolicies": ["Default"],
    } | template


def _member(member: _Member) -> dict[str, Any]:
    return {
        "InstanceId": member.id,
        "InstanceType": member.instance_type,
        "AvailabilityZone": member.zone,
        "LifecycleState": "InService",
        "HealthStatus": "Healthy",
        "LaunchTemplate": member.template,
        "ProtectedFromScaleIn": False,
    }


# Supported parameters of an update.
_UPDATED = {"AutoScalingGroupName", "LaunchTemplate", "MixedInstancesPolicy", "VPCZoneIdentifier"} | {
    *("MinSize", "MaxSize", "DesiredCapacity")
}
_TOO_FEW = (
    "Terminating instance without replacement will violate group's min size constraint. Either set "
    "shouldDecrementDesiredCapacity flag to false or lower group's min size."
)


class Groups:
    """The Auto Scaling groups of a region."""

    def __init__(self, region: Region, launches: Launches) -> None:
        self._region, self._launches = region, launches
        self._groups: dict[str, Group] = {}
        self._lock = RLock()

    def settle(self) -> None:
        """Scale each group to its desired capacity."""
        for group in list(self._groups.values()):
            group.settle(self._region, self._launches)

    def find(self, name: str) -> Group:
        """Return a group.

        Raises:
            AwsError: It doesn't exist.
        """
        if name not in self._groups:
            raise AwsError("ValidationError", f"AutoScalingGroup name not found - AutoScalingGroup '{name}' not found")
        return self._groups[name]

    def add(self, parameters: Mapping[str, Any]) -> Group:
        """Create a group with the parameters of CreateAutoScalingGroup, and launch its instances.

        Raises:
            AwsError: The name exists, or the sizes contradict each other.
        """
        name, minimum, maximum = (
            str(parameters["AutoScalingGroupName"]),
            int(parameters["MinSize"]),
            int(parameters["MaxSize"]),
        )
        policy = parameters.get("MixedInstancesPolicy")
        template = parameters.get("LaunchTemplate") or (policy or {}).get("LaunchTemplate", {}).get(
            "LaunchTemplateSpecification"
        )
        if not template:
            raise NotSimulated("an Auto Scaling group without a launch template")
        with self._lock:
            if name in self._groups:
                raise AwsError("AlreadyExists", f"AutoScalingGroup by this name already exists - {name}")
            group = Group(
                name=name,
                arn=self._region.arn("autoscaling", f"autoScalingGroup:{uuid.uuid4()}:autoScalingGroupName/{name}"),
                subnets=self._subnets(parameters),
                template=dict(template),
                policy=policy,
                minimum=minimum,
                maximum=maximum,
                desired=int(parameters.get("DesiredCapacity", minimum)),
                tags=[_tag(name, tag) for tag in parameters.get("Tags", ())],
            )
            _check_sizes(group.minimum, group.desired, group.maximum)
            self._launches.template(group.template)
            self._groups[name] = group
        group.settle(self._region, self._launches)
        return group

    def resize(self, group: Group, *, minimum: int | None, desired: int | None, maximum: int | None) -> None:
        """Change the sizes of a group.

        Raises:
            AwsError: They contradict each other.
        """
        smallest = group.minimum if minimum is None else minimum
        largest = group.maximum if maximum is None else maximum
        # Source: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_UpdateAutoScalingGroup.html
        wanted = min(max(group.desired, smallest), largest) if desired is None else desired
        _check_sizes(smallest, wanted, largest)
        group.minimum, group.desired, group.maximum, group.tries_after = smallest, wanted, largest, 0.0
        group.settle(self._region, self._launches)

    def replace_instances(self, group: Group) -> None:
        """Terminate all instances of a group, and launch new ones."""
        if group.members:
            group.terminate(self._launches, [member.id for member in group.members])
        group.settle(self._region, self._launches)

    def remove(self, name: str) -> None:
        """Delete a group and its instances."""
        group = self.find(name)
        del self._groups[name]
        if group.members:
            group.terminate(self._launches, [member.id for member in group.members])

    @simulates("autoscaling", "CreateAutoScalingGroup")
    def create(self, request: Request) -> Mapping[str, Any]:
        """Create a group."""
        self.add(request.parameters)
        return {}

    @simulates("autoscaling", "UpdateAutoScalingGroup")
    def update(self, request: Request) -> Mapping[str, Any]:
        """Change sizes, template or subnets."""
        parameters = {key: each for key, each in request.parameters.items() if each is not None}
        if others := sorted(parameters.keys() - _UPDATED):
            raise NotSimulated(f"a change of {', '.join(others)} of an Auto Scaling group")
        group = self.find(str(parameters["AutoScalingGroupName"]))
        if parameters.get("LaunchTemplate"):
            group.template = dict(parameters["LaunchTemplate"])
        if parameters.get("MixedInstancesPolicy"):
            group.policy = parameters["MixedInstancesPolicy"]
        if parameters.get("VPCZoneIdentifier"):
            group.subnets = self._subnets(parameters)
        sizes = (parameters.get("MinSize"), parameters.get("DesiredCapacity"), parameters.get("MaxSize"))
        self.resize(group, minimum=sizes[0], desired=sizes[1], maximum=sizes[2])
        return {}

    @simulates("autoscaling", "DescribeAutoScalingGroups")
    def describe(self, request: Request) -> Mapping[str, Any]:
        """Return the groups with the given names or tags."""
        parameters = request.parameters
        names = parameters.get("AutoScalingGroupNames")
        found = [group for group in self._groups.values() if not names or group.name in names]
        return {
            "AutoScalingGroups": matching(
                [_describe_group(group) for group in found], parameters.get("Filters", ()), {}
            )
        }

    @simulates("autoscaling", "DescribeAutoScalingInstances")
    def describe_instances(self, request: Request) -> Mapping[str, Any]:
        """Return instances with their groups."""
        wanted = request.parameters.get("InstanceIds")
        found = [
            one | {"AutoScalingGroupName": group.name}
            for group in self._groups.values()
            for one in _describe_group(group)["Instances"]
        ]
        return {"AutoScalingInstances": [one for one in found if not wanted or one["InstanceId"] in wanted]}

    @simulates("autoscaling", "DescribeLaunchConfigurations")
    def describe_configurations(self, _: Request) -> Mapping[str, Any]:
        """Return an empty list. Launch configurations, which launch templates replaced, aren't simulated."""
        return {"LaunchConfigurations": []}

    @simulates("autoscaling", "DescribeScalingActivities")
    def describe_activities(self, request: Request) -> Mapping[str, Any]:
        """Return activities, newest first."""
        name = request.parameters.get("AutoScalingGroupName")
        groups = [self.find(str(name))] if name else list(self._groups.values())
        activities = sorted(
            (one for group in groups for one in group.activities), key=lambda one: one["StartTime"], reverse=True
        )
        return {"Activities": activities[: int(request.parameters.get("MaxRecords", 100))]}

    @simulates("autoscaling", "SetDesiredCapacity")
    def set_desired(self, request: Request) -> Mapping[str, Any]:
        """Set the desired capacity.

        Source: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_SetDesiredCapacity.html
        """
        group, wanted = (
            self.find(str(request.parameters["AutoScalingGroupName"])),
            int(request.parameters["DesiredCapacity"]),
        )
        if not group.minimum <= wanted <= group.maximum:
            limit = f"above max value {group.maximum}" if wanted > group.maximum else f"below min value {group.minimum}"
            message = f"New SetDesiredCapacity value {wanted} is {limit} for the AutoScalingGroup."
            raise AwsError("ValidationError", message)
        self.resize(group, minimum=None, desired=wanted, maximum=None)
        return {}

    @simulates("autoscaling", "TerminateInstanceInAutoScalingGroup")
    def terminate(self, request: Request) -> Mapping[str, Any]:
        """Terminate one instance, and decrement the desired capacity or launch another instance."""
        identity = str(request.parameters["InstanceId"])
        group = next((one for one in self._groups.values() if identity in {m.id for m in one.members}), None)
        if group is None:
            message = f"Instance Id not found - No managed instance found for instance ID: {identity}"
            raise AwsError("ValidationError", message)
        with group.lock:
            if request.parameters["ShouldDecrementDesiredCapacity"]:
                if group.desired - 1 < group.minimum:
                    raise AwsError(
                        "ValidationError", f"Currently, desiredSize equals minSize ({group.minimum}). {_TOO_FEW}"
                    )
                group.desired -= 1
            activity = group.terminate(self._launches, [identity])
        return {"Activity": activity}

    @simulates("autoscaling", "CreateOrUpdateTags")
    def tag(self, request: Request) -> Mapping[str, Any]:
        """Set tags of groups."""
        for tag in request.parameters["Tags"]:
            group = self.find(str(tag["ResourceId"]))
            backend = [one for one in group.tags if one["Key"] != tag["Key"]]
            group.tags = [*backend, _tag(group.name, tag)]
        return {}

    @simulates("autoscaling", "DeleteTags")
    def untag(self, request: Request) -> Mapping[str, Any]:
        """Remove tags from groups."""
        for tag in request.parameters["Tags"]:
            group = self.find(str(tag["ResourceId"]))
            group.tags = [one for one in group.tags if one["Key"] != tag["Key"]]
        return {}

    @simulates("autoscaling", "DeleteAutoScalingGroup")
    def delete(self, request: Request) -> Mapping[str, Any]:
        """Delete a group, with its instances if ForceDelete is set."""
        group = self.find(str(request.parameters["AutoScalingGroupName"]))
        if group.members and not request.parameters.get("ForceDelete"):
            message = "You cannot delete an AutoScalingGroup while there are instances"
            raise AwsError("ResourceInUse", f"{message} or pending Spot instance request(s) still in the group.")
        self.remove(group.name)
        return {}

    def _subnets(self, parameters: Mapping[str, Any]) -> dict[str, str]:
        identities = [one for one in str(parameters.get("VPCZoneIdentifier") or "").split(",") if one]
        if not identities:
            raise NotSimulated("an Auto Scaling group without subnets")
        return {self._launches.subnet_zone(one): one for one in identities}


def _tag(group: str, tag: Mapping[str, Any]) -> dict[str, Any]:
    return {"ResourceId": group, "ResourceType": "auto-scaling-group", "PropagateAtLaunch": False, "Value": ""} | dict(
        tag
    )


def _check_sizes(minimum: int, desired: int, maximum: int) -> None:
    if not minimum <= desired <= maximum:
        message = f"Desired capacity:{desired} must be between the specified min size:{minimum} and max size:{maximum}"
        raise AwsError("ValidationError", message)
