"""The access requests of each call: the actions, resources and condition keys that its permission check needs.

Sources: https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html,
https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html,
https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsidentityandaccessmanagementiam.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote, urlparse

from moto.iam.models import iam_backends

from gpu_rehearsal.aws.api import Request
from gpu_rehearsal.aws.policies import (
    AccessRequest,
    UnknownPermission,
    pairs,
    request_tags,
    resource_tags,
)
from gpu_rehearsal.aws.region import Region, existing_tags, function_name


def _pass_role(role: str, service: str) -> AccessRequest:
    """Return the access request for passing a role to a service.

    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html

    Args:
        role: ARN of the role.
        service: The service, e.g. ``ec2.amazonaws.com``.
    """
    return AccessRequest(action="iam:PassRole", resource=role, context={"iam:PassedToService": (service,)})


def _instance_profile(region: Region, request: Request) -> Iterable[AccessRequest]:
    """Yield the access requests for an instance profile, and for a role that is added to it.

    Creation with tags doesn't need ``iam:TagInstanceProfile``: Karpenter creates such profiles with a policy that
    allows that action only for profiles that already have the tags.
    Source: https://karpenter.sh/v1.14/reference/cloudformation/
    """
    parameters = request.parameters
    name = str(parameters["InstanceProfileName"])
    iam = region.moto_client("iam")
    try:
        found = iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
    except iam.exceptions.NoSuchEntityException:
        found = {}
    arn = found.get("Arn") or f"arn:aws:iam::{region.account}:instance-profile{parameters.get('Path', '/')}{name}"
    context = request_tags(pairs(parameters.get("Tags"))) | resource_tags(pairs(found.get("Tags")))
    yield AccessRequest(action=f"iam:{request.name}", resource=arn, context=context)
    if request.name == "AddRoleToInstanceProfile":
        role = iam.get_role(RoleName=parameters["RoleName"])["Role"]["Arn"]
        yield _pass_role(role, "ec2.amazonaws.com")


def _role(region: Region, request: Request) -> Iterable[AccessRequest]:
    name = str(request.parameters["RoleName"])
    yield AccessRequest(action=f"iam:{request.name}", resource=f"arn:aws:iam::{region.account}:role/{name}")


def _profiles(region: Region, _: Request) -> Iterable[AccessRequest]:
    yield AccessRequest(action="iam:ListInstanceProfiles", resource=f"arn:aws:iam::{region.account}:instance-profile/")


_IAM_ACTIONS: Mapping[str, Callable[[Region, Request], Iterable[AccessRequest]]] = {
    "AddRoleToInstanceProfile": _instance_profile,
    "CreateInstanceProfile": _instance_profile,
    "DeleteInstanceProfile": _instance_profile,
    "GetInstanceProfile": _instance_profile,
    "GetRole": _role,
    "ListInstanceProfiles": _profiles,
    "RemoveRoleFromInstanceProfile": _instance_profile,
    "TagInstanceProfile": _instance_profile,
}


# Resources that every launch creates.
_CREATED_KINDS = ("instance", "network-interface", "volume")


@dataclass(frozen=True, kw_only=True, slots=True)
class _LaunchRequest:
    """The parameters of a launch.

    Attributes:
        data: Parameters, as data of a launch template.
        template: Id of the template; empty without one.
        tags: Tags of created resources, by kind.
    """

    data: Mapping[str, Any] = field(default_factory=dict)
    template: str = ""
    tags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def from_template(cls, region: Region, reference: Mapping[str, Any] | None) -> _LaunchRequest:
        """Return the launch of a launch template.

        Args:
            region: Region of the template.
            reference: Id or name, and version; ``None`` for a launch without one.
        """
        if not reference:
            return cls()
        named = {key: reference[key] for key in ("LaunchTemplateId", "LaunchTemplateName") if reference.get(key)}
        version = str(reference.get("Version") or "$Default")
        found = region.moto_client("ec2").describe_launch_template_versions(**named, Versions=[version])
        found = found["LaunchTemplateVersions"][0]
        return cls(template=found["LaunchTemplateId"]).overridden(found["LaunchTemplateData"])

    def overridden(self, data: Mapping[str, Any], *, spot: bool = False) -> _LaunchRequest:
        """Return the launch with some data replaced.

        Args:
            data: Data that replaces the launch's own.
            spot: Whether a fleet launches it as Spot.
        """
        tags = {kind: dict(own) for kind, own in self.tags.items()}
        for one in data.get("TagSpecifications", ()):
            tags.setdefault(one["ResourceType"], {}).update(pairs(one["Tags"]))
        market = {"InstanceMarketOptions": {"MarketType": "spot"}} if spot else {}
        return _LaunchRequest(data={**self.data, **data, **market}, template=self.template, tags=tags)

    def access_requests(self, region: Region, action: str, *, created_by: str) -> Iterator[AccessRequest]:
        """Yield the access requests of the launch.

        Args:
            region: Region of the launch.
            action: The launching action.
            created_by: Operation that tags the created resources.
        """
        for arn, context in self._used(region):
            yield AccessRequest(action=action, resource=arn, context=context)
        for kind in self._created_kinds():
            arn, tags = region.arn("ec2", f"{kind}/*"), self.tags.get(kind, {})
            yield AccessRequest(action=action, resource=arn, context=request_tags(tags))
            if tags:
                context = {**request_tags(tags), "ec2:CreateAction": (created_by,)}
                yield AccessRequest(action="ec2:CreateTags", resource=arn, context=context)
        profile = self.data.get("IamInstanceProfile", {})
        if profile:
            yield _pass_role(_profile_role(region, profile), "ec2.amazonaws.com")

    def _created_kinds(self) -> tuple[str, ...]:
        spot = self.data.get("InstanceMarketOptions", {}).get("MarketType") == "spot"
        return (*_CREATED_KINDS, "spot-instances-request") if spot else _CREATED_KINDS

    def _used(self, region: Region) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the existing resources of the launch, with their tags."""
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
                yield region.arn("ec2", f"{kind}/{identity}"), self._existing_tags(region, identity)

    @staticmethod
    def _existing_tags(region: Region, identity: str) -> dict[str, Any]:
        return resource_tags(existing_tags(region, identity), "ec2")


