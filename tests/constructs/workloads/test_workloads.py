"""GpuJob and GpuDeployment ask for GPUs by the right name, on the right nodes, and for no more than a node has."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import (
    GpuDeployment,
    GpuJob,
    GpuPod,
    KarpenterNodePool,
    ManagedNodeGroup,
    Mig,
    NodeShape,
    TimeSlicing,
    UpTo,
)
from gpu_constructs.workloads.deployments import traffic_distribution
from tests.templates import depends_on, manifest, manifests_of, object_id, of_type, resources_of

IMAGE = "registry.example.com/train@sha256:" + "a" * 64
L4 = NodeShape(instance_types=("g6.xlarge",))
P5 = NodeShape(instance_types=("p5.48xlarge",), efa=True)


def pool(stack: cdk.Stack, cluster: eks.ICluster, shape: NodeShape = L4) -> ManagedNodeGroup:
    subnets = [cluster.vpc.private_subnets[0]]
    return ManagedNodeGroup(stack, "Pool", cluster=cluster, name="pool", shape=shape, max_nodes=2, subnets=subnets)


def job(stack: cdk.Stack, cluster: eks.ICluster, shape: NodeShape = L4, /, **changes: Any) -> dict[str, Any]:
    """The manifest of a valid job, with ``changes`` of its pod and of itself applied."""
    pod = GpuPod(**{"image": IMAGE} | changes.pop("pod", {}))
    GpuJob(stack, "Job", cluster=cluster, pool=pool(stack, cluster, shape), name="train", pod=pod, **changes)
    return manifest(resources_of(stack), "Job")


def container(manifest: dict[str, Any]) -> dict[str, Any]:
    [found] = manifest["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_job(stack: cdk.Stack, cluster: eks.ICluster, snapshot_yaml: SnapshotAssertion) -> None:
    assert job(stack, cluster, P5, pod={"gpus": 8, "efa": 32, "shm_gib": 64}, pods=2, queue="research") == snapshot_yaml


def test_deployment(stack: cdk.Stack, cluster: eks.ICluster, snapshot_yaml: SnapshotAssertion) -> None:
    GpuDeployment(
        stack,
        "Serve",
        cluster=cluster,
        pool=pool(stack, cluster),
        name="chat",
        pod=GpuPod(image=IMAGE, args=("--model", "/models/chat"), env={"HF_HOME": "/models"}),
        port=8000,
        replicas=2,
        same_zone=True,
        kubernetes_version="1.36",
    )

    made = {each["kind"]: each for each in manifests_of(resources_of(stack)) if each["metadata"]["name"] == "chat"}
    assert made["Service"]["spec"]["trafficDistribution"] == "PreferSameZone"
    assert [made[kind] for kind in ("Deployment", "Service", "PodDisruptionBudget")] == snapshot_yaml


@pytest.mark.parametrize(
    ("minor", "word"), [("1.33", "PreferClose"), ("1.34", "PreferSameZone"), ("1.36", "PreferSameZone")]
)
def test_a_service_prefers_its_zone_in_the_words_of_the_version(minor: str, word: str) -> None:
    assert traffic_distribution(minor) == word


@pytest.mark.parametrize(
    ("shape", "pod", "limits"),
    [
        (L4, {}, {"nvidia.com/gpu": "1", "memory": "12Gi"}),
        (L4, {"memory_gib": 10, "cpus": 2.5}, {"nvidia.com/gpu": "1", "memory": "10Gi"}),
        (
            NodeShape(instance_types=("g6.12xlarge",), sharing=TimeSlicing(4)),
            {},
            {"nvidia.com/gpu.shared": "1", "memory": "9Gi"},
        ),
        (
            NodeShape(instance_types=("p5.48xlarge",), sharing=Mig(geometry={"3g.40gb": 1, "1g.10gb": 4})),
            {"mig_profile": "3g.40gb"},
            {"nvidia.com/mig-3g.40gb": "1", "memory": "40Gi"},
        ),
        (
            NodeShape(
                instance_types=("p5.48xlarge",), sharing=Mig(geometry={"1g.10gb": 7}), operating_system="bottlerocket"
            ),
            {"mig_profile": "1g.10gb", "memory_gib": 20},
            {"nvidia.com/gpu": "1", "memory": "20Gi"},
        ),
        (
            P5,
            {"gpus": 8, "efa": 32, "memory_gib": 1000},
            {
                "nvidia.com/gpu": "8",
                "memory": "1000Gi",
                "vpc.amazonaws.com/efa": "32",
                "hugepages-2Mi": "10256Mi",
            },
        ),
        (
            P5,
            {"gpus": 4, "efa": 16, "memory_gib": 500},
            {
                "nvidia.com/gpu": "4",
                "memory": "500Gi",
                "vpc.amazonaws.com/efa": "16",
                "hugepages-2Mi": "5128Mi",
            },
        ),
    ],
)
def test_limits_are_what_the_pools_nodes_offer(
    stack: cdk.Stack, cluster: eks.ICluster, shape: NodeShape, pod: dict[str, Any], limits: dict[str, str]
) -> None:
    resources = container(job(stack, cluster, shape, pod=pod))["resources"]

    assert resources["limits"] == limits
    # Equal, so that the scheduler counts what the pod may take; CPU is only asked for.
    assert {key: value for key, value in resources["requests"].items() if key != "cpu"} == limits


def test_a_pod_for_karpenter_asks_for_no_huge_pages(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    made = KarpenterNodePool(
        stack,
        "Pool",
        cluster=cluster,
        name="p5",
        shape=P5,
        size=UpTo(gpus=16),
        node_role=iam.Role.from_role_name(stack, "Role", "nodes"),
        subnets=[cluster.vpc.private_subnets[0]],
    )
    GpuJob(stack, "Job", cluster=cluster, pool=made, name="train", pod=GpuPod(image=IMAGE, gpus=8, efa=32))

    limits = container(manifest(resources_of(stack), "Job"))["resources"]["limits"]
    assert limits["vpc.amazonaws.com/efa"] == "32"
    assert "hugepages-2Mi" not in limits


def test_a_job_runs_in_its_pool_and_no_other_pod_takes_its_node(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    template = job(stack, cluster)["spec"]["template"]

    assert template["spec"]["nodeSelector"] == {"gpu-constructs.io/pool": "pool"}
    [toleration] = template["spec"]["tolerations"]
    assert (toleration["key"], toleration["value"]) == ("nvidia.com/gpu", "true")
    assert template["metadata"]["annotations"] == {
        "karpenter.sh/do-not-disrupt": "true",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    }


def test_refuses_two_jobs_that_are_one_object(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    both: dict[str, Any] = {
        "cluster": cluster,
        "pool": pool(stack, cluster),
        "name": "train",
        "pod": GpuPod(image=IMAGE),
    }
    GpuJob(stack, "Job", **both)

    with pytest.raises(
        ValueError, match=r"Test/Again: Job must have a unique name in .*which belongs to 'Test/Job'.*GPU452"
    ):
        GpuJob(stack, "Again", **both)


def test_refuses_two_deployments_of_one_name_in_one_namespace(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    nodes = pool(stack, cluster)

    def serve(id: str, **how: Any) -> None:
        GpuDeployment(
            stack, id, cluster=cluster, pool=nodes, name="chat", pod=GpuPod(image=IMAGE), replicas=1, port=80, **how
        )

    serve("Chat")
    serve("Elsewhere", namespace="research")
    with pytest.raises(
        ValueError, match=r"Test/Again: Deployment must have a unique name .*'chat', which belongs to 'Test/Chat'"
    ):
        serve("Again")


def test_a_job_is_gone_before_its_pool(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    job(stack, cluster)

    resources = resources_of(stack)
    [group] = of_type(resources, "AWS::EKS::Nodegroup")
    assert group in depends_on(resources, object_id(resources, "Job"))


@pytest.mark.parametrize(
    ("shape", "pod", "message"),
    [
        (L4, {"gpus": 2}, r"Test/Job: pod must have at most the 1 nvidia.com/gpu of a node of the pool, got 2"),
        (
            L4,
            {"cpus": 4},
            r"pod must have at most 3\.92 vCPUs, which the kubelet leaves for pods on a node with 4, got 4",
        ),
        (
            L4,
            {"memory_gib": 16},
            "pod must have at most 15 GiB of memory, which the kubelet leaves for pods on a node with 16, got 16",
        ),
        (
            L4,
            {"shm_gib": 15},
            "shm_gib must be below 15, the memory in GiB that the kubelet .* leaves for pods, got 15; lower it",
        ),
        (L4, {"efa": 1}, r"pod must have at most the 0 EFA interfaces of the pool's nodes, got 1"),
        (P5, {"efa": 33}, r"pod must have at most the 32 EFA interfaces"),
        (L4, {"mig_profile": "1g.10gb"}, r"pod must have no mig_profile, because the pool has no MIG"),
        (
            NodeShape(instance_types=("g6.xlarge",), sharing=TimeSlicing(4)),
            {"gpus": 2},
            "pod must have one nvidia.com/gpu.shared, got 2; request one, because several shares provide neither "
            "more time",
        ),
        (
            NodeShape(instance_types=("p5.48xlarge",), sharing=Mig(geometry={"3g.40gb": 1, "1g.10gb": 4})),
            {},
            r"pod must have a mig_profile, because the pool offers nvidia.com/mig-3g.40gb, nvidia.com/mig-1g.10gb",
        ),
        (
            NodeShape(instance_types=("p5.48xlarge",), sharing=Mig(geometry={"3g.40gb": 1})),
            {"mig_profile": "3g.40g"},
            r"mig_profile must be one of 3g.40gb, got '3g.40g'; did you mean",
        ),
    ],
)
def test_refuses_a_pod_that_no_node_of_the_pool_can_run(
    stack: cdk.Stack, cluster: eks.ICluster, shape: NodeShape, pod: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        job(stack, cluster, shape, pod=pod)


def test_the_largest_shared_memory_of_a_node_is_taken(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    [container] = job(stack, cluster, L4, pod={"shm_gib": 14})["spec"]["template"]["spec"]["containers"]

    assert container["resources"]["limits"]["memory"] == "15Gi"


@pytest.mark.parametrize(
    ("says", "error", "message"),
    [
        ({"image": "train:latest"}, ValueError, r"gpu pod: image must end in a tag other than 'latest'"),
        ({"gpus": 0}, ValueError, "gpus must be at least 1, got 0; use a pool without GPUs for a pod without GPUs"),
        ({"gpus": 0.5}, TypeError, r"gpus must be a whole number, got 0.5"),
        ({"command": "python train.py"}, TypeError, r"command must be a list of strings, got 'python train.py'"),
        ({"env": {"A": 1}}, TypeError, r"env must map names to strings"),
        ({"cpus": 0}, ValueError, r"cpus must be at least 0.001, got 0"),
        ({"cpus": "2"}, TypeError, r"cpus must be a number, got '2'"),
        ({"memory_gib": 1, "shm_gib": 1}, ValueError, r"memory_gib must be above shm_gib, which is part of it"),
        ({"service_account": "My Account"}, ValueError, r"service_account must be 1 to 63"),
    ],
)
def test_refuses_a_pod(says: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        GpuPod(**{"image": IMAGE} | says)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"pool": "l4"},
            TypeError,
            "pool must be a pool such as a ManagedNodeGroup or KarpenterNodePool, got 'l4'; pass its construct",
        ),
        ({"pod": {"image": IMAGE}}, TypeError, r"pod must be a GpuPod, got \{"),
        ({"pods": 0}, ValueError, r"pods must be at least 1, got 0"),
        ({"name": "a" * 55}, ValueError, r"name must be at most 54 characters"),
        ({"max_hours": 0}, ValueError, r"max_hours must be at least 1, got 0"),
        ({"queue": "My Queue"}, ValueError, r"queue must be 1 to 63"),
    ],
)
def test_refuses_a_job(
    stack: cdk.Stack, cluster: eks.ICluster, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    says: dict[str, Any] = {"pool": pool(stack, cluster), "name": "train", "pod": GpuPod(image=IMAGE)}
    with pytest.raises(error, match=f"Test/Job: {message}"):
        GpuJob(stack, "Job", cluster=cluster, **says | changes)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"port": 0}, ValueError, r"port must be at least 1, got 0"),
        ({"health_path": "health"}, ValueError, r"health_path must begin with '/' and have no spaces, got 'health'"),
        ({"replicas": -1}, ValueError, r"replicas must be at least 0, got -1"),
        ({"same_zone": True}, ValueError, r"kubernetes_version must be given for an imported cluster"),
        ({"name": "Chat"}, ValueError, r"name must be 1 to 63"),
    ],
)
def test_refuses_a_deployment(
    stack: cdk.Stack, cluster: eks.ICluster, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    says: dict[str, Any] = {"pool": pool(stack, cluster), "name": "chat", "pod": GpuPod(image=IMAGE), "port": 8000}
    with pytest.raises(error, match=f"Test/Serve: {message}"):
        GpuDeployment(stack, "Serve", cluster=cluster, **says | changes)


def test_cpus_are_asked_for_to_the_nearest_thousandth() -> None:
    assert GpuPod(image=IMAGE, cpus=1.005).cpu_request("pod", L4) == "1005m"
