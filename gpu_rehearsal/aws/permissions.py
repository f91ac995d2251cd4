"""The permission check of each call: its actions, resources and keys, and the policies of the caller.

Source: https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from urllib.parse import unquote, urlparse

from botocore.exceptions import ClientError
from moto.iam.exceptions import NotFoundException

from gpu_rehearsal.aws.api import AwsRefusal, Request
from gpu_rehearsal.aws.other_services import function_name
from gpu_rehearsal.aws.policies import Question, Unjudged, decide, pairs, resource_tags, role_statements, role_tags
from gpu_rehearsal.aws.policy_resources import OF_EC2, OF_IAM
from gpu_rehearsal.aws.region import Call, Region

Ask = Callable[[Region, Request], Iterable[Question]]

# Anybody with credentials may ask who they are.
# Source: https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
FREE = frozenset({("sts", "GetCallerIdentity")})
# Actions that are about no resource, by the prefix of their service.
_ABOUT_NOTHING = {
    "autoscaling": ("Describe",),
    "ec2": ("Describe", "GetInstanceTypesFromInstanceRequirements"),
    "ecr": ("GetAuthorizationToken",),
    "eks": ("ListClusters", "DescribeAddonVersions", "DescribeClusterVersions", "ListAccessPolicies"),
    "pricing": ("GetProducts",),
    "sqs": ("ListQueues",),
}


def collect_questions(region: Region, request: Request) -> list[Question]:
    """Return all that has to be allowed for a call.

    Raises:
        Unjudged: It is not known what the action asks of a policy.
    """
    key = (request.service, request.name)
    if key in FREE:
        return []
    if key in _ASKS:
        return _unique(_ASKS[key](region, request))
    if request.name.startswith(_ABOUT_NOTHING.get(request.service, ("\0",))):
        return [Question(action=f"{request.service}:{request.name}")]
    if request.service in _RESOURCES:
        return [
            Question(action=f"{request.service}:{request.name}", resource=_RESOURCES[request.service](region, request))
        ]
    raise Unjudged(f"the resource of {request.service}:{request.name}")


def _unique(questions: Iterable[Question]) -> list[Question]:
    """Return each question once: a fleet of many types asks the same of each."""
    return list({(one.action, one.resource, tuple(sorted(one.context.items()))): one for one in questions}.values())


def _eks_resource(region: Region, request: Request) -> str:
    """Return the cluster, group, add-on or entry that a call of EKS is about."""
    asked, client = request.parameters, region.itself("eks")
    cluster = asked.get("clusterName") or asked.get("name")
    if request.name in ("CreateAccessEntry", "CreateAddon", "CreateNodegroup"):
        return region.arn("eks", f"cluster/{cluster}")
    if asked.get("nodegroupName"):
        told = client.describe_nodegroup(clusterName=cluster, nodegroupName=asked["nodegroupName"])
        return str(told["nodegroup"]["nodegroupArn"])
    if asked.get("addonName"):
        return str(client.describe_addon(clusterName=cluster, addonName=asked["addonName"])["addon"]["addonArn"])
    if asked.get("principalArn") or asked.get("associationId"):
        raise Unjudged(f"the resource of eks:{request.name}")
    return region.arn("eks", f"cluster/{cluster}")


def _sqs_resource(region: Region, request: Request) -> str:
    name = request.parameters.get("QueueName") or urlparse(request.parameters["QueueUrl"]).path.rpartition("/")[2]
    return region.arn("sqs", str(name))


def _ssm_resource(region: Region, request: Request) -> str:
    if not request.parameters.get("Name"):
        raise Unjudged(f"the resource of ssm:{request.name}")
    name = str(request.parameters["Name"])
    account = "" if name.startswith("/aws/service/") else region.account
    return f"arn:aws:ssm:{region.name}:{account}:parameter/{name.lstrip('/')}"


def _logs_resource(region: Region, request: Request) -> str:
    asked = request.parameters
    stream = f"log-stream:{asked['logStreamName']}" if asked.get("logStreamName") else ""
    return region.arn("logs", f"log-group:{asked['logGroupName']}:{stream}")


def _sts_resource(_: Region, request: Request) -> str:
    return str(request.parameters["RoleArn"])


def _cloudformation_resource(region: Region, request: Request) -> str:
    name = str(request.parameters.get("StackName") or "*")
    return name if name.startswith("arn:") else region.arn("cloudformation", f"stack/{name}/*")


# ARN of what an operation is about, where a service says it alike in all of them.
_RESOURCES: Mapping[str, Callable[[Region, Request], str]] = {
    "cloudformation": _cloudformation_resource,
    "eks": _eks_resource,
    "logs": _logs_resource,
    "sqs": _sqs_resource,
    "ssm": _ssm_resource,
    "sts": _sts_resource,
}


def _invoke(region: Region, request: Request) -> Iterable[Question]:
    yield _function(region, request, "lambda:InvokeFunction")


def _get_function(region: Region, request: Request) -> Iterable[Question]:
    yield _function(region, request, f"lambda:{request.name}")


def _function(region: Region, request: Request, action: str) -> Question:
    name = function_name(unquote(str(request.parameters["FunctionName"])))
    return Question(action=action, resource=region.arn("lambda", f"function:{name}"))


def _zonal_shift(_: Region, request: Request) -> Iterable[Question]:
    identity = str(request.parameters["resourceIdentifier"])
    yield Question(
        action="arc-zonal-shift:GetManagedResource",
        resource=identity,
        context={"arc-zonal-shift:ResourceIdentifier": (identity,)},
    )


def _scale(region: Region, request: Request) -> Iterable[Question]:
    """Ask for a change of an Auto Scaling group.

    Source: https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2autoscaling.html
    """
    client, asked = region.itself("autoscaling"), request.parameters
    name = asked.get("AutoScalingGroupName")
    if not name:
        told = client.describe_auto_scaling_instances(InstanceIds=[asked["InstanceId"]])["AutoScalingInstances"]
        name = told[0]["AutoScalingGroupName"] if told else None
    groups = client.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"] if name else []
    arn = (
        groups[0]["AutoScalingGroupARN"]
        if groups
        else region.arn("autoscaling", "autoScalingGroup:*:autoScalingGroupName/*")
    )
    tags = pairs(groups[0]["Tags"]) if groups else {}
    yield Question(action=f"autoscaling:{request.name}", resource=arn, context=resource_tags(tags, "autoscaling"))


def _public_registry(_: Region, request: Request) -> Iterable[Question]:
    """Ask for a token of the public registry, which asks for one of STS too.

    Source: https://docs.aws.amazon.com/AmazonECR/latest/public/public-registry-auth.html
    """
    yield Question(action=f"ecr-public:{request.name}")
    yield Question(action="sts:GetServiceBearerToken", context={"sts:AWSServiceName": ("ecr-public.amazonaws.com",)})


_ASKS: Mapping[tuple[str, str], Ask] = {
    ("arc-zonal-shift", "GetManagedResource"): _zonal_shift,
    ("autoscaling", "SetDesiredCapacity"): _scale,
    ("autoscaling", "TerminateInstanceInAutoScalingGroup"): _scale,
    ("autoscaling", "UpdateAutoScalingGroup"): _scale,
    ("ecr-public", "GetAuthorizationToken"): _public_registry,
    ("lambda", "GetFunction"): _get_function,
    ("lambda", "GetFunctionConfiguration"): _get_function,
    ("lambda", "Invoke"): _invoke,
    **{("ec2", name): ask for name, ask in OF_EC2.items()},
    **{("iam", name): ask for name, ask in OF_IAM.items()},
}


# How services of the query protocols call it; the others say AccessDeniedException.
_CODES = {"ec2": "UnauthorizedOperation", "iam": "AccessDenied", "sts": "AccessDenied", "autoscaling": "AccessDenied"}


class Judge:
    """Judges calls of roles. The administrator may do everything."""

    def __init__(self, region: Region) -> None:
        self._region = region

    def judge(self, call: Call, request: Request, session_tags: dict[str, str]) -> Call:
        """Return a call with what was decided of it."""
        if not call.principal:
            return call
        try:
            statements = role_statements(self._region.account, call.principal)
            questions = collect_questions(self._region, request)
            shared = self._shared(call.principal, session_tags)
            decided = [decide(statements, replace(each, context={**shared, **each.context})) for each in questions]
        except (Unjudged, NotFoundException, ClientError, LookupError) as error:
            return call.refused("NotPlayed", f"the permission of {call.action}: {error}")
        call = replace(call, resources=tuple(dict.fromkeys(each.resource for each in questions)))
        for question, decision in zip(questions, decided, strict=True):
            if not decision.allowed:
                said = _denied(call, question, decision.statement)
                return replace(
                    call, allowed=False, statements=(decision.statement,) if decision.statement else (), message=said
                )
        return call.with_statements(*(each.statement for each in decided))

    def _shared(self, role: str, session_tags: dict[str, str]) -> dict[str, tuple[str, ...]]:
        """Return the keys that every call has, as if it had come over TLS."""
        tags = role_tags(self._region.account, role) | session_tags
        shared = {
            "aws:PrincipalAccount": self._region.account,
            "aws:PrincipalArn": role,
            "aws:RequestedRegion": self._region.name,
            "aws:SecureTransport": "true",
        } | {f"aws:PrincipalTag/{key}": value for key, value in tags.items()}
        return {key: (value,) for key, value in shared.items()}


def access_denied_error(call: Call) -> AwsRefusal:
    """Return what the caller of a call that is not allowed is told.

    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
    """
    if call.error:
        return AwsRefusal(call.error, call.message)
    return AwsRefusal(_CODES.get(call.service, "AccessDeniedException"), call.message)


def _denied(call: Call, question: Question, statement: str) -> str:
    account, name = call.principal.split(":")[4], call.principal.rpartition("/")[2]
    who = f"arn:aws:sts::{account}:assumed-role/{name}/rehearsal"
    why = f"because no identity-based policy allows the {question.action} action"
    if statement:
        why = f"with an explicit deny in {statement}"
    return f"User: {who} is not authorized to perform: {question.action} on resource: {question.resource} {why}"