def _profile_role(region: Region, profile: Mapping[str, str]) -> str:
    name = profile.get("Name") or profile["Arn"].rpartition("/")[2]
    roles = iam_backends[region.account]["aws"].get_instance_profile(name).roles
    return str(roles[0].arn) if roles else ""


# Kind of a resource, by the prefix of its id.
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


def _existing(region: Region, action: str, identity: str, tags: Mapping[str, str] | None = None) -> AccessRequest:
    """Return the access request for an existing resource with tags, which may get more tags.

    Raises:
        UnknownPermission: The kind of the id is unknown.
    """
    kind = _KINDS.get(identity.partition("-")[0])
    if kind is None:
        raise UnknownPermission(f"the kind of {identity}")
    context = resource_tags(existing_tags(region, identity), "ec2") | request_tags(tags or {})
    return AccessRequest(action=action, resource=region.arn("ec2", f"{kind}/{identity}"), context=context)


def _create_tags(region: Region, request: Request) -> Iterator[AccessRequest]:
    tags = pairs(request.parameters["Tags"])
    for identity in request.parameters["Resources"]:
        yield _existing(region, "ec2:CreateTags", identity, tags)


def _terminate(region: Region, request: Request) -> Iterator[AccessRequest]:
    for identity in request.parameters["InstanceIds"]:
        yield _existing(region, "ec2:TerminateInstances", identity)


def _delete_template(region: Region, request: Request) -> Iterator[AccessRequest]:
    identity = request.parameters.get("LaunchTemplateId")
    if not identity:
        identity = _template_id(region, str(request.parameters["LaunchTemplateName"]))
    yield _existing(region, "ec2:DeleteLaunchTemplate", identity)


