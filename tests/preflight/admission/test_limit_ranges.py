"""Containers and pods that a LimitRange rejects."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.admission.controllers import out_of_range, with_defaults
from gpu_preflight.model.cluster import Cluster
from tests.preflight.readers import manifest, workload


def refusals(entry: dict[str, Any], **amounts: Any) -> list[str]:
    """Why a LimitRange with one entry refuses a pod of one container."""
    pods = workload("Deployment", {"template": {"spec": {"containers": [{"name": "main", "resources": amounts}]}}})
    cluster = Cluster("demo", objects=(manifest("LimitRange", {"limits": [entry]}, namespace=pods.namespace),))
    pod = with_defaults(pods.pod, pods.namespace, cluster)
    return [each.text for each in out_of_range(pod, pods.namespace, cluster)]


@pytest.mark.parametrize(
    ("entry", "amounts", "refused"),
    [
        ({"type": "Container", "max": {"cpu": "2"}}, {"limits": {"cpu": "3"}}, "allows 2"),
        ({"type": "Container", "max": {"cpu": "2"}}, {}, ""),
        ({"type": "Container", "min": {"cpu": "2"}}, {"requests": {"cpu": "1"}}, "requires at least 2"),
        ({"type": "Container", "min": {"cpu": "0"}}, {}, ""),
        ({"type": "Pod", "min": {"cpu": "0"}}, {}, "has no request of cpu"),
        ({"type": "Pod", "max": {"cpu": "2"}}, {"requests": {"cpu": "1"}}, "has no limit of cpu"),
        ({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}, {"limits": {"cpu": 2}}, ""),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
            {"limits": {"cpu": 3}, "requests": {"cpu": 1}},
            "at most 2 times its request",
        ),
        ({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}, {"requests": {"cpu": 1}}, "must have a limit"),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "1500m"}},
            {"limits": {"cpu": 3}, "requests": {"cpu": 2}},
            "",
        ),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "1500m"}},
            {"limits": {"cpu": 2}, "requests": {"cpu": 1}},
            "at most 1500m times its request",
        ),
    ],
)
def test_what_is_refused(entry: dict[str, Any], amounts: dict[str, Any], refused: str) -> None:
    told = refusals(entry, **amounts)

    assert len(told) == bool(refused)
    assert all(refused in each for each in told)
