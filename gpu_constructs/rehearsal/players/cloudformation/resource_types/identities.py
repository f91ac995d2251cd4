"""Roles and policies of IAM.

Source of every type: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_IAM.html (2026-11)
"""

from __future__ import annotations

import json
from typing import Any

from gpu_constructs.rehearsal.players.cloudformation.creation import Creation, Made
from gpu_constructs.rehearsal.players.cloudformation.shaping import Shaping

_POLICY = Shaping(documents=frozenset({"PolicyDocument"}))


def role(creation: Creation) -> Made:
    """Make a role, then attach managed policies and write its own."""
    managed, own = creation.take("ManagedPolicyArns", []), creation.take("Policies", [])
    name = creation.named("RoleName", 64)
    shaping = Shaping(documents=frozenset({"AssumeRolePolicyDocument"}))
    found = creation.call("iam", "CreateRole", shaping, RoleName=name)["Role"]
    for arn in managed:
        creation.ask("iam", "AttachRolePolicy", RoleName=name, PolicyArn=arn)
    for policy in own:
        _write(creation, name, policy["PolicyName"], policy["PolicyDocument"])
    return Made(ref=name, attributes={"Arn": found["Arn"], "RoleId": found["RoleId"]})


def policy(creation: Creation) -> Made:
    """Write one policy into roles; those of users and groups are not played."""
    name, document = creation.take("PolicyName"), creation.take("PolicyDocument")
    for each in creation.take("Roles", []):
        _write(creation, each, name, document)
    return Made(ref=creation.name(64))


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
    for each in roles:
        creation.ask("iam", "AttachRolePolicy", RoleName=each, PolicyArn=arn)
    return Made(ref=arn, attributes={"PolicyArn": arn})


def instance_profile(creation: Creation) -> Made:
    """Make an instance profile and put its role in."""
    [of_role] = creation.take("Roles")
    name = creation.named("InstanceProfileName", 128)
    arn = creation.call("iam", "CreateInstanceProfile", InstanceProfileName=name)["InstanceProfile"]["Arn"]
    creation.ask("iam", "AddRoleToInstanceProfile", InstanceProfileName=name, RoleName=of_role)
    return Made(ref=name, attributes={"Arn": arn})


def _write(creation: Creation, of_role: str, name: str, document: Any) -> None:
    creation.ask("iam", "PutRolePolicy", RoleName=of_role, PolicyName=name, PolicyDocument=json.dumps(document))
