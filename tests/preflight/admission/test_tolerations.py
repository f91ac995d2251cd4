"""Tolerations that the API server adds to a pod which says nothing of nodes that are gone."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.admission.controllers import tolerating
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.pod import Pod
from gpu_preflight.model.taints import Taint, stay, tolerates, tolerations

KEY = "node.kubernetes.io/not-ready"
NOT_READY = Taint(KEY, "", "NoExecute")


def let_in(*given: dict[str, Any]) -> Pod:
    return tolerating(Pod(tolerations=tolerations(list(given))))


@pytest.mark.parametrize("given", [{}, {"key": KEY, "operator": "Exists", "effect": "NoSchedule"}])
def test_a_pod_stays_five_minutes(given: dict[str, Any]) -> None:
    pod = let_in(*([given] if given else []))

    assert tolerates(pod.tolerations, NOT_READY) is Answer.YES
    assert stay(pod.tolerations, NOT_READY) == 300


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({"operator": "Exists"}, None),
        ({"key": KEY, "operator": "Exists"}, None),
        ({"key": KEY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}, 0),
        ({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -7}, 0),
        ({"key": KEY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}, 30),
    ],
)
def test_one_that_speaks_of_it_is_left_alone(given: dict[str, Any], seconds: int | None) -> None:
    pod = let_in(given)

    assert NOT_READY.key not in [each.key for each in pod.tolerations[1:]]
    assert stay(pod.tolerations, NOT_READY) == seconds


def test_whatever_value_it_names() -> None:
    pod = let_in({"key": KEY, "operator": "Equal", "value": "other", "effect": "NoExecute"})

    assert tolerates(pod.tolerations, NOT_READY) is Answer.NO
