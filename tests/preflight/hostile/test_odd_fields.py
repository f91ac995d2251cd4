"""Fields of a type or a value that no API server accepts end no check."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input
from tests.preflight.inputs import given
from tests.preflight.rule_cases import FIXTURES

ODD = [[], {}, ["x"], {"x": 1}, -1, True, None]


def written(kind: str, spec: Any, api: str = "v1") -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "it"}, "spec": spec}


def gpu_pod(**container: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}, **container}]}


@pytest.mark.parametrize("odd", ODD)
def test_names_of_volumes(tmp_path: Path, odd: Any) -> None:
    mounts = [{"name": odd, "mountPath": "/a"}, {"name": "b", "mountPath": "/a/b"}]
    pod = {**gpu_pod(volumeMounts=mounts), "volumes": [{"name": odd, "image": {"reference": "a:1"}}]}

    assert check(given(tmp_path, written("Pod", pod))).cases


@pytest.mark.parametrize("odd", ODD)
def test_command_of_a_launcher(tmp_path: Path, odd: Any) -> None:
    roles = {"Launcher": {"template": {"spec": {"containers": [{"name": "main", "command": odd}]}}}}

    assert check(given(tmp_path, written("MPIJob", {"mpiReplicaSpecs": roles}, "kubeflow.org/v1"))).cases


@pytest.mark.parametrize("odd", ["[]", "-1", "x"])
def test_capacity_of_a_node_overlay(tmp_path: Path, odd: str) -> None:
    capacity = "capacity: {nvidia.com/gpu: '1'}"
    text = (FIXTURES / "GPU178" / "passes_heavier_overlay_with_gpus.yaml").read_text()
    assert capacity in text
    (tmp_path / "input.yaml").write_text(text.replace(capacity, f"capacity: {{nvidia.com/gpu: {odd}}}"))

    assert check(read_input([str(tmp_path)])).cases
