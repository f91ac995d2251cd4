"""How many pods of a workload there are beside an autoscaler of pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.cluster.clusters import clusters
from tests.preflight.inputs import given


def replicas(folder: Path, written: Any, kind: str, **bounds: Any) -> int | None:
    container = {"name": "main", "image": "a:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    spec = {"template": {"spec": {"containers": [container]}}, **({} if written is None else {"replicas": written})}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat"}, "spec": spec}
    group = "autoscaling/v2" if kind == "HorizontalPodAutoscaler" else "keda.sh/v1alpha1"
    target = {"scaleTargetRef": {"kind": "Deployment", "name": "chat"}}
    scaler = {"apiVersion": group, "kind": kind, "metadata": {"name": "chat"}, "spec": {**target, **bounds}}
    read = given(folder, {"apiVersion": "v1", "kind": "List", "items": [deployment, scaler]})
    return clusters(read)[0].workloads[0].replicas


@pytest.mark.parametrize(
    ("written", "bounds", "expected"),
    [
        (None, {"minReplicas": 9, "maxReplicas": 12}, 9),
        (12, {"maxReplicas": 4}, 4),
        (3, {"minReplicas": 2, "maxReplicas": 4}, 3),
        (0, {"minReplicas": 2, "maxReplicas": 4}, 0),
        (3, {"minReplicas": "${Least}", "maxReplicas": 4}, None),
        (3, {"minReplicas": 2, "maxReplicas": "${Most}"}, None),
    ],
)
def test_beside_a_horizontal_pod_autoscaler(tmp_path: Path, written: Any, bounds: Any, expected: Any) -> None:
    assert replicas(tmp_path, written, "HorizontalPodAutoscaler", **bounds) == expected


@pytest.mark.parametrize(
    ("written", "bounds", "expected"),
    [
        (None, {"minReplicaCount": 5}, 5),
        (0, {"minReplicaCount": 5}, 5),
        (0, {}, 0),
        (200, {}, 100),
    ],
)
def test_beside_a_scaled_object(tmp_path: Path, written: Any, bounds: Any, expected: Any) -> None:
    assert replicas(tmp_path, written, "ScaledObject", **bounds) == expected
