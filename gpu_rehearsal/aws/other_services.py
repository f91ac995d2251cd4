"""IAM and STS (who gets credentials of a role), and the parts of Lambda, CloudFormation and ECR that programs call."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import Any, NoReturn
from urllib.parse import unquote

from moto.iam.aws_managed_policies import aws_managed_policies_data
from moto.iam.models import AWSManagedPolicy, iam_backends

from gpu_rehearsal.aws.api import AwsRefusal, Request, Unplayed, plays
from gpu_rehearsal.aws.policies import (
    Decision,
    Question,
    Unjudged,
    decide,
    decide_for_principal,
    request_tags,
    role_statements,
    trust_statements,
)
from gpu_rehearsal.aws.region import Call, Principals, Region
from gpu_rehearsal.credentials import Credentials, FunctionError, Source

Invoke = Callable[[str, bytes], bytes]
_VALID = timedelta(hours=12)
_AWS = "arn:aws:iam::aws:policy/"


class OtherServices:
    """Lambda functions, stacks and registries of an account.

    Attributes:
        invoke: What runs a function, called with name and payload.
        resources: What returns the physical id of a resource by its logical id, by name and ARN of the stack.
    """

    def __init__(self) -> None:
        self.invoke: Invoke | None = None
        self.resources: dict[str, Callable[[str], str]] = {}

    @plays("lambda", "Invoke")
    def run(self, request: Request) -> Mapping[str, Any]:
        """Run a function and return what it answers.

        Source: https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html
        """
        name = function_name(request.parameters["FunctionName"])
        if self.invoke is None:
            raise Unplayed(f"the function {name}")
        answered: dict[str, Any] = {"StatusCode": 200, "ExecutedVersion": "$LATEST"}
        try:
            return answered | {"Payload": self.invoke(name, request.parameters.get("Payload") or b"{}")}
        except FunctionError as error:
            return answered | {"FunctionError": error.kind, "Payload": error.payload}
        except LookupError as error:
            raise AwsRefusal("ResourceNotFoundException", str(error)) from error

    @plays("cloudformation", "DescribeStackResource")
    def stack_resource(self, request: Request) -> Mapping[str, Any]:
        """Return the resource that a stack had before the operation that runs; of a creation, none.

        Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_DescribeStackResource.html
        """
        stack, name = (str(request.parameters[each]) for each in ("StackName", "LogicalResourceId"))
        find = self.resources.get(stack)
        if not (found := find(name) if find else ""):
            raise AwsRefusal("ValidationError", f"Resource {name} does not exist for stack {stack}")
        return {"StackResourceDetail": {"LogicalResourceId": name, "PhysicalResourceId": found}}

    @plays("ecr-public", "GetAuthorizationToken")
    def log_in_to_public(self, request: Request) -> Mapping[str, Any]:
        """Return a token of the public registry.

        Source: https://docs.aws.amazon.com/AmazonECRPublic/latest/APIReference/API_GetAuthorizationToken.html
        """
        return {"authorizationData": _token()}

    @plays("ecr", "GetAuthorizationToken")
    def log_in_to_private(self, request: Request) -> Mapping[str, Any]:
        """Return a token of a registry of an account.

        Source: https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_GetAuthorizationToken.html
        """
        return {"authorizationData": [_token()]}


def function_name(reference: str) -> str:
    """Return the name in a name, a partial ARN or an ARN of a function.

    Source: https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html (2026-11)
    """
    parts = unquote(reference).split(":")
    return parts[parts.index("function") + 1] if "function" in parts else parts[-1]


def _token() -> dict[str, Any]:
    token = base64.b64encode(b"AWS:rehearsal").decode()
    return {"authorizationToken": token, "expiresAt": datetime.now(timezone.utc) + _VALID}


class Roles:
    """STS."""

    def __init__(self, region: Region, principals: Principals, write: Callable[[Call], None]) -> None:
        self._region, self._principals, self._write = region, principals, write

    def assume(
        self,
        role: str,
        *,
        kind: str,
        principal: str,
        tags: Mapping[str, str] | None = None,
        source: Mapping[str, str] | None = None,
        calls_from: Source | None = None,
    ) -> Credentials:
        """Return credentials of a role for somebody whom its trust policy lets in.

        Args:
            role: ARN of the role.
            kind: ``Service`` or ``AWS``.
            principal: ``pods.eks.amazonaws.com``, or the ARN of another role.
            tags: Tags of the session.
            source: Keys ``aws:SourceArn`` and ``aws:SourceAccount`` of a service that acts for something.
            calls_from: Where calls with the credentials come from.

        Raises:
            AwsRefusal: It lets them not in.
        """
        context = request_tags(tags or {}) | {key: (value,) for key, value in (source or {}).items()}
        call = Call(principal=principal, service="sts", action="sts:AssumeRole", resources=(role,))
        used = []
        for action in ("sts:AssumeRole", "sts:TagSession") if tags else ("sts:AssumeRole",):
            decision = self._decide(call, role, Question(action=action, context=context), kind, principal)
            if not decision.allowed:
                session = f" with session tags {dict(tags)}" if tags else ""
                message = f"User: {principal} is not authorized to perform: {action} on resource: {role}"
                why = f"no statement of its trust policy allows it{session}"
                self._refuse(replace(call, action=action), "AccessDenied", f"{message} because {why}")
            used.append(decision.statement)
        self._write(call.with_statements(*used))
        return self._principals.credentials(role, tags=dict(tags or {}), source=calls_from)

    def check(self, role: str, action: str, resource: str) -> None:
        """Write down a call of a role that a service answers inside of another call.

        Raises:
            AwsRefusal: Its policies don't allow it.
        """
        call = Call(principal=role, service=action.partition(":")[0], action=action, resources=(resource,))
        try:
            decision = decide(role_statements(self._region.account, role), Question(action=action, resource=resource))
        except Unjudged as error:
            self._refuse(call, "NotPlayed", f"the permission of {action}: {error}")
        if not decision.allowed:
            message = f"User: {self._session(role)} is not authorized to perform: {action} on resource: {resource}"
            self._refuse(call, "AccessDeniedException", message)
        self._write(call.with_statements(decision.statement))

    def _decide(self, call: Call, role: str, question: Question, kind: str, principal: str) -> Decision:
        try:
            return decide_for_principal(
                trust_statements(self._region.account, role), question, kind=kind, principal=principal
            )
        except Unjudged as error:
            self._refuse(call, "NotPlayed", f"the trust of {role}: {error}")

    @plays("sts", "AssumeRole")
    def assume_role(self, request: Request) -> Mapping[str, Any]:
        """Give one role's holder the credentials of another.

        Source: https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
        """
        role, caller = str(request.parameters["RoleArn"]), self._principals.resolve_role(request.access_key)
        tags = {tag["Key"]: tag["Value"] for tag in request.parameters.get("Tags", ())}
        credentials = self.assume(role, kind="AWS", principal=caller or self._principals.administrator, tags=tags)
        given = {
            "AccessKeyId": credentials.access_key,
            "SecretAccessKey": credentials.secret_key,
            "SessionToken": credentials.token,
            "Expiration": datetime.now(timezone.utc) + timedelta(hours=1),
        }
        user = {"AssumedRoleId": f"AROA:{request.parameters['RoleSessionName']}", "Arn": self._session(role)}
        return {"Credentials": given, "AssumedRoleUser": user}

    @plays("sts", "GetCallerIdentity")
    def identity(self, request: Request) -> Mapping[str, Any]:
        """Say who calls.

        Source: https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
        """
        role = self._principals.resolve_role(request.access_key) or self._principals.administrator
        return {"UserId": "AROA:rehearsal", "Account": self._region.account, "Arn": self._session(role)}

    def _session(self, role: str) -> str:
        return f"arn:aws:sts::{self._region.account}:assumed-role/{role.rpartition('/')[2]}/rehearsal"

    def _refuse(self, call: Call, code: str, message: str) -> NoReturn:
        self._write(call.refused(code, message))
        raise AwsRefusal(code, message)

    @plays("iam", "ListInstanceProfiles")
    def instance_profiles(self, request: Request) -> Mapping[str, Any]:
        """Return those whose path begins as is asked, all at once."""
        prefix = str(request.parameters.get("PathPrefix") or "/")
        known = self._region.service("iam").list_instance_profiles()["InstanceProfiles"]
        return {"InstanceProfiles": [each for each in known if each["Path"].startswith(prefix)], "IsTruncated": False}

    @plays("iam", "AttachRolePolicy")
    def attach(self, request: Request) -> None:
        """Make a policy known, and have moto attach it."""
        arn = str(request.parameters["PolicyArn"])
        kept = iam_backends[self._region.account]["aws"].managed_policies
        name = arn.rpartition("/")[2]
        if arn.startswith(_AWS) and arn not in kept and name in _published():
            policy = AWSManagedPolicy.from_data(name, self._region.account, self._region.name, _published()[name])
            if policy.arn == arn:
                kept[arn] = policy


@cache
def _published() -> Mapping[str, dict[str, Any]]:
    """Return moto's record of all of them, by name."""
    return dict(json.loads(aws_managed_policies_data))
