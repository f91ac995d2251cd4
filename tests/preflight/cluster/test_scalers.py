"""Scalers of pods: values that are set, absent, or set only at deployment."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.cluster.scalers import Scaler, Target, read_scaler
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown

OPEN = Unknown("${Least}")


def scaler(kind: str, **spec: Any) -> Scaler:
    return read_scaler(Object({"kind": kind, "metadata": {"name": "chat"}, "spec": spec}, Origin("a.yaml", "chat")))


@pytest.mark.parametrize(
    ("kind", "spec", "bounds"),
    [
        ("HorizontalPodAutoscaler", {"minReplicas": 0, "maxReplicas": "4"}, (0, 4)),
        ("HorizontalPodAutoscaler", {}, (1, None)),
        ("HorizontalPodAutoscaler", {"minReplicas": OPEN, "maxReplicas": []}, (None, None)),
        ("ScaledObject", {"minReplicaCount": 0, "maxReplicaCount": 4}, (1, 4)),
        ("ScaledObject", {}, (1, 100)),
        ("ScaledObject", {"minReplicaCount": OPEN, "maxReplicaCount": OPEN}, (None, None)),
    ],
)
def test_bounds(kind: str, spec: dict[str, Any], bounds: tuple[Any, Any]) -> None:
    found = scaler(kind, **spec)

    assert (found.min_replicas, found.max_replicas) == bounds


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ({"kind": "StatefulSet", "name": "chat"}, ("StatefulSet", "chat")),
        ({"name": OPEN}, ("Deployment", None)),
        (OPEN, ("Deployment", None)),
        (["chat"], ("Deployment", None)),
    ],
)
def test_target(reference: Any, expected: tuple[str, str | None]) -> None:
    assert scaler("ScaledObject", scaleTargetRef=reference).target == Target(*expected, "default")
    assert scaler("VerticalPodAutoscaler", targetRef=reference).target == Target(*expected, "default")


def test_metric_of_a_resource() -> None:
    source = {"name": "cpu", "container": "main", "target": {"averageUtilization": 70}}
    metrics = [{"type": "ContainerResource", "containerResource": source}, {"type": OPEN}, {"type": "Pods", "pods": 1}]
    known, *others = scaler("HorizontalPodAutoscaler", metrics=metrics).signals

    assert (known.resource, known.container, known.target) == ("cpu", "main", {"averageUtilization": 70})
    assert [(each.kind, each.resource, each.target) for each in others] == [("", None, None), ("Pods", None, None)]


def test_trigger_of_keda() -> None:
    triggers = [
        {"type": "prometheus", "metadata": {"query": "sum(a)", "threshold": "4"}, "authenticationRef": {"name": "it"}},
        {"type": "cron", "metadata": OPEN, "authenticationRef": OPEN},
        {"type": "cpu"},
    ]
    known, unknown, bare = scaler("ScaledObject", triggers=triggers).signals

    assert (known.query, known.threshold) == ("sum(a)", 4000)
    assert known.authentication == Target("TriggerAuthentication", "it", "default")
    assert (unknown.metadata, unknown.threshold) == (OPEN, None)
    assert unknown.authentication == Target("TriggerAuthentication", None, "default")
    assert (bare.metadata, bare.authentication) == (None, None)
