"""Whether statements allow an action on a resource.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpu_constructs.rehearsal.players.aws.permissions.conditions import holds, matches
from gpu_constructs.rehearsal.players.aws.permissions.context import Context
from gpu_constructs.rehearsal.players.aws.permissions.statements import Statement


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """May somebody do this to that?

    Attributes:
        action: ``ec2:RunInstances``.
        resource: ARN; ``*`` of an action that is about no resource.
        context: Keys of the call about this resource.
    """

    action: str
    resource: str = "*"
    context: Context = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The answer.

    Attributes:
        allowed: Whether.
        statement: Name of the statement that allows or denies it; empty when none speaks of it.
    """

    allowed: bool
    statement: str = ""


def decide(statements: Iterable[Statement], question: Question) -> Decision:
    """Return whether an action is allowed: somebody allows it and nobody denies it.

    Args:
        statements: All that are said of the caller.
        question: What is asked.

    Raises:
        Unjudged: A statement about this action and resource has a condition that is not known.
    """
    said = [one for one in statements if applies(one, question)]
    denied = next((one for one in said if one.effect == "Deny"), None)
    if denied:
        return Decision(allowed=False, statement=denied.name)
    allowed = next((one for one in said if one.effect == "Allow"), None)
    return Decision(allowed=allowed is not None, statement=allowed.name if allowed else "")


def applies(statement: Statement, question: Question) -> bool:
    """Return whether a statement speaks of this action on this resource in this context."""
    action = any(matches(each.lower(), question.action.lower()) for each in statement.actions)
    resource = any(matches(each, question.resource) for each in statement.resources)
    if action == statement.except_actions or resource == statement.except_resources:
        return False
    return holds(statement.condition, question.context)
