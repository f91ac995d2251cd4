"""GpuSmokeTest asks one pool for one GPU the way its nodes are offered."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import GpuSmokeTest, ManagedNodeGroup, NodeShape, Taint
from gpu_constructs.workloads import manifests
from gpu_facts.versions import CUDA_SAMPLE, SMOKE_TEST
from tests.templates import MANIFEST, depends_on, manifest, of_type, resources_of


@pytest.fixture
def nodes(stack: cdk.Stack, cluster: eks.ICluster) -> ManagedNodeGroup:
    """A group whose nodes have a taint of their own."""
    shape = NodeShape(instance_types=("g6.xlarge",), taints=(Taint(key="team", value="vision"),))
    return ManagedNodeGroup(stack, "Nodes", cluster=cluster, name="l4", shape=shape, max_nodes=1)


def test_manifest(
    stack: cdk.Stack, cluster: eks.ICluster, nodes: ManagedNodeGroup, snapshot_yaml: SnapshotAssertion
) -> None:
    GpuSmokeTest(stack, "Smoke", cluster=cluster, pool=nodes)

    job = manifest(resources_of(stack), "Job")
    assert job == snapshot_yaml


@pytest.mark.parametrize(
    ("instance_type", "containers"), [("g6.xlarge", ["nvidia-smi", "vector-add"]), ("g5g.xlarge", ["nvidia-smi"])]
)
def test_computes_where_an_image_is_known_to_run(
    stack: cdk.Stack, cluster: eks.ICluster, instance_type: str, containers: list[str]
) -> None:
    shape = NodeShape(instance_types=(instance_type,))
    pool = ManagedNodeGroup(stack, "Pool", cluster=cluster, name="pool", shape=shape, max_nodes=1)
    GpuSmokeTest(stack, "Smoke", cluster=cluster, pool=pool)

    pod = manifest(resources_of(stack), "Job")["spec"]["template"]["spec"]
    assert [each["name"] for each in [*pod.get("initContainers", []), *pod["containers"]]] == containers


def test_the_pod_is_confined(stack: cdk.Stack, cluster: eks.ICluster, nodes: ManagedNodeGroup) -> None:
    GpuSmokeTest(stack, "Smoke", cluster=cluster, pool=nodes)

    pod = manifest(resources_of(stack), "Job")["spec"]["template"]["spec"]
    assert pod["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["resources"]["limits"]["memory"] == "2Gi"
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_whatever_changes_in_the_pod_changes_the_name(
    stack: cdk.Stack, cluster: eks.ICluster, nodes: ManagedNodeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    GpuSmokeTest(stack, "Smoke", cluster=cluster, pool=nodes)
    before = manifest(resources_of(stack), "Job")["metadata"]["name"]

    assert _job(nodes)["metadata"]["name"] == before
    # As another version of this library might change it; Kubernetes would reject that change of the same Job.
    monkeypatch.setattr(manifests, "_SMOKE_TEST_MEMORY", "3Gi")
    assert _job(nodes)["metadata"]["name"] != before


def _job(pool: ManagedNodeGroup) -> dict[str, Any]:
    chart = manifests.smoke_test_chart(
        scope=pool, pool=pool, image=SMOKE_TEST.reference, cuda_image=CUDA_SAMPLE.reference, namespace="default"
    )
    return dict(chart.to_json()[0])


def test_job_starts_after_its_pool(stack: cdk.Stack, cluster: eks.ICluster, nodes: ManagedNodeGroup) -> None:
    GpuSmokeTest(stack, "Smoke", cluster=cluster, pool=nodes)

    resources = resources_of(stack)
    [job] = of_type(resources, MANIFEST)
    assert "AWS::EKS::Nodegroup" in {resources[id]["Type"] for id in depends_on(resources, job)}


def test_another_pod_is_another_job(stack: cdk.Stack, cluster: eks.ICluster, nodes: ManagedNodeGroup) -> None:
    GpuSmokeTest(stack, "A", cluster=cluster, pool=nodes)
    GpuSmokeTest(stack, "B", cluster=cluster, pool=nodes, image="nvcr.io/nvidia/cuda:13.1.1-base-ubuntu22.04")

    applied = str([each["Properties"]["Manifest"] for each in of_type(resources_of(stack), MANIFEST).values()])
    names = {part[:8] for part in applied.split('"name":"gpu-smoke-test-')[1:]}
    assert len(names) == 2


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"pool": "l4"},
            TypeError,
            r"Test/Smoke: pool must be a pool such as a ManagedNodeGroup or KarpenterNodePool, got 'l4'",
        ),
        ({"image": "cuda:latest"}, ValueError, r"Test/Smoke: image must end in a tag other than 'latest'"),
        ({"cuda_image": "cuda"}, ValueError, r"Test/Smoke: cuda_image must end in a tag"),
        ({"namespace": "Default"}, ValueError, r"Test/Smoke: namespace must be 1 to 63"),
        ({"cluster": None}, TypeError, r"Test/Smoke: cluster must be a GpuCluster or a cluster"),
    ],
)
def test_refuses(
    stack: cdk.Stack,
    cluster: eks.ICluster,
    nodes: ManagedNodeGroup,
    changes: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        GpuSmokeTest(stack, "Smoke", **{"cluster": cluster, "pool": nodes} | changes)
