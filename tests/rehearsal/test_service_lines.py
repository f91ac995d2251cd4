"""The lines of Create about Services, and about probes that aren't checked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpu_rehearsal.report import Outcome
from gpu_rehearsal.scenarios.deployment import workloads
from gpu_rehearsal.stage import Stage

READY = {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}


class Objects:
    """Objects of an API server, by the end of their path; a list of pods respects its label selector."""

    def __init__(self, **objects: list[dict[str, Any]]) -> None:
        self._objects = objects

    def list(self, path: str, *, labelSelector: str = "") -> list[dict[str, Any]]:
        """Return the objects of a path."""
        wanted = dict(each.split("=") for each in labelSelector.split(",") if each)
        found = self._objects.get(path.rpartition("/")[2], [])
        return [each for each in found if wanted.items() <= each["metadata"].get("labels", {}).items()]


def service(app: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "default", "name": "chat"}, "spec": {"selector": {"app": app}}}


def deployment(**container: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "chat"}}, "spec": {"containers": [{"name": "main", **container}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "chat"}}, "template": template}
    return {"metadata": {"namespace": "default", "name": "chat"}, "spec": spec}


def pod(status: dict[str, Any]) -> dict[str, Any]:
    owner = [{"kind": "ReplicaSet"}]
    metadata = {"namespace": "default", "name": "chat-1", "labels": {"app": "chat"}, "ownerReferences": owner}
    return {"metadata": metadata, "spec": {"containers": []}, "status": status}


def outcomes(**objects: list[dict[str, Any]]) -> dict[str, Outcome]:
    stage = cast("Stage", SimpleNamespace(client=Objects(**objects)))
    return {each.promise: each.outcome for each in workloads(stage)}


@pytest.mark.parametrize(
    ("app", "objects", "outcome"),
    [
        ("chat", {"pods": [pod(READY)]}, Outcome.HELD),
        ("chat", {"pods": [pod({"phase": "Pending"})]}, Outcome.NOT_PLAYED),
        ("chat", {"deployments": [deployment()]}, Outcome.NOT_PLAYED),
        ("chatt", {"pods": [pod(READY)], "deployments": [deployment()]}, Outcome.FAILED),
        ("chat", {}, Outcome.FAILED),
    ],
)
def test_a_service_must_select_a_pod(app: str, objects: dict[str, Any], outcome: Outcome) -> None:
    assert outcomes(services=[service(app)], **objects)["Service default/chat selects a pod"] is outcome


def test_a_line_states_that_probes_are_not_checked() -> None:
    assert outcomes(deployments=[deployment(readinessProbe={})])["probes and ports answer"] is Outcome.NOT_PLAYED
    assert "probes and ports answer" not in outcomes(deployments=[deployment()])
