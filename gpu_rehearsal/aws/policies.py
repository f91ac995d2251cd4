"""IAM policies: statements, conditions, and whether they allow an action on a resource.

Sources: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements.html,
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html,
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from moto.iam.models import iam_backends

Context = Mapping[str, Sequence[str]]

# Supported condition keys: if one isn't in a context, the call doesn't have it. Keys are case-insensitive.
_KNOWN_KEYS = frozenset(
    key.lower()
    for key in (
        "aws:PrincipalAccount",
        "aws:PrincipalArn",
        "aws:RequestedRegion",
        "aws:SecureTransport",
        "aws:SourceAccount",
        "aws:SourceArn",
        "aws:TagKeys",
        "arc-zonal-shift:ResourceIdentifier",
        "ec2:CreateAction",
        "iam:PassedToService",
    )
)
_KNOWN_FAMILIES = tuple(
    family.lower()
    for family in (
        "aws:PrincipalTag/",
        "aws:RequestTag/",
        "aws:ResourceTag/",
        "autoscaling:ResourceTag/",
        "ec2:ResourceTag/",
    )
)


def _is_known(key: str) -> bool:
    """Return whether a condition key is supported."""
    return key.lower() in _KNOWN_KEYS or key.lower().startswith(_KNOWN_FAMILIES)


def request_tags(tags: Mapping[str, str]) -> dict[str, Sequence[str]]:
    """Return the condition keys of a call that sets tags."""
    named: dict[str, Sequence[str]] = {f"aws:RequestTag/{key}": (value,) for key, value in tags.items()}
    return named | ({"aws:TagKeys": tuple(tags)} if tags else {})


def resource_tags(tags: Mapping[str, str], service: str = "") -> dict[str, Sequence[str]]:
    """Return the condition keys of a call about a resource with tags.

    Args:
        tags: Its tags.
        service: Service with its own condition key for tags.
    """
    families = ("aws", service) if service else ("aws",)
    return {f"{family}:ResourceTag/{key}": (value,) for family in families for key, value in tags.items()}


def pairs(tags: Sequence[Mapping[str, Any]] | None) -> dict[str, str]:
    """Return tags as a mapping, from a list in the format of most APIs."""
    return {str(tag["Key"]): str(tag.get("Value", "")) for tag in tags or ()}


_VARIABLE = re.compile(r"\$\{([^}]*)\}")


class UnknownPermission(Exception):
    """An element of a policy that isn't supported. The call is denied."""


def matches(pattern: str, value: str) -> bool:
    """Return whether a value matches a pattern. ``*`` matches any text, and ``?`` one character."""
    parts = (".*" if each == "*" else "." if each == "?" else re.escape(each) for each in pattern)
    return re.fullmatch("".join(parts), value, re.DOTALL) is not None


def _matches_arn(pattern: str, value: str) -> bool:
    """Return whether an ARN matches a pattern, field by field."""
    wanted, found = pattern.split(":", 5), value.split(":", 5)
    return len(wanted) == len(found) == 6 and all(map(matches, wanted, found))


_POSITIVE: dict[str, Callable[[str, str], bool]] = {
    "StringEquals": lambda wanted, found: wanted == found,
    "StringEqualsIgnoreCase": lambda wanted, found: wanted.lower() == found.lower(),
    "StringLike": matches,
    "ArnEquals": _matches_arn,
    "ArnLike": _matches_arn,
    "Bool": lambda wanted, found: wanted.lower() == found.lower(),
}
_NEGATIVE = {
    "StringNotEquals": "StringEquals",
    "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase",
    "StringNotLike": "StringLike",
    "ArnNotEquals": "ArnEquals",
    "ArnNotLike": "ArnLike",
}


def holds(condition: Mapping[str, Any], context: Context) -> bool:
    """Return whether every operator of a condition holds for every key.

    Args:
        condition: The ``Condition`` of a statement.
        context: The keys of a call.

    Raises:
        UnknownPermission: An operator or a key isn't supported.
    """
    found = {key.lower(): tuple(values) for key, values in context.items()}
    conditions = [(operator, key, wanted) for operator, keys in condition.items() for key, wanted in keys.items()]
    for _, key, _ in conditions:
        if not _is_known(key):
            raise UnknownPermission(f"the condition key {key}")
    # All are evaluated, so that an unsupported operator is reported even if another one doesn't hold.
    return all(
        [
            _operator_holds(operator, found.get(key.lower()), _listed(wanted), found)
            for operator, key, wanted in conditions
        ]
    )


