"""Whether Karpenter makes a node for a pod that claims a device, by its version and its gates."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Autoscaler, Cluster
from tests.preflight.readers import ORIGIN, pool, workload

CLAIMING = {
    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
    "containers": [{"name": "train", "image": "example.com/train:1", "resources": {"claims": [{"name": "gpu"}]}}],
}


def answer(version: str | None, settings: dict[str, Any]) -> tuple[Answer, str]:
    karpenter = Autoscaler("karpenter", ORIGIN, {"clusterName": "demo"} | settings, version)
    nodes = pool(kind="karpenter", instance_types=("g6.xlarge",), capacity_types=("on-demand",))
    pods = workload("Job", {"template": {"spec": CLAIMING | {"restartPolicy": "Never"}}})
    cluster = Cluster(name="demo", pools=(nodes,), autoscalers=(karpenter,), workloads=(pods,))
    verdict = Case(cluster).verdict(pods)
    return verdict.answer, " ".join(reason.text for each in verdict.pools for reason in each.reasons)


@pytest.mark.parametrize(
    ("version", "settings"),
    [
        ("1.14.1", {}),
        ("1.14.1", {"awsFeatureGates": {"draNVIDIAGPU": True}}),
        ("1.15.1", {}),
        ("1.15.1", {"enableDRA": False}),
        ("1.15.1", {"awsFeatureGates": {"draEFA": True}}),
    ],
)
def test_it_makes_none_before_1_15_and_without_its_gate(version: str, settings: dict[str, Any]) -> None:
    said, why = answer(version, settings)

    assert said is Answer.NO
    assert f"Karpenter {version} makes no nodes for claimed devices" in why


@pytest.mark.parametrize(
    ("version", "settings"),
    [
        ("1.15.1", {"enableDRA": True}),
        ("1.15.1", {"awsFeatureGates": {"draNVIDIAGPU": "true"}}),
        (None, {}),
    ],
)
def test_otherwise_it_may(version: str | None, settings: dict[str, Any]) -> None:
    said, why = answer(version, settings)

    assert said is Answer.UNKNOWN
    assert "depends on its feature gates" in why
