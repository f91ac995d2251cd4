"""Jobs and deployments get the parts of a pod other than its GPUs, and the overlay is merged last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import Disk, GpuDeployment, GpuJob, GpuPod, ManagedNodeGroup, NodeShape
from gpu_constructs.workloads import (
    ConfigMapEnv,
    ConfigMapMount,
    InitContainer,
    ScratchMount,
    SecretKey,
    SecretMount,
    VolumeClaimMount,
)
from gpu_preflight.judging.check import Report, check
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.inputs import read_input
from tests.templates import manifest, manifests_of, resources_of

IMAGE = "registry.example.com/train@sha256:" + "a" * 64
SHAPE = NodeShape(instance_types=("g6.xlarge",), raid0=False, disk=Disk(size_gib=100))
# Kubelet keeps 1 GiB and a tenth out of 100 GiB.
MOST_GIB = 89


def pool(stack: cdk.Stack, cluster: eks.ICluster) -> ManagedNodeGroup:
    return ManagedNodeGroup(stack, "Pool", cluster=cluster, name="pool", shape=SHAPE, max_nodes=2)


def job(stack: cdk.Stack, cluster: eks.ICluster, /, pod: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The pod's spec of a valid job of such a pod, with ``changes`` of the job applied."""
    made = GpuPod(**{"image": IMAGE} | pod)
    GpuJob(stack, "Job", cluster=cluster, pool=pool(stack, cluster), name="train", pod=made, **changes)
    return dict(manifest(resources_of(stack), "Job")["spec"]["template"]["spec"])


def deployment(stack: cdk.Stack, cluster: eks.ICluster, /, pod: dict[str, Any]) -> dict[str, Any]:
    made = GpuPod(**{"image": IMAGE} | pod)
    GpuDeployment(stack, "Serve", cluster=cluster, pool=pool(stack, cluster), name="train", pod=made, port=80)
    return dict(manifest(resources_of(stack), "Deployment")["spec"]["template"]["spec"])


def everything() -> dict[str, Any]:
    weights = ScratchMount(path="/models", size_gib=60)
    return {
        "env": {"HF_TOKEN": SecretKey(secret="hf", key="token"), "HF_HOME": "/models"},
        "env_from": [ConfigMapEnv(config_map="chat")],
        "mounts": [
            weights,
            VolumeClaimMount(path="/data", claim="data", read_only=True),
            ConfigMapMount(path="/etc/chat", config_map="chat"),
            SecretMount(path="/etc/hf", secret="hf"),
        ],
        "init_containers": [
            InitContainer(
                name="load",
                image="registry.example.com/s5cmd:2",
                args=["cp", "s3://weights/llama/*", "/models/"],
                mounts=[weights],
                cpus=2,
                memory_gib=4,
            )
        ],
        "image_pull_secrets": ["ngc"],
        "overlay": {
            "containers": [{"name": "train", "terminationMessagePolicy": "FallbackToLogsOnError"}],
            "terminationGracePeriodSeconds": 120,
        },
    }


def test_pod_with_everything(stack: cdk.Stack, cluster: eks.ICluster, snapshot_yaml: SnapshotAssertion) -> None:
    assert deployment(stack, cluster, everything()) == snapshot_yaml


