"""What calls of EC2 ask of a policy.

Source: https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from gpu_constructs.rehearsal.players.aws.api.requests import Request
from gpu_constructs.rehearsal.players.aws.kept import tags_kept
from gpu_constructs.rehearsal.players.aws.permissions.conditions import Unjudged
from gpu_constructs.rehearsal.players.aws.permissions.context import pairs, request_tags, resource_tags
from gpu_constructs.rehearsal.players.aws.permissions.evaluation import Question
from gpu_constructs.rehearsal.players.aws.permissions.launched import Launched
from gpu_constructs.rehearsal.players.aws.region import Region

# Kind of a resource, by the beginning of its id.
# Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/resource-ids.html
_KINDS = {
    "eni": "network-interface",
    "fleet": "fleet",
    "i": "instance",
    "lt": "launch-template",
    "sg": "security-group",
    "sgr": "security-group-rule",
    "sir": "spot-instances-request",
    "subnet": "subnet",
    "vol": "volume",
    "vpc": "vpc",
}


def existing(region: Region, action: str, identity: str, tags: Mapping[str, str] | None = None) -> Question:
    """Ask about something that is there, which has tags, and may get others.

    Args:
        region: Where it is.
        action: What is done with it.
        identity: Its id.
        tags: Tags that it gets.

    Raises:
        Unjudged: It is not known what has such an id.
    """
    kind = _KINDS.get(identity.partition("-")[0])
    if kind is None:
        raise Unjudged(f"the kind of {identity}")
    context = resource_tags(tags_kept(region, identity), "ec2") | request_tags(tags or {})
    return Question(action=action, resource=region.arn("ec2", f"{kind}/{identity}"), context=context)


def _create_tags(region: Region, request: Request) -> Iterator[Question]:
    tags = pairs(request.parameters["Tags"])
    for identity in request.parameters["Resources"]:
        yield existing(region, "ec2:CreateTags", identity, tags)


def _terminate(region: Region, request: Request) -> Iterator[Question]:
    for identity in request.parameters["InstanceIds"]:
        yield existing(region, "ec2:TerminateInstances", identity)


def _delete_template(region: Region, request: Request) -> Iterator[Question]:
    identity = request.parameters.get("LaunchTemplateId")
    if not identity:
        identity = _template_id(region, str(request.parameters["LaunchTemplateName"]))
    yield existing(region, "ec2:DeleteLaunchTemplate", identity)


def _create_template(region: Region, request: Request) -> Iterator[Question]:
    arn, tags = region.arn("ec2", "launch-template/*"), _tags_for(request, "launch-template")
    yield Question(action="ec2:CreateLaunchTemplate", resource=arn, context=request_tags(tags))
    if tags:
        context = {**request_tags(tags), "ec2:CreateAction": ("CreateLaunchTemplate",)}
        yield Question(action="ec2:CreateTags", resource=arn, context=context)


def _security_group(region: Region, request: Request) -> Iterator[Question]:
    identity = request.parameters.get("GroupId")
    if not identity:
        raise Unjudged(f"the group of ec2:{request.name}")
    yield existing(region, f"ec2:{request.name}", identity)


def _network_interface(region: Region, request: Request) -> Iterator[Question]:
    yield existing(region, f"ec2:{request.name}", str(request.parameters["NetworkInterfaceId"]))


def _create_interface(region: Region, request: Request) -> Iterator[Question]:
    asked = request.parameters
    for resource in ("network-interface/*", f"subnet/{asked['SubnetId']}"):
        yield Question(action="ec2:CreateNetworkInterface", resource=region.arn("ec2", resource))
    for group in asked.get("Groups", ()):
        yield existing(region, "ec2:CreateNetworkInterface", str(group))


def _run(region: Region, request: Request) -> Iterator[Question]:
    asked = request.parameters
    launched = Launched.of_template(region, asked.get("LaunchTemplate")).overridden(asked)
    yield from launched.questions(region, "ec2:RunInstances", created_by="RunInstances")


def _fleet(region: Region, request: Request) -> Iterator[Question]:
    """Ask for a fleet: both for the fleet and for the instances that the caller runs with it.

    Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-fleet-prerequisites.html
    """
    arn, tags = region.arn("ec2", "fleet/*"), _tags_for(request, "fleet")
    yield Question(action="ec2:CreateFleet", resource=arn, context=request_tags(tags))
    if tags:
        context = {**request_tags(tags), "ec2:CreateAction": ("CreateFleet",)}
        yield Question(action="ec2:CreateTags", resource=arn, context=context)
    spot = request.parameters["TargetCapacitySpecification"].get("DefaultTargetCapacityType") == "spot"
    for config in request.parameters["LaunchTemplateConfigs"]:
        template = Launched.of_template(region, config["LaunchTemplateSpecification"]).overridden(request.parameters)
        for override in config.get("Overrides") or [{}]:
            launched = template.overridden(override, spot=spot)
            yield from launched.questions(region, "ec2:CreateFleet", created_by="CreateFleet")
            yield from launched.questions(region, "ec2:RunInstances", created_by="CreateFleet")


def _template_id(region: Region, name: str) -> str:
    found = region.service("ec2").describe_launch_templates(LaunchTemplateNames=[name])["LaunchTemplates"]
    return str(found[0]["LaunchTemplateId"])


def _tags_for(request: Request, kind: str) -> dict[str, str]:
    said: list[dict[str, Any]] = list(request.parameters.get("TagSpecifications", ()))
    return {key: value for one in said if one["ResourceType"] == kind for key, value in pairs(one["Tags"]).items()}


OF_EC2: Mapping[str, Callable[[Region, Request], Iterable[Question]]] = {
    "AssignPrivateIpAddresses": _network_interface,
    "AuthorizeSecurityGroupEgress": _security_group,
    "AuthorizeSecurityGroupIngress": _security_group,
    "CreateFleet": _fleet,
    "CreateLaunchTemplate": _create_template,
    "CreateNetworkInterface": _create_interface,
    "CreateTags": _create_tags,
    "DeleteLaunchTemplate": _delete_template,
    "DeleteNetworkInterface": _network_interface,
    "RevokeSecurityGroupEgress": _security_group,
    "RevokeSecurityGroupIngress": _security_group,
    "RunInstances": _run,
    "TerminateInstances": _terminate,
    "UnassignPrivateIpAddresses": _network_interface,
}