def _operator_holds(name: str, found: Sequence[str] | None, wanted: list[str], context: Context) -> bool:
    """Return whether one operator holds for the values of one key."""
    quantifier, _, operator = name.rpartition(":")
    operator, if_exists = operator.removesuffix("IfExists"), operator.endswith("IfExists")
    if operator == "Null":
        return (found is None) == (wanted[0].lower() == "true")
    test = _test(operator, [_filled(each, context) for each in wanted])
    if found is None:
        return if_exists or quantifier == "ForAllValues" or (not quantifier and operator in _NEGATIVE)
    if quantifier == "ForAllValues":
        return all(test(each) for each in found)
    if quantifier == "ForAnyValue" or (not quantifier and len(found) == 1):
        return any(test(each) for each in found)
    raise UnknownPermission(f"the operator {name} for {len(found)} values")


def _test(operator: str, wanted: list[str]) -> Callable[[str], bool]:
    if operator in _POSITIVE:
        return lambda value: any(_POSITIVE[operator](each, value) for each in wanted)
    if operator in _NEGATIVE:
        return lambda value: not any(_POSITIVE[_NEGATIVE[operator]](each, value) for each in wanted)
    raise UnknownPermission(f"the condition operator {operator}")


def _filled(pattern: str, context: Context) -> str:
    """Return a value with its policy variables replaced.

    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html
    """

    def variable_value(variable: re.Match[str]) -> str:
        values = context.get(variable[1].lower(), ())
        if len(values) != 1:
            raise UnknownPermission(f"the policy variable {variable[0]}")
        return values[0]

    return _VARIABLE.sub(variable_value, pattern)


def _listed(values: Any) -> list[str]:
    several = values if isinstance(values, list) else [values]
    return [str(each).lower() if isinstance(each, bool) else str(each) for each in several]