def _create_tagged(region: Region, request: Request, *, kind: str) -> Iterator[AccessRequest]:
    arn, tags = region.arn("ec2", f"{kind}/*"), _requested_tags(request, kind)
    yield AccessRequest(action=f"ec2:{request.name}", resource=arn, context=request_tags(tags))
    if tags:
        context = {**request_tags(tags), "ec2:CreateAction": (request.name,)}
        yield AccessRequest(action="ec2:CreateTags", resource=arn, context=context)


def _security_group(region: Region, request: Request) -> Iterator[AccessRequest]:
    identity = request.parameters.get("GroupId")
    if not identity:
        raise UnknownPermission(f"the group of ec2:{request.name}")
    yield _existing(region, f"ec2:{request.name}", identity)


def _network_interface(region: Region, request: Request) -> Iterator[AccessRequest]:
    yield _existing(region, f"ec2:{request.name}", str(request.parameters["NetworkInterfaceId"]))


def _create_interface(region: Region, request: Request) -> Iterator[AccessRequest]:
    parameters = request.parameters
    for resource in ("network-interface/*", f"subnet/{parameters['SubnetId']}"):
        yield AccessRequest(action="ec2:CreateNetworkInterface", resource=region.arn("ec2", resource))
    for group in parameters.get("Groups", ()):
        yield _existing(region, "ec2:CreateNetworkInterface", str(group))


def _run(region: Region, request: Request) -> Iterator[AccessRequest]:
    parameters = request.parameters
    launched = _LaunchRequest.from_template(region, parameters.get("LaunchTemplate")).overridden(parameters)
    yield from launched.access_requests(region, "ec2:RunInstances", created_by="RunInstances")


def _fleet(region: Region, request: Request) -> Iterator[AccessRequest]:
    """Yield the access requests for a fleet and for the instances that it launches.

    Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-fleet-prerequisites.html
    """
    arn, tags = region.arn("ec2", "fleet/*"), _requested_tags(request, "fleet")
    yield AccessRequest(action="ec2:CreateFleet", resource=arn, context=request_tags(tags))
    if tags:
        context = {**request_tags(tags), "ec2:CreateAction": ("CreateFleet",)}
        yield AccessRequest(action="ec2:CreateTags", resource=arn, context=context)
    spot = request.parameters["TargetCapacitySpecification"].get("DefaultTargetCapacityType") == "spot"
    for config in request.parameters["LaunchTemplateConfigs"]:
        template = _LaunchRequest.from_template(region, config["LaunchTemplateSpecification"]).overridden(
            request.parameters
        )
        for override in config.get("Overrides") or [{}]:
            launched = template.overridden(override, spot=spot)
            yield from launched.access_requests(region, "ec2:CreateFleet", created_by="CreateFleet")
            yield from launched.access_requests(region, "ec2:RunInstances", created_by="CreateFleet")


def _template_id(region: Region, name: str) -> str:
    found = region.moto_client("ec2").describe_launch_templates(LaunchTemplateNames=[name])["LaunchTemplates"]
    return str(found[0]["LaunchTemplateId"])


def _requested_tags(request: Request, kind: str) -> dict[str, str]:
    specifications: list[dict[str, Any]] = list(request.parameters.get("TagSpecifications", ()))
    return {
        key: value for one in specifications if one["ResourceType"] == kind for key, value in pairs(one["Tags"]).items()
    }


_EC2_ACTIONS: Mapping[str, Callable[[Region, Request], Iterable[AccessRequest]]] = {
    "AssignPrivateIpAddresses": _network_interface,
    "AuthorizeSecurityGroupEgress": _security_group,
    "AuthorizeSecurityGroupIngress": _security_group,
    "CreateFleet": _fleet,
    "CreateLaunchTemplate": partial(_create_tagged, kind="launch-template"),
    "CreateNetworkInterface": _create_interface,
    "CreateTags": _create_tags,
    "CreateVolume": partial(_create_tagged, kind="volume"),
    "DeleteLaunchTemplate": _delete_template,
    "DeleteNetworkInterface": _network_interface,
    "RevokeSecurityGroupEgress": _security_group,
    "RevokeSecurityGroupIngress": _security_group,
    "RunInstances": _run,
    "TerminateInstances": _terminate,
    "UnassignPrivateIpAddresses": _network_interface,
}


