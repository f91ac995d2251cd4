"""The audit log is read as the server writes it."""

from __future__ import annotations

import json
from pathlib import Path

from gpu_rehearsal.cluster.control_plane import RbacUse, rbac_uses


def test_an_entry_names_the_user_and_the_grant(tmp_path: Path) -> None:
    event = {
        "verb": "patch",
        "requestURI": "/api/v1/nodes/a/status",
        "user": {"username": "admin"},
        "impersonatedUser": {"username": "system:node:a"},
        "objectRef": {"resource": "nodes", "subresource": "status", "name": "a"},
        "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "it is its own"},
    }
    log = tmp_path / "audit.log"
    log.write_text(json.dumps(event) + '\n{"half": ')

    [found] = rbac_uses(log)

    assert found == RbacUse(
        user="system:node:a",
        verb="patch",
        resource="nodes/status",
        group="",
        namespace="",
        name="a",
        path="",
        decision="allow",
        reason="it is its own",
    )
