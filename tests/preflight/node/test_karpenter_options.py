"""Karpenter's options from its chart, from the environment of its Deployment, or from an unknown source."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.software import Autoscaler
from gpu_preflight.node.autoscaler_view import feature_gate, option
from gpu_preflight.reading.objects import Chart
from gpu_preflight.reading.unknown import Unknown
from tests.preflight.readers import ORIGIN

LATER = Unknown("${Later}")


def charted(**values: Any) -> Cluster:
    """A cluster with Karpenter's chart."""
    return Cluster("demo", charts=(Chart("karpenter", "1.14.1", values, ORIGIN, {}, "kube-system"),))


def deployed(**environment: Any) -> Cluster:
    """A cluster with Karpenter's Deployment."""
    return Cluster("demo", autoscalers=(Autoscaler("karpenter", ORIGIN, flags=environment),))


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        (charted(), None),
        (charted(settings={"minValuesPolicy": "BestEffort"}), "BestEffort"),
        (charted(settings=LATER), LATER),
        (charted(settings={"minValuesPolicy": LATER}), LATER),
        (charted(controller={"env": [{"name": "MIN_VALUES_POLICY", "value": "BestEffort"}]}), "BestEffort"),
        (deployed(), None),
        (deployed(MIN_VALUES_POLICY="BestEffort"), "BestEffort"),
        (Cluster("demo"), Unknown("${settings of Karpenter}")),
    ],
)
def test_a_setting(cluster: Cluster, expected: Any) -> None:
    assert option(cluster, "minValuesPolicy") == expected


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        (charted(), Answer.NO),
        (charted(settings={"featureGates": {"nodeOverlay": True}}), Answer.YES),
        (charted(settings={"featureGates": {"nodeOverlay": "false"}}), Answer.NO),
        (charted(settings={"featureGates": {"nodeOverlay": LATER}}), Answer.UNKNOWN),
        (charted(controller={"env": [{"name": "FEATURE_GATES", "value": "NodeOverlay=true"}]}), Answer.YES),
        (deployed(FEATURE_GATES="NodeRepair=true, NodeOverlay=true"), Answer.YES),
        (deployed(FEATURE_GATES="NodeRepair=true"), Answer.NO),
        (deployed(FEATURE_GATES=LATER), Answer.UNKNOWN),
        (Cluster("demo"), Answer.UNKNOWN),
    ],
)
def test_a_feature_gate(cluster: Cluster, expected: Answer) -> None:
    assert feature_gate(cluster, "nodeOverlay", default=False) is expected
