"""Pods with a model on the real API server, and an image volume on an older version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_s3 as s3

from gpu_constructs import GpuDeployment, GpuJob, GpuPod, ManagedNodeGroup, NodeShape
from gpu_constructs.workloads import CopiedModel, HubModel, ImageModel, Model, MountedModel, SecretKey, StreamedModel
from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input
from gpu_rehearsal.cluster.client import Client
from gpu_rehearsal.cluster.control_plane import control_plane
from tests.e2e.rig import UNDISTURBED
from tests.templates import manifests_of, resources_of
from tools import build_e2e_tools

IMAGE = "registry.example.com/serve:1"
WEIGHTS = "registry.example.com/llama@sha256:" + "a" * 64
ASKED = {"dryRun": "All", "fieldValidation": "Strict"}


def models(stack: cdk.Stack) -> dict[str, Model]:
    bucket = s3.Bucket.from_bucket_name(stack, "Bucket", "weights")
    token = SecretKey(secret="hf", key="token")
    return {
        "copied": CopiedModel(bucket=bucket, prefix="llama/", size_gib=140),
        "mounted": MountedModel(bucket=bucket, prefix="llama/", cache_gib=100),
        "streamed": StreamedModel(bucket=bucket, prefix="llama/"),
        "image": ImageModel(image=WEIGHTS),
        "hub": HubModel(repo="meta-llama/Llama-3.1-8B", revision="0" * 40, token=token, size_gib=15),
        "kept": HubModel(repo="meta-llama/Llama-3.1-8B", revision="0" * 40, claim="hub"),
    }


def test_the_api_server_takes_everything_that_a_model_brings(
    client: Client, stack: cdk.Stack, cluster: eks.ICluster
) -> None:
    shape = NodeShape(instance_types=("g6e.4xlarge",))
    pool = ManagedNodeGroup(stack, "Pool", cluster=cluster, name="pool", shape=shape, max_nodes=1)
    for name, model in models(stack).items():
        how: dict[str, Any] = {"cluster": cluster, "pool": pool, "model": model, "kubernetes_version": "1.36"}
        pod = GpuPod(image=IMAGE, args=["--model", model.location], run_as_user=1000 if name == "kept" else None)
        GpuDeployment(stack, name.title(), name=name, pod=pod, port=8000, **how)
        if name != "mounted":
            GpuJob(stack, f"{name.title()}Job", name=f"{name}-job", pod=pod, **how)

    asked = list(manifests_of(resources_of(stack)))
    assert len([each for each in asked if each["kind"] in ("Deployment", "Job")]) == 11
    for each in asked:
        client.create(each, **ASKED)
        if each["kind"] in ("Deployment", "Job"):
            alone = pod_of(each)
            assert names(client.create(alone, **ASKED)) == names(alone)


def pod_of(owner: dict[str, Any]) -> dict[str, Any]:
    """A pod as the controller of its owner would make it; no controller makes its service account here."""
    spec = {key: each for key, each in owner["spec"]["template"]["spec"].items() if key != "serviceAccountName"}
    metadata = {"name": owner["metadata"]["name"], "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def names(pod: dict[str, Any]) -> list[str]:
    """The volumes of a pod."""
    return [each["name"] for each in pod["spec"]["volumes"]]


@pytest.mark.parametrize(("version", "kept"), [("1.34", False), ("1.35", True)])
def test_an_older_api_server_drops_an_image_volume_in_silence_and_preflight_says_so(
    tmp_path: Path, version: str, kept: bool
) -> None:
    folder = build_e2e_tools.folder_of_tools()
    if folder is None:
        pytest.skip(build_e2e_tools.MISSING)
    container = {"name": "main", "image": IMAGE, "volumeMounts": [{"name": "weights", "mountPath": "/models"}]}
    volume = {"name": "weights", "image": {"reference": WEIGHTS, "pullPolicy": "IfNotPresent"}}
    metadata = {"name": "chat", "namespace": "default"}
    spec = {"containers": [container], "volumes": [volume]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    with control_plane(folder, controllers=(), scheduler=UNDISTURBED, emulates=version) as plane:
        made = plane.client.create(pod, **ASKED)["spec"]

    assert [each["name"] for each in made.get("volumes", [])] == (["weights"] if kept else [])
    assert bool(made["containers"][0].get("volumeMounts")) is kept
    cluster = {
        "Type": "AWS::EKS::Cluster",
        "Properties": {"Name": "prod", "Version": version, "RoleArn": "arn:aws:iam::111122223333:role/cluster"},
    }
    (tmp_path / "cluster.json").write_text(json.dumps({"Resources": {"Cluster": cluster}}))
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    found = {each.rule.id for each in check(read_input([str(tmp_path)])).findings}
    assert ("GPU415" in found) is not kept
