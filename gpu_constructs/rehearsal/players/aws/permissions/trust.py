"""Whom a policy of a resource lets in: the trust policy of a role, the policy of a queue.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html
"""

from __future__ import annotations

from collections.abc import Iterable

from gpu_constructs.rehearsal.players.aws.permissions.conditions import Unjudged
from gpu_constructs.rehearsal.players.aws.permissions.evaluation import Decision, Question, decide
from gpu_constructs.rehearsal.players.aws.permissions.statements import Statement

KINDS = frozenset({"*", "AWS", "Service"})


def lets_in(statements: Iterable[Statement], question: Question, *, kind: str, principal: str) -> Decision:
    """Return whether a policy lets a principal do something with what it belongs to.

    Args:
        statements: What the policy says.
        question: What is to be done.
        kind: ``AWS`` or ``Service``.
        principal: ARN of a role, or name of a service.

    Raises:
        Unjudged: It speaks of principals that are not known, or has a condition that is not.
    """
    return decide([one for one in statements if _speaks_of(one, kind, principal)], question)


def _speaks_of(statement: Statement, kind: str, principal: str) -> bool:
    unknown = set(statement.principals) - KINDS
    if unknown:
        raise Unjudged(f"{statement.name}: the principal {', '.join(sorted(unknown))}")
    if "*" in statement.principals or "*" in statement.principals.get(kind, ()):
        return True
    named = statement.principals.get(kind, ())
    return any(each == principal or _is_account_of(each, principal) for each in named)


def _is_account_of(named: str, principal: str) -> bool:
    """Return whether an account is named that a role belongs to."""
    account = principal.split(":")[4] if principal.startswith("arn:") else None
    return account is not None and named in (account, f"arn:aws:iam::{account}:root")
