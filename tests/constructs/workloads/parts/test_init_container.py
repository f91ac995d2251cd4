"""Init containers run before the container with the GPUs."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import GpuPod
from gpu_constructs.workloads import ConfigMapEnv, InitContainer, ScratchMount, SecretKey

IMAGE = "registry.example.com/s5cmd:2"


def load(**changes: Any) -> InitContainer:
    """A valid init container, with ``changes`` applied."""
    return InitContainer(**{"name": "load", "image": IMAGE} | changes)


def test_manifest(snapshot_yaml: SnapshotAssertion) -> None:
    made = load(
        command=["s5cmd"],
        args=["cp", "s3://weights/llama/*", "/models/"],
        env={"REGION": "us-east-1", "KEY": SecretKey(secret="s3", key="key")},
        env_from=[ConfigMapEnv(config_map="s3")],
        mounts=[ScratchMount(path="/models", size_gib=200)],
        cpus=2.5,
        memory_gib=4,
    )

    assert made.to_manifest() == snapshot_yaml


def test_what_is_not_said_is_not_emitted() -> None:
    assert set(load().to_manifest()) == {"image", "name", "resources", "securityContext"}


def test_a_sidecar_restarts_always() -> None:
    assert load(sidecar=True).to_manifest()["restartPolicy"] == "Always"


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"name": "Load"}, ValueError, "init container: name must be 1 to 63"),
        ({"image": "s5cmd"}, ValueError, "init container 'load': image must end in a tag"),
        ({"command": "s5cmd"}, TypeError, "init container 'load': command must be a list of strings"),
        ({"cpus": 0}, ValueError, "cpus must be at least 0.001, got 0"),
        ({"cpus": float("nan")}, ValueError, "cpus must be at least 0.001, got nan"),
        ({"cpus": True}, TypeError, "cpus must be a number, got True"),
        ({"memory_gib": 0}, ValueError, "memory_gib must be at least 1, got 0"),
        ({"sidecar": "yes"}, TypeError, "sidecar must be True or False, got 'yes'"),
        ({"mounts": ["/models"]}, TypeError, "mounts must each be one of"),
    ],
)
def test_refuses_an_init_container(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        load(**changes)


def test_the_smallest_init_container_is_taken() -> None:
    assert load(cpus=1.005).to_manifest()["resources"]["requests"]["cpu"] == "1005m"
    assert load(cpus=0.001, memory_gib=1).to_manifest()["resources"]["requests"] == {"cpu": "1m", "memory": "1Gi"}


def test_refuses_two_of_one_name_and_what_is_none() -> None:
    with pytest.raises(ValueError, match="init_containers must have different names, got 'load' twice"):
        GpuPod(image=IMAGE, init_containers=[load(), load()])
    with pytest.raises(TypeError, match="init_containers must be a list of InitContainer, got"):
        GpuPod(image=IMAGE, init_containers=[{"name": "load"}])  # type: ignore[list-item]
