"""Device plugins that eksctl applies itself, and their effect on an answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.judging.check import check
from gpu_preflight.model.answer import Answer
from tests.preflight.reading.eksctl.config import cluster, given

SYSTEM = {"name": "system", "instanceType": "m6i.large"}
GPU = {"name": "gpu", "instanceType": "g6.xlarge", "desiredCapacity": 1}
ROCKET = {**GPU, "name": "rocket", "amiFamily": "Bottlerocket"}


def plugins(folder: Path, *objects: Any, **parts: Any) -> list[str]:
    return [each.name for each in cluster(folder, *objects, **parts).daemon_sets if each.advertises]


def pod(resources: dict[str, int], **spec: Any) -> dict[str, Any]:
    container = {"name": "a", "image": "app", "resources": {"limits": resources}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {**spec, "containers": [container]}}


def answer(folder: Path, asking: dict[str, Any], **parts: Any) -> Answer:
    [case] = check(given(folder, asking, **parts)).cases
    [verdict] = case.verdicts
    return verdict.answer


@pytest.mark.parametrize("kind", ["nodeGroups", "managedNodeGroups"])
def test_the_plugin_of_nvidia(tmp_path: Path, kind: str) -> None:
    assert plugins(tmp_path, **{kind: [SYSTEM, GPU]}) == ["nvidia-device-plugin-daemonset"]
    assert answer(tmp_path, pod({"nvidia.com/gpu": 1}), **{kind: [SYSTEM, GPU]}) is Answer.YES


@pytest.mark.parametrize(
    "groups",
    [
        [SYSTEM],
        [ROCKET],
        [GPU, ROCKET],
        [{**GPU, "amiFamily": "Ubuntu2404"}],
        [{"name": "gpu", "instanceSelector": {"gpus": 1}}],
    ],
)
def test_groups_for_which_it_is_not_known_to_come(tmp_path: Path, groups: list[dict[str, Any]]) -> None:
    assert plugins(tmp_path, nodeGroups=groups) == []


def test_who_brings_a_plugin_has_none_of_eksctl(tmp_path: Path) -> None:
    container = {"name": "a", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}
    own = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "own"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }

    assert plugins(tmp_path, own, nodeGroups=[GPU]) == ["own"]


def test_it_tolerates_the_taints_of_gpu_groups(tmp_path: Path) -> None:
    taints = [{"key": "team", "value": "a", "effect": "NoSchedule"}]
    tolerating = pod({"nvidia.com/gpu": 1}, tolerations=[{"key": "team", "operator": "Exists"}])

    assert answer(tmp_path, tolerating, nodeGroups=[{**GPU, "taints": taints}]) is Answer.YES


def test_it_tolerates_one_taint_of_a_key(tmp_path: Path) -> None:
    """So that it never runs on the second group."""
    first = {**GPU, "taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]}
    second = {**GPU, "name": "other", "taints": [{"key": "team", "value": "b", "effect": "NoSchedule"}]}
    asking = pod({"nvidia.com/gpu": 1}, tolerations=[{"key": "team", "value": "b"}])

    assert answer(tmp_path, asking, nodeGroups=[first, second]) is Answer.UNKNOWN


def test_interfaces_of_efa(tmp_path: Path) -> None:
    group = {**GPU, "instanceType": "p5.48xlarge", "efaEnabled": True}
    asking = pod({"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32})

    assert answer(tmp_path, asking, managedNodeGroups=[group]) is Answer.YES
    assert answer(tmp_path, asking, managedNodeGroups=[{**group, "efaEnabled": False}]) is Answer.NO


def test_interfaces_in_a_launch_template_that_is_not_there(tmp_path: Path) -> None:
    group = {"name": "gpu", "instanceTypes": ["p5.48xlarge"], "desiredCapacity": 1, "launchTemplate": {"id": "lt-1"}}
    asking = pod({"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32})

    assert answer(tmp_path, asking, managedNodeGroups=[group]) is Answer.UNKNOWN
