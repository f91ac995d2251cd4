"""Which rules of a service account what was asked has used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_constructs.rehearsal.players.cluster.access.audit import RbacUse, rbac_uses
from gpu_constructs.rehearsal.players.cluster.access.rules import Rule, unused

USER = "system:serviceaccount:kube-system:karpenter"


def use(**changes: Any) -> RbacUse:
    says: dict[str, Any] = dict.fromkeys(("resource", "group", "namespace", "name", "path", "reason"), "")
    says |= {"user": USER, "verb": "list", "resource": "pods", "decision": "allow"}
    return RbacUse(**says | changes)


def rule(**changes: Any) -> Rule:
    says: dict[str, Any] = {"user": USER, "role": "ClusterRole karpenter", "namespace": "", "verb": "list"}
    return Rule(**says | ({"resource": "pods"} | changes))


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        (rule(), use()),
        (rule(), use(namespace="default")),
        (rule(verb="*", group="*", resource="*"), use()),
        (rule(resource="*/status"), use(resource="pods/status")),
        (rule(namespace="default"), use(namespace="default")),
        (rule(names=("web",)), use(name="web")),
        (rule(resource="", path="/metrics/*", verb="get"), use(resource="", path="/metrics/cadvisor", verb="get")),
    ],
)
def test_a_rule_that_lets_it_is_used(said: Rule, asked: RbacUse) -> None:
    assert unused([said], [asked]) == []


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        (rule(verb="watch"), use()),
        (rule(group="apps"), use()),
        (rule(resource="pods/status"), use()),
        (rule(), use(resource="pods/status")),
        (rule(namespace="default"), use(namespace="other")),
        (rule(namespace="default"), use()),
        (rule(names=("web",)), use(name="other")),
        (rule(resource="", path="/metrics"), use()),
        (rule(), use(user="system:serviceaccount:kube-system:other")),
        (rule(), use(decision="forbid")),
    ],
)
def test_a_rule_for_something_else_is_not(said: Rule, asked: RbacUse) -> None:
    assert unused([said], [asked]) == [said]


def test_the_log_tells_who_asked_and_what_let_it(tmp_path: Path) -> None:
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

    assert found == use(user="system:node:a", verb="patch", resource="nodes/status", name="a", reason="it is its own")