_Collect = Callable[[Region, Request], Iterable[AccessRequest]]

# Allowed for every principal.
# Source: https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
_ALWAYS_ALLOWED = frozenset({("sts", "GetCallerIdentity")})
# Beginnings of actions without a resource, by service.
_WITHOUT_RESOURCE = {
    "autoscaling": ("Describe",),
    "ec2": ("Describe", "GetInstanceTypesFromInstanceRequirements"),
    "ecr": ("GetAuthorizationToken",),
    "eks": ("ListClusters", "DescribeAddonVersions", "DescribeClusterVersions", "ListAccessPolicies"),
    "pricing": ("GetProducts",),
    "sqs": ("ListQueues",),
}


def collect_access_requests(region: Region, request: Request) -> list[AccessRequest]:
    """Return all access requests of a call.

    Raises:
        UnknownPermission: The resource of the action isn't supported.
    """
    key = (request.service, request.name)
    if key in _ALWAYS_ALLOWED:
        return []
    if key in _SPECIAL_ACTIONS:
        return _unique(_SPECIAL_ACTIONS[key](region, request))
    if request.name.startswith(_WITHOUT_RESOURCE.get(request.service, ("\0",))):
        return [AccessRequest(action=f"{request.service}:{request.name}")]
    if request.service in _RESOURCES:
        return [
            AccessRequest(
                action=f"{request.service}:{request.name}", resource=_RESOURCES[request.service](region, request)
            )
        ]
    raise UnknownPermission(f"the resource of {request.service}:{request.name}")


def _unique(access_requests: Iterable[AccessRequest]) -> list[AccessRequest]:
    """Return each access request once: a fleet repeats the same ones for each type."""
    return list(
        {(one.action, one.resource, tuple(sorted(one.context.items()))): one for one in access_requests}.values()
    )


def _eks_resource(region: Region, request: Request) -> str:
    """Return the ARN of the cluster, group or add-on of an EKS call."""
    parameters, client = request.parameters, region.simulated_client("eks")
    cluster = parameters.get("clusterName") or parameters.get("name")
    if request.name in ("CreateAccessEntry", "CreateAddon", "CreateNodegroup"):
        return region.arn("eks", f"cluster/{cluster}")
    if parameters.get("nodegroupName"):
        found = client.describe_nodegroup(clusterName=cluster, nodegroupName=parameters["nodegroupName"])
        return str(found["nodegroup"]["nodegroupArn"])
    if parameters.get("addonName"):
        return str(client.describe_addon(clusterName=cluster, addonName=parameters["addonName"])["addon"]["addonArn"])
    if parameters.get("principalArn") or parameters.get("associationId"):
        raise UnknownPermission(f"the resource of eks:{request.name}")
    return region.arn("eks", f"cluster/{cluster}")


def _sqs_resource(region: Region, request: Request) -> str:
    name = request.parameters.get("QueueName") or urlparse(request.parameters["QueueUrl"]).path.rpartition("/")[2]
    return region.arn("sqs", str(name))


def _ssm_resource(region: Region, request: Request) -> str:
    if not request.parameters.get("Name"):
        raise UnknownPermission(f"the resource of ssm:{request.name}")
    name = str(request.parameters["Name"])
    account = "" if name.startswith("/aws/service/") else region.account
    return f"arn:aws:ssm:{region.name}:{account}:parameter/{name.lstrip('/')}"


