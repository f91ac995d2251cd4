"""The report lists the known requests of a pod, and names the unknown ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.preflight.command_line.test_cli import Done

GPU = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "gpu"},
    "status": {"allocatable": {"cpu": "8", "memory": "30Gi", "pods": "50", "nvidia.com/gpu": "1"}},
}


def asking(folder: Path, spec: dict[str, Any]) -> str:
    """The requests of a pod in the output of ``explain``."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "infer"}, "spec": spec}
    (folder / "pod.yaml").write_text("\n---\n".join(map(json.dumps, (NODE, pod))))
    told = Done("explain", str(folder / "pod.yaml")).out.splitlines()
    return next(each for each in told if each.startswith("1 pod, ")).removeprefix("1 pod, requesting ")


def main(resources: Any) -> list[dict[str, Any]]:
    return [{"name": "main", "resources": resources}]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"containers": [GPU]}, "1 nvidia.com/gpu"),
        (
            {"containers": main({"limits": {"nvidia.com/gpu": "${GPUS}"}})},
            "amounts known only at deployment: nvidia.com/gpu",
        ),
        (
            {
                "containers": main(
                    {"limits": {"nvidia.com/gpu": 1}, "requests": {"cpu": "${CPU}", "memory": "${MEM}Gi"}}
                )
            },
            "1 nvidia.com/gpu, and amounts known only at deployment: cpu, memory",
        ),
        (
            {"containers": main({"limits": {"nvidia.com/gpu": 1, "cpu": "{{ .Values.cpu }}"}, "requests": {"cpu": 1}})},
            "1 nvidia.com/gpu, 1 cpu",
        ),
        (
            {"containers": [GPU, {"name": "log", "resources": "${RESOURCES}"}]},
            "1 nvidia.com/gpu, and amounts known only at deployment: all of container log",
        ),
        (
            {"containers": [GPU], "initContainers": "${INIT}"},
            "1 nvidia.com/gpu, and amounts known only at deployment: all of initContainers",
        ),
        (
            {"containers": [GPU], "overhead": {"memory": "${OVERHEAD}"}},
            "1 nvidia.com/gpu, and amounts known only at deployment: memory",
        ),
        (
            {"containers": [GPU], "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]},
            "1 nvidia.com/gpu, devices of claim one-gpu",
        ),
    ],
)
def test_what_is_not_known_is_named(tmp_path: Path, spec: dict[str, Any], told: str) -> None:
    assert asking(tmp_path, spec) == told


def test_a_sum_with_an_unknown_part_is_not_reported(tmp_path: Path) -> None:
    beside = {"name": "log", "resources": {"requests": {"cpu": "${CPU}"}}}
    known = {"name": "proxy", "resources": {"requests": {"cpu": 2}}}

    told = asking(tmp_path, {"containers": [GPU, beside, known]})

    assert told == "1 nvidia.com/gpu, and amounts known only at deployment: cpu"


def test_requests_of_the_pod_go_before_those_of_a_container_that_are_not_known(tmp_path: Path) -> None:
    beside = {"name": "log", "resources": {"requests": {"cpu": "${CPU}"}}}

    told = asking(tmp_path, {"resources": {"requests": {"cpu": 2}}, "containers": [GPU, beside]})

    assert told == "1 nvidia.com/gpu, 2 cpu"
