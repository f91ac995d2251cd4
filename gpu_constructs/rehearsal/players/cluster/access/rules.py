"""Rules of RBAC that service accounts have, and those of them that nothing used.

Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gpu_constructs.rehearsal.players.cluster.access.audit import RbacUse
from gpu_constructs.rehearsal.players.cluster.client import Client, Object

_RBAC = "/apis/rbac.authorization.k8s.io/v1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One thing that a service account may do.

    Attributes:
        user: The account, ``system:serviceaccount:<namespace>:<name>``.
        role: Kind and name of the role that says so.
        namespace: Where it may; empty for the whole cluster.
        verb: What.
        group: API group; empty for the core.
        resource: Plural, with its subresource; empty where ``path`` says it.
        names: Of which objects; empty for all.
        path: Path that is no resource.
    """

    user: str
    role: str
    namespace: str
    verb: str
    group: str = ""
    resource: str = ""
    names: tuple[str, ...] = ()
    path: str = ""

    def allows(self, use: RbacUse) -> bool:
        """Whether it lets somebody do that."""
        if use.user != self.user or self.verb not in (use.verb, "*"):
            return False
        if self.path or use.path:
            return bool(self.path) and _is_path(self.path, use.path)
        return (
            self.namespace in ("", use.namespace)
            and self.group in (use.group, "*")
            and _is_resource(self.resource, use.resource)
            and (not self.names or use.name in self.names)
        )


def rules_of_accounts(client: Client) -> list[Rule]:
    """Return what every service account may do by a binding that names it."""
    found: list[Rule] = []
    for each in client.list(f"{_RBAC}/clusterrolebindings"):
        found += _of_binding(client, each, "")
    for each in client.list(f"{_RBAC}/rolebindings"):
        found += _of_binding(client, each, each["metadata"]["namespace"])
    return found


def unused(rules: Iterable[Rule], uses: Iterable[RbacUse]) -> list[Rule]:
    """Return the rules that let nobody do anything."""
    asked = {each for each in uses if each.decision == "allow"}
    return [each for each in rules if not any(each.allows(use) for use in asked)]


def _of_binding(client: Client, binding: Object, namespace: str) -> Iterator[Rule]:
    subjects = [each for each in binding.get("subjects", ()) if each["kind"] == "ServiceAccount"]
    if not subjects:
        return
    of = binding["roleRef"]
    place = f"namespaces/{namespace}/roles" if of["kind"] == "Role" else "clusterroles"
    role = client.find(f"{_RBAC}/{place}/{of['name']}") or {}
    for subject in subjects:
        user = f"system:serviceaccount:{subject.get('namespace', namespace)}:{subject['name']}"
        for rule in role.get("rules") or ():
            yield from _split(rule, user=user, role=f"{of['kind']} {of['name']}", namespace=namespace)


def _split(rule: Object, **of: Any) -> Iterator[Rule]:
    """Return a rule for each verb of each resource: which of them is too much is what is asked."""
    for verb in rule["verbs"]:
        for path in rule.get("nonResourceURLs") or ():
            yield Rule(verb=verb, path=path, **of)
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                yield Rule(
                    verb=verb, group=group, resource=resource, names=tuple(rule.get("resourceNames") or ()), **of
                )


def _is_path(pattern: str, path: str) -> bool:
    return path.startswith(pattern.removesuffix("*")) if pattern.endswith("*") else path == pattern


def _is_resource(pattern: str, resource: str) -> bool:
    """``*/scale`` means that subresource of all."""
    if pattern in ("*", resource):
        return True
    return pattern.startswith("*/") and resource.endswith(pattern[1:])
