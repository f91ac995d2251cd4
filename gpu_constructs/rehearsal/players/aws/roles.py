"""Who gets the credentials of a role, as its trust policy says: pods, schedules, functions and other roles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, NoReturn

from gpu_constructs.rehearsal.players.aws.api.operations import plays
from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal
from gpu_constructs.rehearsal.players.aws.api.requests import Request
from gpu_constructs.rehearsal.players.aws.calls import Call
from gpu_constructs.rehearsal.players.aws.permissions.conditions import Unjudged
from gpu_constructs.rehearsal.players.aws.permissions.context import request_tags
from gpu_constructs.rehearsal.players.aws.permissions.evaluation import Decision, Question
from gpu_constructs.rehearsal.players.aws.permissions.statements import trust_of
from gpu_constructs.rehearsal.players.aws.permissions.trust import lets_in
from gpu_constructs.rehearsal.players.aws.principals import Principals
from gpu_constructs.rehearsal.players.aws.region import Region
from gpu_constructs.rehearsal.players.credentials import Credentials


class Roles:
    """STS.

    Args:
        region: Where roles are taken.
        principals: Whose keys are known.
        write: Writes a call down.
    """

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
    ) -> Credentials:
        """Return credentials of a role for somebody whom its trust policy lets in.

        Args:
            role: ARN of the role.
            kind: ``Service`` or ``AWS``.
            principal: ``pods.eks.amazonaws.com``, or the ARN of another role.
            tags: Tags of the session.
            source: Keys ``aws:SourceArn`` and ``aws:SourceAccount`` of a service that acts for something.

        Raises:
            AwsRefusal: It lets them not in.
        """
        context = request_tags(tags or {}) | {key: (value,) for key, value in (source or {}).items()}
        call = Call(principal=principal, service="sts", action="sts:AssumeRole", resources=(role,))
        used = []
        for action in ("sts:AssumeRole", "sts:TagSession") if tags else ("sts:AssumeRole",):
            decision = self._decide(call, role, Question(action=action, context=context), kind, principal)
            if not decision.allowed:
                message = f"User: {principal} is not authorized to perform: {action} on resource: {role}"
                self._refuse(call, "AccessDenied", message)
            used.append(decision.statement)
        self._write(call.allowed_by(*used))
        return self._principals.credentials(role, tags=dict(tags or {}))

    def _decide(self, call: Call, role: str, question: Question, kind: str, principal: str) -> Decision:
        try:
            return lets_in(trust_of(self._region.account, role), question, kind=kind, principal=principal)
        except Unjudged as error:
            self._refuse(call, "NotPlayed", f"the trust of {role}: {error}")

    @plays("sts", "AssumeRole")
    def assume_role(self, request: Request) -> Mapping[str, Any]:
        """Give one role's holder the credentials of another.

        Source: https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
        """
        role, caller = str(request.parameters["RoleArn"]), self._principals.role_of(request.access_key)
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
        role = self._principals.role_of(request.access_key) or self._principals.administrator
        return {"UserId": "AROA:rehearsal", "Account": self._region.account, "Arn": self._session(role)}

    def _session(self, role: str) -> str:
        return f"arn:aws:sts::{self._region.account}:assumed-role/{role.rpartition('/')[2]}/rehearsal"

    def _refuse(self, call: Call, code: str, message: str) -> NoReturn:
        self._write(call.refused(code, message))
        raise AwsRefusal(code, message)
