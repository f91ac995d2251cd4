"""Why a DaemonSet does not run on a pool's nodes."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_facts.resources import GPU
from gpu_preflight.model.label_values import Selection, equal, exactly
from gpu_preflight.model.pod import Pod
from gpu_preflight.model.software import DaemonSet
from gpu_preflight.model.taints import Taint, Toleration
from gpu_preflight.node.nodes import Miss, NodeToBe, miss
from tests.preflight.readers import ORIGIN

TAINT = Taint(GPU, "true", "NoSchedule")
EVERYTHING = (Toleration(operator="Exists"),)


def missed(pod: Pod, *taints: Taint, **labels: str) -> Miss:
    node = NodeToBe("g6.xlarge", None, {key: exactly(value) for key, value in labels.items()}, taints, {}, {})
    return miss(DaemonSet("plugin", pod, ORIGIN), taints, [node])


def test_a_taint_is_named_and_labels_are_not_asked_then() -> None:
    found = missed(Pod(selection=Selection(tuple(equal({"team": "a"})))), TAINT)

    assert found.intolerance == "DaemonSet plugin doesn't tolerate nvidia.com/gpu=true:NoSchedule"
    assert found.unselected == ()


@pytest.mark.parametrize(("labels", "unmet"), [({}, ("team=a",)), ({"team": "b"}, ("team=a",)), ({"team": "a"}, ())])
def test_labels_that_the_nodes_lack(labels: dict[str, Any], unmet: tuple[str, ...]) -> None:
    pod = Pod(tolerations=EVERYTHING, selection=Selection(tuple(equal({"team": "a"}))))
    found = missed(pod, TAINT, **labels)

    assert (found.intolerance, found.unmet) == ("", unmet)
    assert [each.instance_type for each in found.unselected] == ["g6.xlarge"] * len(unmet)
