"""Statements of policies, and those that a role has.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from moto.iam.models import iam_backends

from gpu_constructs.rehearsal.players.aws.permissions.conditions import Unjudged

_ELEMENTS = frozenset({"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition", "Principal"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """One statement.

    Attributes:
        name: ``<policy>#<its Sid, or its number from 0>``.
        effect: ``Allow`` or ``Deny``.
        actions: Patterns of actions.
        resources: Patterns of ARNs.
        except_actions: Whether it is about every action but these.
        except_resources: Whether it is about every resource but these.
        condition: Its condition.
        principals: To whom it speaks, by kind; empty for a policy of a role.
    """

    name: str
    effect: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    except_actions: bool = False
    except_resources: bool = False
    condition: Mapping[str, Any] = field(default_factory=dict)
    principals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def statements_of(account: str, role: str) -> list[Statement]:
    """Return the statements of all policies of a role, attached and inline.

    Args:
        account: Whose role it is.
        role: ARN of the role.

    Raises:
        Unjudged: A statement has an element that is not known.
    """
    found = _role(account, role)
    documents = [(policy.arn, _document(policy)) for policy in found.managed_policies.values()]
    documents += [(f"{found.name}/{name}", _loaded(document)) for name, document in found.policies.items()]
    return [statement for name, document in documents for statement in read_statements(name, document)]


def trust_of(account: str, role: str) -> list[Statement]:
    """Return the statements by which a role says who may take it."""
    found = _role(account, role)
    return list(read_statements(f"{found.name}/trust", _loaded(found.assume_role_policy_document)))


def tags_of(account: str, role: str) -> dict[str, str]:
    """Return the tags of a role."""
    return {str(tag["Key"]): str(tag["Value"]) for tag in _role(account, role).tags}


def read_statements(name: str, document: Mapping[str, Any]) -> Iterator[Statement]:
    """Read a policy document.

    Args:
        name: What to call the policy.
        document: The document.

    Raises:
        Unjudged: A statement has an element that is not known.
    """
    said = document.get("Statement", [])
    for number, one in enumerate(said if isinstance(said, list) else [said]):
        unknown = set(one) - _ELEMENTS
        if unknown:
            raise Unjudged(f"{name}: {', '.join(sorted(unknown))} of a statement")
        yield Statement(
            name=f"{name}#{one.get('Sid', number)}",
            effect=one["Effect"],
            actions=_several(one.get("NotAction", one.get("Action"))),
            resources=_several(one.get("NotResource", one.get("Resource", "*"))),
            except_actions="NotAction" in one,
            except_resources="NotResource" in one,
            condition=one.get("Condition", {}),
            principals=_principals(one.get("Principal")),
        )


def _role(account: str, role: str) -> Any:
    return iam_backends[account]["aws"].get_role_by_arn(role)


def _document(policy: Any) -> Mapping[str, Any]:
    version = next(one for one in policy.versions if one.version_id == policy.default_version_id)
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
