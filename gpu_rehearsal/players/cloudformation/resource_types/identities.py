"""Roles and policies of IAM.

Source of every type: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_IAM.html (2026-11)
"""

from __future__ import annotations

import json
from typing import Any

from gpu_rehearsal.players.cloudformation.creation import Creation, Made
from gpu_rehearsal.players.cloudformation.shaping import Shaping

_POLICY = Shaping(documents=frozenset({"PolicyDocument"}))
# Source: https://docs.aws.amazon.com/IAM/latest/APIReference/API_UpdateRole.html (2026-11)
_DEFAULTS: dict[str, Any] = {"Description": "", "MaxSessionDuration": 3600}


def role(creation: Creation) -> Made:
    """Make a role, then attach managed policies and write its own."""
    managed, own = creation.take("ManagedPolicyArns", []), creation.take("Policies", [])
    name = creation.named("RoleName", 64)
    shaping = Shaping(documents=frozenset({"AssumeRolePolicyDocument"}))
    found = creation.call("iam", "CreateRole", shaping, RoleName=name)["Role"]
    creation.physical_id = name
    _attach(creation, name, managed, [])
    _write_all(creation, name, own, [])
    return Made(ref=name, attributes={"Arn": found["Arn"], "RoleId": found["RoleId"]})


def update_role(creation: Creation) -> Made:
    """Change who may assume a role, its policies and its tags."""
    name = creation.physical_id
    if (document := creation.take("AssumeRolePolicyDocument")) is not None:
        creation.ask("iam", "UpdateAssumeRolePolicy", RoleName=name, PolicyDocument=json.dumps(document))
    for key, default in _DEFAULTS.items():
        if key in creation.properties:
            creation.ask("iam", "UpdateRole", RoleName=name, **{key: creation.take(key, default)})
    _attach(creation, name, *creation.items("ManagedPolicyArns"))
    _write_all(creation, name, *creation.items("Policies"))
    if "Tags" in creation.properties:
        new, gone = creation.tags()
        creation.ask("iam", "UntagRole", RoleName=name, TagKeys=gone)
        creation.ask("iam", "TagRole", RoleName=name, Tags=new)
    return creation.old.made


def delete_role(creation: Creation) -> None:
    """Delete a role and the policies that the template gave it; IAM rejects it while it has others."""
    name, old = creation.physical_id, creation.old.properties
    _attach(creation, name, [], old.get("ManagedPolicyArns", []))
    _write_all(creation, name, [], old.get("Policies", []))
    creation.ask("iam", "DeleteRole", RoleName=name)


def policy(creation: Creation) -> Made:
    """Write one policy into roles; those of users and groups are not played."""
    name, document = creation.take("PolicyName"), creation.take("PolicyDocument")
    for each in creation.take("Roles", []):
        _write(creation, each, name, document)
    return Made(ref=creation.name(64))


def update_policy(creation: Creation) -> Made:
    """Write a policy into the roles that have it now, and delete it from others."""
    old, new = creation.old.properties, creation.declared
    for each in new.get("Roles", []):
        _write(creation, each, new["PolicyName"], new["PolicyDocument"])
    for each in old.get("Roles", []):
        if each not in new.get("Roles", []) or old["PolicyName"] != new["PolicyName"]:
            creation.ask("iam", "DeleteRolePolicy", RoleName=each, PolicyName=old["PolicyName"])
    for name in ("PolicyName", "PolicyDocument", "Roles"):
        creation.properties.pop(name, None)
    return creation.old.made


def delete_policy(creation: Creation) -> None:
    """Delete a policy from its roles."""
    for each in creation.old.properties.get("Roles", []):
        creation.ask("iam", "DeleteRolePolicy", RoleName=each, PolicyName=creation.old.properties["PolicyName"])


def role_policy(creation: Creation) -> Made:
    """Write a policy into one role."""
    of_role, name = creation.properties["RoleName"], creation.properties["PolicyName"]
    creation.call("iam", "PutRolePolicy", _POLICY)
    return Made(ref=f"{name}|{of_role}")


def managed_policy(creation: Creation) -> Made:
    """Make a managed policy and attach it to roles."""
    roles = creation.take("Roles", [])
    name = creation.named("ManagedPolicyName", 128)
    arn = creation.call("iam", "CreatePolicy", _POLICY, PolicyName=name)["Policy"]["Arn"]
    creation.physical_id = arn
    for each in roles:
        _attach(creation, each, [arn], [])
    return Made(ref=arn, attributes={"PolicyArn": arn})


def update_managed_policy(creation: Creation) -> Made:
    """Make another version of a managed policy the default one, and delete the old version."""
    arn = creation.physical_id
    if (document := creation.take("PolicyDocument")) is not None:
        old = creation.ask("iam", "GetPolicy", PolicyArn=arn)["Policy"]["DefaultVersionId"]
        creation.ask(
            "iam", "CreatePolicyVersion", PolicyArn=arn, PolicyDocument=json.dumps(document), SetAsDefault=True
        )
        creation.ask("iam", "DeletePolicyVersion", PolicyArn=arn, VersionId=old)
    new, gone = creation.items("Roles")
    for each in new:
        _attach(creation, each, [arn], [])
    for each in gone:
        _attach(creation, each, [], [arn])
    return creation.old.made


def delete_managed_policy(creation: Creation) -> None:
    """Detach a managed policy from its roles and delete it."""
    for each in creation.old.properties.get("Roles", []):
        _attach(creation, each, [], [creation.physical_id])
    creation.ask("iam", "DeletePolicy", PolicyArn=creation.physical_id)


def instance_profile(creation: Creation) -> Made:
    """Make an instance profile and put its role in."""
    [of_role] = creation.take("Roles")
    name = creation.named("InstanceProfileName", 128)
    arn = creation.call("iam", "CreateInstanceProfile", InstanceProfileName=name)["InstanceProfile"]["Arn"]
    creation.ask("iam", "AddRoleToInstanceProfile", InstanceProfileName=name, RoleName=of_role)
    return Made(ref=name, attributes={"Arn": arn})


def delete_instance_profile(creation: Creation) -> None:
    """Take the role out of an instance profile and delete it."""
    name, [of_role] = creation.physical_id, creation.old.properties["Roles"]
    creation.ask("iam", "RemoveRoleFromInstanceProfile", InstanceProfileName=name, RoleName=of_role)
    creation.ask("iam", "DeleteInstanceProfile", InstanceProfileName=name)


def _attach(creation: Creation, role: str, new: list[str], gone: list[str]) -> None:
    for arn in new:
        creation.ask("iam", "AttachRolePolicy", RoleName=role, PolicyArn=arn)
    for arn in gone:
        creation.ask("iam", "DetachRolePolicy", RoleName=role, PolicyArn=arn)


def _write_all(creation: Creation, role: str, new: list[dict[str, Any]], gone: list[dict[str, Any]]) -> None:
    for each in gone:
        creation.ask("iam", "DeleteRolePolicy", RoleName=role, PolicyName=each["PolicyName"])
    for each in new:
        _write(creation, role, each["PolicyName"], each["PolicyDocument"])


def _write(creation: Creation, of_role: str, name: str, document: Any) -> None:
    creation.ask("iam", "PutRolePolicy", RoleName=of_role, PolicyName=name, PolicyDocument=json.dumps(document))
