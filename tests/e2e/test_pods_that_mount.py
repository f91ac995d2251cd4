"""Possible mounts of containers, and the library's own pods, on the real API server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks

from gpu_constructs import GpuDeployment, GpuPod, ManagedNodeGroup, NodeShape
from gpu_constructs.workloads import (
    ConfigMapEnv,
    ConfigMapMount,
    InitContainer,
    ScratchMount,
    SecretKey,
    SecretMount,
    VolumeClaimMount,
)
from gpu_preflight.admission.controllers import not_mounted
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.reading.inputs import read_input
from gpu_rehearsal.cluster.client import ApiError, Client
from tests.templates import manifest, resources_of

IMAGE = "registry.example.com/main:1"
DATA = {"name": "data", "emptyDir": {}}
CONFIG = {"name": "config", "configMap": {"name": "config"}}


def pod(mounts: list[dict[str, Any]], volumes: list[dict[str, Any]], init: bool = False) -> dict[str, Any]:
    container = {"name": "main", "image": IMAGE, "volumeMounts": mounts}
    plain = {"name": "last", "image": IMAGE}
    spec = {"initContainers": [container], "containers": [plain]} if init else {"containers": [container]}
    metadata = {"name": "mounts", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, "volumes": volumes}}


def at(path: str, name: str = "data", **more: Any) -> dict[str, Any]:
    return {"name": name, "mountPath": path, **more}


@pytest.mark.parametrize("init", [False, True])
@pytest.mark.parametrize(
    ("mounts", "volumes"),
    [
        ([at("/data")], [DATA]),
        ([at("/data"), at("/more")], [DATA]),
        ([at("/data"), at("/data/")], [DATA]),
        ([at("/data", subPath="a..b")], [DATA]),
        ([at("/data", subPath="..a")], [DATA]),
        ([at("/data"), at("/data", "config")], [DATA, CONFIG]),
        ([at("/data")], []),
        ([at("/data", "dta")], [DATA]),
        ([at("/data", subPath="/a")], [DATA]),
        ([at("/data", subPath="a/../b")], [DATA]),
        ([at("/data")], [DATA, {**CONFIG, "name": "data"}]),
    ],
)
def test_preflight_refuses_the_mounts_that_the_api_server_refuses(
    client: Client, tmp_path: Path, mounts: list[dict[str, Any]], volumes: list[dict[str, Any]], init: bool
) -> None:
    asked = pod(mounts, volumes, init)
    file = tmp_path / "pod.yaml"
    file.write_text(json.dumps(asked))
    [workload] = clusters(read_input([str(file)]))[0].workloads

    assert bool(list(not_mounted(workload))) is bool(refusal(client, asked))


def refusal(client: Client, asked: dict[str, Any]) -> str:
    try:
        client.create(asked, dryRun="All", fieldValidation="Strict")
    except ApiError as refused:
        return str(refused)
    return ""


def test_a_pod_with_everything_is_taken(client: Client, stack: cdk.Stack, cluster: eks.ICluster) -> None:
    weights = ScratchMount(path="/models", size_gib=20)
    load = InitContainer(name="load", image=IMAGE, mounts=[weights], args=["cp"], env={"A": "1"})
    logs = InitContainer(name="logs", image=IMAGE, sidecar=True)
    claim = VolumeClaimMount(path="/data", claim="my.data", read_only=True, sub_path="a/b")
    with_everything = GpuPod(
        image=IMAGE,
        env={"HF_TOKEN": SecretKey(secret="hf", key="token")},
        env_from=[ConfigMapEnv(config_map="chat", prefix="CHAT_")],
        mounts=[
            weights,
            claim,
            ConfigMapMount(path="/etc/chat", config_map="chat"),
            SecretMount(path="/etc/hf/token", secret="hf", mode=0o400, sub_path="token"),
        ],
        init_containers=[load, logs],
        image_pull_secrets=["ngc"],
        overlay={
            "volumes": [{"name": "scratch", "emptyDir": {"medium": "Memory"}}, {"name": "more", "emptyDir": {}}],
            "containers": [
                {
                    "name": "chat",
                    "env": [{"name": "HF_TOKEN", "value": "none"}],
                    "volumeMounts": [{"mountPath": "/more", "name": "more"}],
                },
                {"name": "proxy", "image": IMAGE},
            ],
        },
    )
    shape = NodeShape(instance_types=("g6.xlarge",))
    pool = ManagedNodeGroup(stack, "Pool", cluster=cluster, name="pool", shape=shape, max_nodes=1)
    GpuDeployment(stack, "Chat", cluster=cluster, pool=pool, name="chat", pod=with_everything, port=80)

    template = manifest(resources_of(stack), "Deployment")["spec"]["template"]
    metadata = {"name": "chat", "namespace": "default", "labels": template["metadata"]["labels"]}
    assert refusal(client, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}) == ""
