"""What a launch is about: the resources that it uses and those that it makes, each with its tags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from moto.iam.models import iam_backends

from gpu_constructs.rehearsal.players.aws.kept import tags_kept
from gpu_constructs.rehearsal.players.aws.permissions.context import pairs, request_tags, resource_tags
from gpu_constructs.rehearsal.players.aws.permissions.evaluation import Question
from gpu_constructs.rehearsal.players.aws.permissions.of_iam import pass_role
from gpu_constructs.rehearsal.players.aws.region import Region

# What a launch makes, whatever it is told.
_MADE = ("instance", "network-interface", "volume")


@dataclass(frozen=True, kw_only=True, slots=True)
class Launched:
    """One way to launch.

    Attributes:
        data: What is launched, as data of a launch template.
        template: Id of the template; empty without one.
        tags: Tags of what is made, by kind.
    """

    data: Mapping[str, Any] = field(default_factory=dict)
    template: str = ""
    tags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of_template(cls, region: Region, reference: Mapping[str, Any] | None) -> Launched:
        """Return what a launch template launches.

        Args:
            region: Where the template is.
            reference: Id or name, and version; ``None`` for a launch without one.
        """
        if not reference:
            return cls()
        named = {key: reference[key] for key in ("LaunchTemplateId", "LaunchTemplateName") if reference.get(key)}
        version = str(reference.get("Version") or "$Default")
        told = region.service("ec2").describe_launch_template_versions(**named, Versions=[version])
        found = told["LaunchTemplateVersions"][0]
        return cls(template=found["LaunchTemplateId"]).overridden(found["LaunchTemplateData"])

    def overridden(self, data: Mapping[str, Any], *, spot: bool = False) -> Launched:
        """Return the launch with other data over its own.

        Args:
            data: What is said besides.
            spot: Whether a fleet buys it on the spot market.
        """
        tags = {kind: dict(said) for kind, said in self.tags.items()}
        for one in data.get("TagSpecifications", ()):
            tags.setdefault(one["ResourceType"], {}).update(pairs(one["Tags"]))
        market = {"InstanceMarketOptions": {"MarketType": "spot"}} if spot else {}
        return Launched(data={**self.data, **data, **market}, template=self.template, tags=tags)

    def questions(self, region: Region, action: str, *, created_by: str) -> Iterator[Question]:
        """Yield what has to be allowed.

        Args:
            region: Where it is launched.
            action: Action that launches.
            created_by: Operation by which tags get on what is made.
        """
        for arn, context in self._used(region):
            yield Question(action=action, resource=arn, context=context)
        for kind in self._made():
            arn, tags = region.arn("ec2", f"{kind}/*"), self.tags.get(kind, {})
            yield Question(action=action, resource=arn, context=request_tags(tags))
            if tags:
                context = {**request_tags(tags), "ec2:CreateAction": (created_by,)}
                yield Question(action="ec2:CreateTags", resource=arn, context=context)
        profile = self.data.get("IamInstanceProfile", {})
        if profile:
            yield pass_role(_role_of(region, profile), "ec2.amazonaws.com")

    def _made(self) -> tuple[str, ...]:
        spot = self.data.get("InstanceMarketOptions", {}).get("MarketType") == "spot"
        return (*_MADE, "spot-instances-request") if spot else _MADE

    def _used(self, region: Region) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the resources that must be there, with their tags."""
        data, interfaces = self.data, self.data.get("NetworkInterfaces", ())
        subnets = [data.get("SubnetId"), *(one.get("SubnetId") for one in interfaces)]
        groups = [*data.get("SecurityGroupIds", ()), *(each for one in interfaces for each in one.get("Groups", ()))]
        reserved = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
        used = {
            "launch-template": [self.template],
            "subnet": subnets,
            "security-group": groups,
            "capacity-reservation": [reserved.get("CapacityReservationId")],
            "placement-group": [data.get("Placement", {}).get("GroupName")],
        }
        if data.get("ImageId"):
            yield f"arn:aws:ec2:{region.name}::image/{data['ImageId']}", {}
        for kind, identities in used.items():
            for identity in filter(None, dict.fromkeys(identities)):
                yield region.arn("ec2", f"{kind}/{identity}"), self._tags_of(region, identity)

    @staticmethod
    def _tags_of(region: Region, identity: str) -> dict[str, Any]:
        return resource_tags(tags_kept(region, identity), "ec2")


def _role_of(region: Region, profile: Mapping[str, str]) -> str:
    name = profile.get("Name") or profile["Arn"].rpartition("/")[2]
    roles = iam_backends[region.account]["aws"].get_instance_profile(name).roles
    return str(roles[0].arn) if roles else ""
