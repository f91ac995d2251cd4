"""One Auto Scaling group: how many instances it wants, which it has, and how it gets the others."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from threading import RLock
from typing import Any

from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal
from gpu_constructs.rehearsal.players.aws.ec2.launches import Launches, with_tags
from gpu_constructs.rehearsal.players.aws.kept import kept_by_moto
from gpu_constructs.rehearsal.players.aws.region import Region

# A group that got nothing asks again later; AWS does not say when.
RETRY_SECONDS = 10.0
_ALIVE = ("pending", "running")


@dataclass(kw_only=True)
class Member:
    """One instance of a group.

    Attributes:
        id: ``i-...``.
        instance_type: What it is.
        zone: Where it is.
        template: Version of the launch template it was made of.
    """

    id: str
    instance_type: str
    zone: str
    template: dict[str, Any]


@dataclass(kw_only=True)
class Group:
    """One group.

    Attributes:
        name: Its name.
        arn: ARN of it.
        subnets: Where it may have instances, by zone.
        template: Launch template, as the API has it.
        policy: Policy of mixed instances, of a group that has one.
        minimum: Fewest instances.
        maximum: Most.
        desired: How many it wants.
        tags: Tags, as the API has them.
        members: What it has.
        activities: What it did, newest first.
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
    members: list[Member] = field(default_factory=list)
    activities: list[dict[str, Any]] = field(default_factory=list)
    created: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    lock: RLock = field(default_factory=RLock)
    tries_after: float = 0.0

    def settle(self, region: Region, launches: Launches) -> None:
        """Have as many instances as are wanted, or as there are to be had."""
        with self.lock:
            self._bury(region)
            surplus = len(self.members) - self.desired
            if surplus > 0:
                self.terminate(launches, [member.id for member in self._surplus(surplus)])
            while len(self.members) < self.desired and time.monotonic() >= self.tries_after:
                if not self._grow(launches):
                    self.tries_after = time.monotonic() + RETRY_SECONDS

    def terminate(self, launches: Launches, instances: list[str]) -> dict[str, Any]:
        """End instances of the group, and return the activity."""
        launches.terminate(instances)
        self.members = [member for member in self.members if member.id not in instances]
        for instance in instances[:-1]:
            self._did(f"Terminating EC2 instance: {instance}", "Successful")
        return self._did(f"Terminating EC2 instance: {instances[-1]}", "Successful")

    def _bury(self, region: Region) -> None:
        """Forget instances that somebody else ended."""
        kept = kept_by_moto(region)
        alive = {member.id for member in self.members if kept.get_instance(member.id).state in _ALIVE}
        self.members = [member for member in self.members if member.id in alive]

    def _surplus(self, count: int) -> list[Member]:
        """Return whom to end: the oldest of the zones with most.

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
        """Launch one instance wherever one is to be had.

        Source: https://docs.aws.amazon.com/autoscaling/ec2/userguide/auto-scaling-benefits.html
        """
        refusals = []
        for override in self._overrides():
            for zone in self._zones():
                try:
                    self._launch(launches, zone, override)
                except AwsRefusal as refusal:
                    refusals.append(refusal)
                else:
                    return True
        last = refusals[-1]
        message = f"{last.message} Launching EC2 instance failed."
        self._did("Launching a new EC2 instance.  Status Reason: " + message, "Failed", code=last.code, message=message)
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
        member = Member(id=identity, instance_type=data["InstanceType"], zone=zone, template=dict(reference))
        self.members.append(member)
        self._did(f"Launching a new EC2 instance: {identity}", "Successful")

    def _overrides(self) -> list[dict[str, Any]]:
        return list((self.policy or {}).get("LaunchTemplate", {}).get("Overrides") or [{}])

    def _zones(self) -> Iterator[str]:
        """Yield zones, those with fewest instances first."""
        counted = Counter(member.zone for member in self.members)
        return iter(sorted(self.subnets, key=lambda zone: (counted[zone], zone)))

    def _buys_spot(self) -> bool:
        distribution = (self.policy or {}).get("InstancesDistribution", {})
        base = int(distribution.get("OnDemandBaseCapacity", 0))
        above = int(distribution.get("OnDemandPercentageAboveBaseCapacity", 100))
        return above == 0 and len(self.members) >= base

    def _did(self, what: str, status: str, *, code: str = "", message: str = "") -> dict[str, Any]:
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
