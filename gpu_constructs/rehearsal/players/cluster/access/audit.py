"""The audit log of the API server: who asked what, and what let it.

Source: https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_DECISION, _REASON = "authorization.k8s.io/decision", "authorization.k8s.io/reason"


@dataclass(frozen=True, kw_only=True, slots=True)
class RbacUse:
    """Something that somebody asked of the API server.

    Attributes:
        user: Who; ``system:serviceaccount:<namespace>:<name>`` for a service account.
        verb: What to do, as RBAC calls it.
        resource: Plural with its subresource, as ``pods/status``; empty for a path that is none.
        group: API group of that; empty for the core.
        namespace: Where; empty for the whole cluster.
        name: Of which object; empty for all.
        path: The path, where it is no resource.
        decision: ``allow`` or ``forbid``.
        reason: What let it, in the server's words.
    """

    user: str
    verb: str
    resource: str
    group: str
    namespace: str
    name: str
    path: str
    decision: str
    reason: str


def rbac_uses(log: Path) -> Iterator[RbacUse]:
    """Return every call in an audit log, in order; one that is just being written is left for the next time."""
    for line in log.read_text().splitlines(keepends=True):
        if line.endswith("\n"):
            yield _use(json.loads(line))


def _use(event: dict[str, Any]) -> RbacUse:
    of, noted = event.get("objectRef", {}), event.get("annotations", {})
    resource, subresource = of.get("resource", ""), of.get("subresource", "")
    # Who acts as another is judged as that one.
    user = event.get("impersonatedUser") or event["user"]
    return RbacUse(
        user=user.get("username", ""),
        verb=event["verb"],
        resource=f"{resource}/{subresource}" if subresource else resource,
        group=of.get("apiGroup", ""),
        namespace=of.get("namespace", ""),
        name=of.get("name", ""),
        path="" if resource else event["requestURI"].partition("?")[0],
        decision=noted.get(_DECISION, ""),
        reason=noted.get(_REASON, ""),
    )