def test_a_job_has_what_a_deployment_has(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    of_job = job(stack, cluster, everything())

    for field in ("initContainers", "volumes", "imagePullSecrets", "terminationGracePeriodSeconds"):
        assert of_job[field]
    [container] = of_job["containers"]
    assert [each["mountPath"] for each in container["volumeMounts"]] == [
        "/dev/shm",
        "/models",
        "/data",
        "/etc/chat",
        "/etc/hf",
    ]
    assert container["envFrom"] == [{"configMapRef": {"name": "chat"}}]
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_a_user_writes_to_the_fresh_volume_of_a_claim(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    spec = job(stack, cluster, {"run_as_user": 1000, "mounts": [VolumeClaimMount(path="/out", claim="results")]})

    assert spec["securityContext"] == {
        "fsGroup": 1000,
        "fsGroupChangePolicy": "OnRootMismatch",
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_so_does_the_user_of_an_init_container(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    results = VolumeClaimMount(path="/out", claim="results")
    load = InitContainer(name="load", image="registry.example.com/s5cmd:2", mounts=[results], cpus=2, memory_gib=4)

    spec = job(stack, cluster, {"run_as_user": 1000, "init_containers": [load]})

    assert spec["securityContext"]["fsGroup"] == 1000


@pytest.mark.parametrize(
    "pod",
    [
        {"run_as_user": 1000, "mounts": [VolumeClaimMount(path="/in", claim="data", read_only=True)]},
        {"run_as_user": 1000, "mounts": [ScratchMount(path="/tmp", size_gib=1)]},
        {"run_as_user": 0, "mounts": [VolumeClaimMount(path="/out", claim="results")]},
        {"mounts": [VolumeClaimMount(path="/out", claim="results")]},
    ],
    ids=["only reads", "no claim", "root", "user of the image"],
)
def test_no_group_where_none_is_needed(stack: cdk.Stack, cluster: eks.ICluster, pod: dict[str, Any]) -> None:
    assert "fsGroup" not in job(stack, cluster, pod)["securityContext"]


def test_scratch_is_asked_of_the_disk_and_no_limit_counts_logs_against_it(
    stack: cdk.Stack, cluster: eks.ICluster
) -> None:
    [container] = job(stack, cluster, {"mounts": [ScratchMount(path="/a", size_gib=MOST_GIB)]})["containers"]

    assert container["resources"]["requests"]["ephemeral-storage"] == f"{MOST_GIB}Gi"
    assert "ephemeral-storage" not in container["resources"]["limits"]


def test_scratch_of_an_init_container_alone_is_asked_for_too(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    load = InitContainer(name="load", image=IMAGE, mounts=[ScratchMount(path="/a", size_gib=5)])

    [container] = job(stack, cluster, {"init_containers": [load]})["containers"]

    assert container["resources"]["requests"]["ephemeral-storage"] == "5Gi"


def test_refuses_scratch_that_no_node_of_the_pool_has(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    mounts = [ScratchMount(path="/a", size_gib=MOST_GIB), ScratchMount(path="/b", size_gib=1, name="b")]

    with pytest.raises(ValueError, match=r"Test/Job: pod must have at most 89 GiB of scratch, .* got 90; write NodeSh"):
        job(stack, cluster, {"mounts": mounts})


@pytest.mark.parametrize(
    ("pod", "init", "message"),
    [
        (
            {},
            {"cpus": 5},
            "at most 3.92 cpus for an init container, or for itself with its sidecars, got 5; request less",
        ),
        ({}, {"memory_gib": 17}, "at most 15 memory_gib for an init container, .* got 17"),
        ({"cpus": 3}, {"cpus": 1.5, "sidecar": True}, "at most 3.92 cpus for .* got 4.5"),
        ({"memory_gib": 12}, {"cpus": 0.5, "memory_gib": 5, "sidecar": True}, "at most 15 memory_gib for .* got 17"),
    ],
)
def test_refuses_init_containers_that_no_node_has_room_for(
    stack: cdk.Stack, cluster: eks.ICluster, pod: dict[str, Any], init: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"Test/Job: pod must request {message}"):
        job(stack, cluster, pod | {"init_containers": [InitContainer(name="load", image=IMAGE, **init)]})


def test_takes_init_containers_that_fill_a_node(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    fills = [
        InitContainer(name="load", image=IMAGE, cpus=3.92, memory_gib=15),
        InitContainer(name="logs", image=IMAGE, cpus=0.92, memory_gib=3, sidecar=True),
    ]

    assert job(stack, cluster, {"cpus": 3, "memory_gib": 12, "init_containers": fills})["initContainers"]


def test_by_default_a_pod_takes_what_its_sidecars_leave(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    logs = InitContainer(name="logs", image=IMAGE, cpus=2, memory_gib=6, sidecar=True)

    [container] = job(stack, cluster, {"init_containers": [logs]})["containers"]

    assert container["resources"]["requests"]["cpu"] == "1"
    assert container["resources"]["limits"]["memory"] == "9Gi"


def test_refuses_an_init_container_of_the_jobs_name(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    with pytest.raises(
        ValueError, match=r"Test/Job: pod must have init_containers with .*than the container, got 'train' twice"
    ):
        job(stack, cluster, {"init_containers": [InitContainer(name="train", image=IMAGE)]})


def test_refuses_an_overlay_of_a_container_that_is_not_there(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    with pytest.raises(ValueError, match=r"Test/Serve: overlay must name one of the containers, train, .*'trian'"):
        deployment(stack, cluster, {"overlay": {"containers": [{"name": "trian", "tty": True}]}})


def test_a_changed_overlay_makes_another_job(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    made = pool(stack, cluster)
    for number, overlay in enumerate(({}, {"hostPID": False}, {"hostPID": True})):
        pod = GpuPod(image=IMAGE, overlay=overlay)
        GpuJob(stack, f"Job{number}", cluster=cluster, pool=made, name="train", pod=pod)

    names = {each["metadata"]["name"] for each in manifests_of(resources_of(stack)) if each["kind"] == "Job"}
    assert len(names) == 3


def test_the_overlay_is_laid_over_the_variables_of_a_gang(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    env = [{"name": "PET_MASTER_PORT", "value": "1234"}]
    overlay = {"containers": [{"name": "train", "env": env}, {"name": "watch", "image": "registry.example.com/w:1"}]}

    containers = job(stack, cluster, {"overlay": overlay}, gang=True, pods=2)["containers"]

    ports = [each["value"] for each in containers[0]["env"] if each["name"] == "PET_MASTER_PORT"]
    assert ports == ["1234"]
    assert [each["name"] for each in containers] == ["train", "watch"]


def judged(stack: cdk.Stack, folder: Path) -> Report:
    """Preflight's findings in a stack's template."""
    file = folder / "stack.template.json"
    file.write_text(json.dumps({"Resources": resources_of(stack)}))
    return check(read_input([str(file)]))


def test_preflight_finds_nothing_wrong_with_what_a_pod_has(
    stack: cdk.Stack, cluster: eks.ICluster, tmp_path: Path
) -> None:
    job(stack, cluster, everything())

    found = {each.rule.id for each in judged(stack, tmp_path).findings}
    assert found & {"GPU301", "GPU302", "GPU405", "GPU408", "GPU409", "GPU410", "GPU413"} == set()


def test_preflight_checks_the_changes_of_an_overlay(stack: cdk.Stack, cluster: eks.ICluster, tmp_path: Path) -> None:
    mounts = [{"name": "nowhere", "mountPath": "/data"}]
    overlay = {"nodeSelector": {"disk": "fast"}, "containers": [{"name": "train", "volumeMounts": mounts}]}
    job(stack, cluster, {"overlay": overlay})

    report = judged(stack, tmp_path)

    assert "GPU408" in {each.rule.id for each in report.findings}
    [verdict] = report.explanation(report.cases[0]).verdicts
    assert verdict.answer is Answer.NO
    assert any("disk" in reason.text for each in verdict.pools for reason in each.reasons)
