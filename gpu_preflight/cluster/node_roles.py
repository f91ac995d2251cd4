"""The IAM role of a pool's nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_preflight.cluster.references import referred, refers
from gpu_preflight.model.cluster import Pool
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import Unknown, items, mapping, mappings

_POLICIES = ("AWS::IAM::Policy", "AWS::IAM::RolePolicy", "AWS::IAM::ManagedPolicy")


def node_role(pool: Pool, resources: Mapping[str, Resource]) -> Resource | None:
    """Return the role of a pool's nodes, ``None`` when it is not in the input."""
    reference = _reference(pool, resources)
    role = referred(reference, resources) or _of_name(reference, resources)
    return role if role is not None and role.type == "AWS::IAM::Role" else None


def _of_name(reference: Any, resources: Mapping[str, Resource]) -> Resource | None:
    """Return the role of a name or an ARN that is written out, as node classes do."""
    name = reference.rpartition("/")[2] if isinstance(reference, str) else None
    roles = (each for each in resources.values() if each.type == "AWS::IAM::Role")
    return next((each for each in roles if name and each.properties.get("RoleName") == name), None)


def _reference(pool: Pool, resources: Mapping[str, Resource]) -> Any:
    if pool.kind == "managed":
        return pool.properties.get("NodeRole")
    if pool.kind != "self-managed":
        return pool.launch.role
    given = pool.launch.profile
    named = mapping(given).get("Arn") or mapping(given).get("Name") or given
    profile = referred(named, resources)
    return next(iter(items(profile.properties.get("Roles"))), None) if profile else None


def policy_names(role: Resource) -> tuple[str, ...] | None:
    """Return the names of AWS's policies that a role has, ``None`` where one of its policies is not known."""
    listed = role.properties.get("ManagedPolicyArns") or []
    if not isinstance(listed, list):
        return None
    texts = [str(each) for each in listed]
    return tuple(each.rpartition("/")[2] for each in texts) if all(":policy/" in each for each in texts) else None


def own_actions(role: Resource, resources: Mapping[str, Resource]) -> list[str] | None:
    """Return what policies written for a role allow, ``None`` where that is not known."""
    documents = _own_policies(role, resources)
    if any(not isinstance(each, dict) for each in documents):
        return None
    found: list[str] = []
    for statement in (one for each in documents for one in _statements(each)):
        actions = statement.get("Action")
        found += [str(each) for each in (actions if isinstance(actions, list) else [actions])]
    return found


def _own_policies(role: Resource, resources: Mapping[str, Resource]) -> list[Any]:
    found = [each.get("PolicyDocument") for each in mappings(role.properties.get("Policies"))]
    for each in resources.values():
        holders = [*items(each.properties.get("Roles")), each.properties.get("RoleName")]
        if each.type in _POLICIES and any(refers(holder, role) for holder in holders):
            found.append(each.properties.get("PolicyDocument"))
    return found


def _statements(document: Any) -> list[dict[str, Any]]:
    statements = mapping(document).get("Statement")
    return mappings(statements if isinstance(statements, list) else [statements])


def trusted_services(role: Resource) -> list[str] | None:
    """Return the services that may assume a role, ``None`` where they are not known."""
    document = role.properties.get("AssumeRolePolicyDocument")
    if not isinstance(document, dict):
        return None
    found: list[str] = []
    for statement in _statements(document):
        principal = statement.get("Principal")
        if isinstance(principal, Unknown) or principal == "*":
            return None
        services = mapping(principal).get("Service")
        found += [str(each) for each in (services if isinstance(services, list) else [services]) if each is not None]
    return found


def is_of_services(role: Resource) -> bool:
    """Whether services alone may assume a role."""
    document = role.properties.get("AssumeRolePolicyDocument")
    principals = [each.get("Principal") for each in _statements(document)] if isinstance(document, dict) else []
    return bool(principals) and all(isinstance(each, dict) and set(each) == {"Service"} for each in principals)
