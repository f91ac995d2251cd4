"""Workloads that the API server rejects, and the nearest ones that it accepts."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.admission.owners import is_schedule, not_valid_owner
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown

LATER = Unknown("${Later}")


def said(kind: str, spec: dict[str, Any], *, name: str = "a", **pod: Any) -> list[str]:
    """Why an object whose pods have one container is certainly refused."""
    group = "batch" if kind in ("Job", "CronJob") else "apps"
    template = {"template": {"spec": {"containers": [{"name": "main", "image": "x:1"}], **pod}}}
    of_jobs = {"jobTemplate": {"spec": {**template, **spec.pop("job", {})}}} if kind == "CronJob" else template
    content = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": name}, "spec": {**of_jobs, **spec}}
    found = not_valid_owner(Object(content, Origin("file", kind)))
    return [each.text for each in found if each.answer is Answer.NO]


ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}
CODES = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0]}}]}


@pytest.mark.parametrize(
    ("kind", "spec", "pod", "refused"),
    [
        ("Deployment", {}, {"restartPolicy": "Never"}, "must be Always"),
        ("StatefulSet", {}, {"restartPolicy": LATER}, ""),
        ("DaemonSet", {}, {"activeDeadlineSeconds": 60}, "no activeDeadlineSeconds"),
        ("Deployment", {"strategy": {"type": "Recreate", "rollingUpdate": {}}}, {}, "no rollingUpdate"),
        ("Deployment", {"strategy": {"type": "Recreate", "rollingUpdate": None}}, {}, ""),
        ("Deployment", {"strategy": ROLLING}, {}, "both be 0"),
        ("Deployment", {}, {"name": "Serve"}, "metadata.name"),
        ("Job", {"completionMode": "Indexed"}, {}, "must have completions"),
        ("Job", {"completionMode": "Indexed", "completions": LATER}, {}, ""),
        ("Job", {"backoffLimitPerIndex": 1}, {}, "completionMode Indexed"),
        ("Job", {"podFailurePolicy": {"rules": []}}, {"restartPolicy": "OnFailure"}, "restartPolicy Never"),
        ("Job", {"podFailurePolicy": CODES}, {"restartPolicy": "Never"}, "must not contain 0"),
        ("Job", {"selector": {"matchLabels": {"app": "a"}}}, {}, "manualSelector"),
        ("Job", {"selector": {"matchLabels": {"app": "a"}}, "manualSelector": True}, {}, ""),
        ("Job", {"ttlSecondsAfterFinished": -1}, {}, "at least 0"),
        ("Job", {"backoffLimit": -1}, {}, "backoffLimit must be at least 0, got -1"),
        ("Job", {"successPolicy": {"rules": []}}, {}, "completionMode Indexed"),
        ("Job", {"maxFailedIndexes": 1}, {}, "must have backoffLimitPerIndex"),
        ("StatefulSet", {"ordinals": {"start": -1}}, {}, "ordinals.start must be at least 0"),
        ("Deployment", {"progressDeadlineSeconds": 30, "minReadySeconds": 30}, {}, "must be more than minReadySeconds"),
        ("Deployment", {"progressDeadlineSeconds": 31, "minReadySeconds": 30}, {}, ""),
        ("CronJob", {"schedule": "daily"}, {}, "cron expression"),
        ("CronJob", {"schedule": LATER}, {}, ""),
        ("CronJob", {"job": {"ttlSecondsAfterFinished": -1}}, {}, "at least 0"),
        ("CronJob", {}, {"name": "a" * 53}, "at most 52"),
        ("CronJob", {}, {"name": "a" * 52}, ""),
    ],
)
def test_what_is_refused(kind: str, spec: dict[str, Any], pod: dict[str, Any], refused: str) -> None:
    told = said(kind, dict(spec), **pod)

    assert len(told) == bool(refused)
    assert all(refused in each for each in told)


def test_a_time_zone_that_is_not_known_here_may_be_one() -> None:
    content = {"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"timeZone": "Europe/Nowhere"}}

    [reason] = not_valid_owner(Object(content, Origin("file", "CronJob")))
    assert reason.answer is Answer.UNKNOWN


@pytest.mark.parametrize("text", ["0 6 * * 1-5", "@daily", "@every 1h30m", "*/5 0,12 1 JAN sun", "0 0 ? * ?"])
def test_a_schedule(text: str) -> None:
    assert is_schedule(text)


@pytest.mark.parametrize(
    "text", ["", "0 24 * * *", "* * * *", "* * * * * *", "0 0 * * 7", "*/0 * * * *", "@often", "TZ=UTC 0 0 * * *"]
)
def test_no_schedule(text: str) -> None:
    assert not is_schedule(text)


def training(kind: str, group: str = "kubeflow.org", **container: Any) -> list[Answer]:
    """The findings about a job of the training operator with one part."""
    part = {"Worker": {"template": {"spec": {"containers": [container]}}}}
    content = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "a"}, "spec": {"xReplicaSpecs": part}}
    return [each.answer for each in not_valid_owner(Object(content, Origin("file", kind)))]


@pytest.mark.parametrize(
    ("kind", "name", "answers"),
    [
        ("PyTorchJob", "pytorch", []),
        ("PyTorchJob", "main", [Answer.NO]),
        ("TFJob", "tensorflow", []),
        ("TFJob", "pytorch", [Answer.NO]),
        ("XGBoostJob", "xgboost", []),
        ("PaddleJob", "paddle", []),
        ("JAXJob", "jax", []),
        ("MPIJob", "main", []),
        ("PyTorchJob", LATER, []),
        ("PyTorchJob", "${NAME}", []),
    ],
)
def test_the_training_operator_looks_for_a_container_of_its_name(kind: str, name: Any, answers: list[Answer]) -> None:
    assert training(kind, name=name, image="x:1") == answers


def test_a_part_of_a_training_job_may_be_laid_over_another() -> None:
    assert training("PyTorchJob", name="main") == [Answer.UNKNOWN]


def test_a_job_of_another_operator_is_left_alone() -> None:
    assert training("PyTorchJob", group="example.com", name="main", image="x:1") == []


@pytest.mark.parametrize("containers", [LATER, [LATER], [{"name": "main", "image": "x:1"}, LATER], []])
def test_unknown_containers_get_no_finding(containers: Any) -> None:
    part = {"Worker": {"template": {"spec": {"containers": containers}}}}
    content = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "a"},
        "spec": {"xReplicaSpecs": part},
    }

    assert list(not_valid_owner(Object(content, Origin("file", "TFJob", "Stack/Job")))) == []