def _logs_resource(region: Region, request: Request) -> str:
    parameters = request.parameters
    stream = f"log-stream:{parameters['logStreamName']}" if parameters.get("logStreamName") else ""
    return region.arn("logs", f"log-group:{parameters['logGroupName']}:{stream}")


def _sts_resource(_: Region, request: Request) -> str:
    return str(request.parameters["RoleArn"])


def _cloudformation_resource(region: Region, request: Request) -> str:
    name = str(request.parameters.get("StackName") or "*")
    return name if name.startswith("arn:") else region.arn("cloudformation", f"stack/{name}/*")


# The resource of all operations of a service, if one function can find it.
_RESOURCES: Mapping[str, Callable[[Region, Request], str]] = {
    "cloudformation": _cloudformation_resource,
    "eks": _eks_resource,
    "logs": _logs_resource,
    "sqs": _sqs_resource,
    "ssm": _ssm_resource,
    "sts": _sts_resource,
}


def _invoke(region: Region, request: Request) -> Iterable[AccessRequest]:
    yield _function(region, request, "lambda:InvokeFunction")


def _get_function(region: Region, request: Request) -> Iterable[AccessRequest]:
    yield _function(region, request, f"lambda:{request.name}")


def _function(region: Region, request: Request, action: str) -> AccessRequest:
    name = function_name(unquote(str(request.parameters["FunctionName"])))
    return AccessRequest(action=action, resource=region.arn("lambda", f"function:{name}"))


def _zonal_shift(_: Region, request: Request) -> Iterable[AccessRequest]:
    identity = str(request.parameters["resourceIdentifier"])
    yield AccessRequest(
        action="arc-zonal-shift:GetManagedResource",
        resource=identity,
        context={"arc-zonal-shift:ResourceIdentifier": (identity,)},
    )


def _scale(region: Region, request: Request) -> Iterable[AccessRequest]:
    """Yield the access request for a change of an Auto Scaling group.

    Source: https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2autoscaling.html
    """
    client, parameters = region.simulated_client("autoscaling"), request.parameters
    name = parameters.get("AutoScalingGroupName")
    if not name:
        found = client.describe_auto_scaling_instances(InstanceIds=[parameters["InstanceId"]])["AutoScalingInstances"]
        name = found[0]["AutoScalingGroupName"] if found else None
    groups = client.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"] if name else []
    arn = (
        groups[0]["AutoScalingGroupARN"]
        if groups
        else region.arn("autoscaling", "autoScalingGroup:*:autoScalingGroupName/*")
    )
    tags = pairs(groups[0]["Tags"]) if groups else {}
    yield AccessRequest(action=f"autoscaling:{request.name}", resource=arn, context=resource_tags(tags, "autoscaling"))


def _public_registry(_: Region, request: Request) -> Iterable[AccessRequest]:
    """Yield the access requests for a token of the public registry, which needs a token of STS too.

    Source: https://docs.aws.amazon.com/AmazonECR/latest/public/public-registry-auth.html
    """
    yield AccessRequest(action=f"ecr-public:{request.name}")
    yield AccessRequest(
        action="sts:GetServiceBearerToken", context={"sts:AWSServiceName": ("ecr-public.amazonaws.com",)}
    )


_SPECIAL_ACTIONS: Mapping[tuple[str, str], _Collect] = {
    ("arc-zonal-shift", "GetManagedResource"): _zonal_shift,
    ("autoscaling", "SetDesiredCapacity"): _scale,
    ("autoscaling", "TerminateInstanceInAutoScalingGroup"): _scale,
    ("autoscaling", "UpdateAutoScalingGroup"): _scale,
    ("ecr-public", "GetAuthorizationToken"): _public_registry,
    ("lambda", "GetFunction"): _get_function,
    ("lambda", "GetFunctionConfiguration"): _get_function,
    ("lambda", "Invoke"): _invoke,
    **{("ec2", name): ask for name, ask in _EC2_ACTIONS.items()},
    **{("iam", name): ask for name, ask in _IAM_ACTIONS.items()},
}
