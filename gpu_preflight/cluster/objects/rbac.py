"""What service accounts and groups may do in a cluster, as far as its roles and bindings are in the input.

Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/ (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, known_text, mappings

# Roles that every cluster has, and that may read nodes and pods alike.
_OF_EVERY_CLUSTER = ("cluster-admin",)


def may_everywhere(account: tuple[str, str], verbs: tuple[str, ...], resource: str, cluster: Cluster) -> Answer:
    """Say whether a service account may do something with a resource of the core group in every namespace.

    Args:
        account: Namespace and name of the service account.
        verbs: What it is to do.
        resource: E.g. ``nodes``.
        cluster: Its cluster.
    """
    answers = [_allows(role, verbs, resource) for role in _roles(account, cluster)]
    if Answer.YES in answers:
        return Answer.YES
    return Answer.UNKNOWN if Answer.UNKNOWN in answers else Answer.NO


def is_bound(account: tuple[str, str], cluster: Cluster) -> bool:
    """Whether a ClusterRoleBinding names a service account, or may."""
    return any(True for _ in _roles(account, cluster))


def bound_groups(cluster: Cluster) -> Iterator[tuple[Object, str]]:
    """Yield each group that a binding names, with the binding."""
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        for binding in cluster.of_kind(kind):
            for subject in mappings(binding.content.get("subjects")):
                name = known_text(subject.get("name"))
                if subject.get("kind") == "Group" and name is not None:
                    yield binding, name


def _roles(account: tuple[str, str], cluster: Cluster) -> Iterator[Object | str | None]:
    """Yield the roles that an account is bound to: one of the input, the name of another, ``None`` where unknown."""
    there = {each.name: each for each in cluster.of_kind("ClusterRole")}
    for binding in cluster.of_kind("ClusterRoleBinding"):
        if any(_is(subject, account) for subject in _subjects(binding)):
            name = known_text(dig(binding.content, "roleRef", "name"))
            yield None if name is None else there.get(name, name)


def _subjects(binding: Object) -> list[Any]:
    listed = binding.content.get("subjects")
    return [Unknown("${subjects}")] if isinstance(listed, Unknown) else mappings(listed)


def _is(subject: Any, account: tuple[str, str]) -> bool:
    if isinstance(subject, Unknown):
        return True
    space, name = account
    if subject.get("kind") == "Group":
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{space}", "system:authenticated")
        return isinstance(subject.get("name"), Unknown) or subject.get("name") in groups
    return _same(subject.get("namespace"), space) and _same(subject.get("name"), name)


def _same(written: Any, text: str) -> bool:
    return isinstance(written, Unknown) or written == text


def _allows(role: Object | str | None, verbs: tuple[str, ...], resource: str) -> Answer:
    if role is None or isinstance(role, str):
        return Answer.YES if role in _OF_EVERY_CLUSTER else Answer.UNKNOWN
    rules = role.content.get("rules")
    if isinstance(rules, Unknown) or role.content.get("aggregationRule"):
        return Answer.UNKNOWN
    given: set[str] = set()
    for rule in mappings(rules):
        parts = [rule.get(key) for key in ("apiGroups", "resources", "verbs")]
        if any(not isinstance(each, list) for each in parts):
            return Answer.UNKNOWN
        groups, resources, allowed = parts
        if _has(groups, "") and _has(resources, resource) and not rule.get("resourceNames"):
            given |= {verb for verb in verbs if _has(allowed, verb)}
    return Answer.YES if given == set(verbs) else Answer.NO


def _has(listed: Any, name: str) -> bool:
    return any(each in ("*", name) or isinstance(each, Unknown) for each in listed)
