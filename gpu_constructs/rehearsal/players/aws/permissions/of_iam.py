"""What calls of IAM ask of a policy, and who may pass a role on.

Source: https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsidentityandaccessmanagementiam.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gpu_constructs.rehearsal.players.aws.api.requests import Request
from gpu_constructs.rehearsal.players.aws.permissions.context import pairs, request_tags, resource_tags
from gpu_constructs.rehearsal.players.aws.permissions.evaluation import Question
from gpu_constructs.rehearsal.players.aws.region import Region


def pass_role(role: str, service: str) -> Question:
    """Ask whether somebody may give a role to a service.

    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html

    Args:
        role: ARN of the role.
        service: ``ec2.amazonaws.com``.
    """
    return Question(action="iam:PassRole", resource=role, context={"iam:PassedToService": (service,)})


def _instance_profile(region: Region, request: Request) -> Iterable[Question]:
    """Ask about an instance profile and, where one is given to it, about the role.

    A profile that is made with tags asks nothing of ``iam:TagInstanceProfile``: Karpenter makes such with a policy that
    allows that action for profiles that have its tags already.
    Source: https://karpenter.sh/v1.14/reference/cloudformation/
    """
    asked = request.parameters
    name = str(asked["InstanceProfileName"])
    iam = region.service("iam")
    try:
        found = iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
    except iam.exceptions.NoSuchEntityException:
        found = {}
    arn = found.get("Arn") or f"arn:aws:iam::{region.account}:instance-profile{asked.get('Path', '/')}{name}"
    context = request_tags(pairs(asked.get("Tags"))) | resource_tags(pairs(found.get("Tags")))
    yield Question(action=f"iam:{request.name}", resource=arn, context=context)
    if request.name == "AddRoleToInstanceProfile":
        role = iam.get_role(RoleName=asked["RoleName"])["Role"]["Arn"]
        yield pass_role(role, "ec2.amazonaws.com")


def _role(region: Region, request: Request) -> Iterable[Question]:
    name = str(request.parameters["RoleName"])
    yield Question(action=f"iam:{request.name}", resource=f"arn:aws:iam::{region.account}:role/{name}")


def _profiles(region: Region, _: Request) -> Iterable[Question]:
    yield Question(action="iam:ListInstanceProfiles", resource=f"arn:aws:iam::{region.account}:instance-profile/")


OF_IAM: Mapping[str, Callable[[Region, Request], Iterable[Question]]] = {
    "AddRoleToInstanceProfile": _instance_profile,
    "CreateInstanceProfile": _instance_profile,
    "DeleteInstanceProfile": _instance_profile,
    "GetInstanceProfile": _instance_profile,
    "GetRole": _role,
    "ListInstanceProfiles": _profiles,
    "RemoveRoleFromInstanceProfile": _instance_profile,
    "TagInstanceProfile": _instance_profile,
}
