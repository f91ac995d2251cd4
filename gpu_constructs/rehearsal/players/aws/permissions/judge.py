"""The judge of each call: the caller's policies, and all that the call asks of them."""

from __future__ import annotations

from dataclasses import replace

from botocore.exceptions import ClientError
from moto.iam.exceptions import NotFoundException

from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal
from gpu_constructs.rehearsal.players.aws.api.requests import Request
from gpu_constructs.rehearsal.players.aws.calls import Call
from gpu_constructs.rehearsal.players.aws.permissions.conditions import Unjudged
from gpu_constructs.rehearsal.players.aws.permissions.evaluation import Question, decide
from gpu_constructs.rehearsal.players.aws.permissions.questions import questions_of
from gpu_constructs.rehearsal.players.aws.permissions.statements import statements_of, tags_of
from gpu_constructs.rehearsal.players.aws.region import Region

# How services of the query protocols call it; the others say AccessDeniedException.
_CODES = {"ec2": "UnauthorizedOperation", "iam": "AccessDenied", "sts": "AccessDenied", "autoscaling": "AccessDenied"}


class Judge:
    """Judges calls of roles. The administrator may do everything.

    Args:
        region: Where calls are made.
    """

    def __init__(self, region: Region) -> None:
        self._region = region

    def judge(self, call: Call, request: Request, session_tags: dict[str, str]) -> Call:
        """Return a call with what was decided of it.

        Args:
            call: The call, with its principal.
            request: What is asked.
            session_tags: Tags of the caller's session.
        """
        if not call.principal:
            return call
        try:
            statements = statements_of(self._region.account, call.principal)
            questions = questions_of(self._region, request)
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
        return call.allowed_by(*(each.statement for each in decided))

    def _shared(self, role: str, session_tags: dict[str, str]) -> dict[str, tuple[str, ...]]:
        """Return the keys that every call has, as if it had come over TLS."""
        tags = tags_of(self._region.account, role) | session_tags
        shared = {
            "aws:PrincipalAccount": self._region.account,
            "aws:PrincipalArn": role,
            "aws:RequestedRegion": self._region.name,
            "aws:SecureTransport": "true",
        } | {f"aws:PrincipalTag/{key}": value for key, value in tags.items()}
        return {key: (value,) for key, value in shared.items()}


def refusal_of(call: Call) -> AwsRefusal:
    """Return what the caller of a call that is not allowed is told.

    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
    """
    if call.error:
        return AwsRefusal(call.error, call.message)
    codes = {
        "ec2": "UnauthorizedOperation",
        "iam": "AccessDenied",
        "sts": "AccessDenied",
        "autoscaling": "AccessDenied",
    }
    return AwsRefusal(codes.get(call.service, "AccessDeniedException"), call.message)


def _denied(call: Call, question: Question, statement: str) -> str:
    account, name = call.principal.split(":")[4], call.principal.rpartition("/")[2]
    who = f"arn:aws:sts::{account}:assumed-role/{name}/rehearsal"
    why = f"because no identity-based policy allows the {question.action} action"
    if statement:
        why = f"with an explicit deny in {statement}"
    return f"User: {who} is not authorized to perform: {question.action} on resource: {question.resource} {why}"