_ELEMENTS = frozenset({"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition", "Principal"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """One statement.

    Attributes:
        name: ``<policy>#<Sid, or index>``.
        effect: ``Allow`` or ``Deny``.
        actions: Patterns of actions.
        resources: Patterns of ARNs.
        except_actions: Whether it applies to every action except these.
        except_resources: Whether it applies to every resource except these.
        condition: Its condition.
        principals: Its principals, by kind; empty for a policy of a role.
    """

    name: str
    effect: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    except_actions: bool = False
    except_resources: bool = False
    condition: Mapping[str, Any] = field(default_factory=dict)
    principals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def role_statements(account: str, role: str) -> list[Statement]:
    """Return the statements of all policies of a role, attached and inline.

    Raises:
        UnknownPermission: A statement has an unsupported element.
    """
    found = _role(account, role)
    documents = [(policy.arn, _document(policy)) for policy in found.managed_policies.values()]
    documents += [(f"{found.name}/{name}", _loaded(document)) for name, document in found.policies.items()]
    return [statement for name, document in documents for statement in read_statements(name, document)]


def trust_statements(account: str, role: str) -> list[Statement]:
    """Return the statements of a role's trust policy."""
    found = _role(account, role)
    return list(read_statements(f"{found.name}/trust", _loaded(found.assume_role_policy_document)))


def role_tags(account: str, role: str) -> dict[str, str]:
    """Return the tags of a role."""
    return {str(tag["Key"]): str(tag["Value"]) for tag in _role(account, role).tags}


def read_statements(name: str, document: Mapping[str, Any]) -> Iterator[Statement]:
    """Parse a policy document.

    Raises:
        UnknownPermission: A statement has an unsupported element.
    """
    statements = document.get("Statement", [])
    for number, statement in enumerate(statements if isinstance(statements, list) else [statements]):
        unknown = set(statement) - _ELEMENTS
        if unknown:
            raise UnknownPermission(f"{name}: {', '.join(sorted(unknown))} of a statement")
        yield Statement(
            name=f"{name}#{statement.get('Sid', number)}",
            effect=statement["Effect"],
            actions=_several(statement.get("NotAction", statement.get("Action"))),
            resources=_several(statement.get("NotResource", statement.get("Resource", "*"))),
            except_actions="NotAction" in statement,
            except_resources="NotResource" in statement,
            condition=statement.get("Condition", {}),
            principals=_principals(statement.get("Principal")),
        )


def _role(account: str, role: str) -> Any:
    return iam_backends[account]["aws"].get_role_by_arn(role)


def _document(policy: Any) -> Mapping[str, Any]:
    version = next(version for version in policy.versions if version.version_id == policy.default_version_id)
    return _loaded(version.document)


def _loaded(document: Any) -> Mapping[str, Any]:
    if isinstance(document, Mapping):
        return document
    loaded = json.loads(document if document.lstrip().startswith("{") else unquote(document))
    return dict(loaded)


def _several(value: Any) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, list) else (str(value),)


def _principals(value: Any) -> dict[str, tuple[str, ...]]:
    if value is None:
        return {}
    if value == "*":
        return {"*": ("*",)}
    return {kind: _several(named) for kind, named in value.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessRequest:
    """An action on a resource whose permission is checked.

    Attributes:
        action: The action, e.g. ``ec2:RunInstances``.
        resource: Its ARN; ``*`` for an action without a resource.
        context: Condition keys of the call for this resource.
    """

    action: str
    resource: str = "*"
    context: Context = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The result of a permission check.

    Attributes:
        allowed: Whether the action is allowed.
        statement: Name of the statement that allows or denies it; empty if none applies.
    """

    allowed: bool
    statement: str = ""


def decide(statements: Iterable[Statement], access_request: AccessRequest) -> Decision:
    """Return whether an action is allowed: a statement allows it, and none denies it.

    Raises:
        UnknownPermission: A statement for this action and resource has an unsupported condition.
    """
    matching = [statement for statement in statements if applies(statement, access_request)]
    denied = next((statement for statement in matching if statement.effect == "Deny"), None)
    if denied:
        return Decision(allowed=False, statement=denied.name)
    allowed = next((statement for statement in matching if statement.effect == "Allow"), None)
    return Decision(allowed=allowed is not None, statement=allowed.name if allowed else "")


def applies(statement: Statement, access_request: AccessRequest) -> bool:
    """Return whether a statement applies to this action, resource and context."""
    action = any(matches(each.lower(), access_request.action.lower()) for each in statement.actions)
    resource = any(matches(each, access_request.resource) for each in statement.resources)
    if action == statement.except_actions or resource == statement.except_resources:
        return False
    return holds(statement.condition, access_request.context)


_PRINCIPAL_KINDS = frozenset({"*", "AWS", "Service"})


def decide_for_principal(
    statements: Iterable[Statement], access_request: AccessRequest, *, kind: str, principal: str
) -> Decision:
    """Return whether the policy of a resource allows an action of a principal.

    Args:
        statements: Statements of the policy.
        access_request: The action to check.
        kind: ``AWS`` or ``Service``.
        principal: ARN of a role, or name of a service.

    Raises:
        UnknownPermission: It has unsupported principals or conditions.
    """
    return decide(
        [statement for statement in statements if _names_principal(statement, kind, principal)], access_request
    )


def _names_principal(statement: Statement, kind: str, principal: str) -> bool:
    unknown = set(statement.principals) - _PRINCIPAL_KINDS
    if unknown:
        raise UnknownPermission(f"{statement.name}: the principal {', '.join(sorted(unknown))}")
    if "*" in statement.principals or "*" in statement.principals.get(kind, ()):
        return True
    named = statement.principals.get(kind, ())
    return any(each == principal or _is_principal_account(each, principal) for each in named)


def _is_principal_account(named: str, principal: str) -> bool:
    """Return whether a policy names the account of a role."""
    account = principal.split(":")[4] if principal.startswith("arn:") else None
    return account is not None and named in (account, f"arn:aws:iam::{account}:root")
