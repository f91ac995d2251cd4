"""GPUs that are claimed: on nodes that no device plugin serves and that exist before the pods, by valid objects."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import (
    AutoModeNodePool,
    GpuDeployment,
    GpuJob,
    GpuPod,
    GpuSmokeTest,
    Karpenter,
    KarpenterNodePool,
    ManagedNodeGroup,
    Mig,
    NodeShape,
    Static,
    TimeSlicing,
    UpTo,
)
from gpu_constructs.devices import DraDriver, GpuOperator, SharedGpuClaim
from gpu_constructs.devices.dra_driver import dra_driver_values
from gpu_constructs.pools import GpuClaim
from tests.chart_values import unknown_values
from tests.schemas import validate
from tests.templates import CHART, MANIFEST, depends_on, manifest, manifests_of, of_type, only, resources_of, text_of

L4 = NodeShape(instance_types=("g6.12xlarge",), device_manager="dra")
P5_MIG = NodeShape(instance_types=("p5.48xlarge",), device_manager="dra", sharing=Mig(geometry={"1g.10gb": 7}))
IMAGE = "registry.example.com/serve@sha256:" + "a" * 64


def pool(stack: cdk.Stack, cluster: eks.ICluster, shape: NodeShape = L4, *, min_nodes: int = 1) -> ManagedNodeGroup:
    return ManagedNodeGroup(stack, "Pool", cluster=cluster, name="l4", shape=shape, min_nodes=min_nodes, max_nodes=3)


def driver(stack: cdk.Stack, cluster: eks.ICluster) -> DraDriver:
    return DraDriver(stack, "Dra", cluster=cluster, kubernetes_version="1.36")


def test_nodes_are_kept_from_every_device_plugin() -> None:
    labels = L4.node_labels("l4")

    assert labels["gpu-constructs.io/device-manager"] == "dra"
    assert not {"nvidia.com/gpu.present", "k8s.amazonaws.com/accelerator"} & labels.keys()


def test_the_autoscaler_expects_no_counted_gpu() -> None:
    assert L4.resources()["nvidia.com/gpu"] == "0"


def test_bottlerocket_switches_its_own_device_plugin_off(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    shape = NodeShape(instance_types=("g6.xlarge",), operating_system="bottlerocket", device_manager="dra")
    pool(stack, cluster, shape)

    data = only(resources_of(stack), "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]["UserData"]
    assert "[settings.kubelet-device-plugins.nvidia]\nenabled = false" in b64decode(data).decode()


def test_job_claims_its_gpus(stack: cdk.Stack, cluster: eks.ICluster, snapshot_yaml: SnapshotAssertion) -> None:
    driver(stack, cluster)
    pod = GpuPod(image=IMAGE, gpus=2)
    GpuJob(stack, "Job", cluster=cluster, pool=pool(stack, cluster), name="train", pod=pod)

    resources = resources_of(stack)
    template, job = manifest(resources, "ResourceClaimTemplate"), manifest(resources, "Job")
    spec = job["spec"]["template"]["spec"]
    assert spec["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": template["metadata"]["name"]}]
    assert spec["containers"][0]["resources"]["claims"] == [{"name": "gpu"}]
    assert "nvidia.com/gpu" not in json.dumps(spec["containers"])
    assert [template, job] == snapshot_yaml


@pytest.mark.parametrize("minor", ["1.34", "1.35", "1.36"])
def test_objects_are_valid(stack: cdk.Stack, cluster: eks.ICluster, minor: str) -> None:
    mig = pool(stack, cluster, P5_MIG)
    GpuJob(stack, "Job", cluster=cluster, pool=mig, name="train", pod=GpuPod(image=IMAGE, gpus=2))
    shared = SharedGpuClaim(stack, "Shared", cluster=cluster, name="shared", gpu=GpuClaim(memory_gib=20))
    GpuDeployment(
        stack, "Serve", cluster=cluster, pool=mig, name="serve", pod=GpuPod(image=IMAGE, claim=shared.name), port=80
    )

    made = manifests_of(resources_of(stack))
    assert {"ResourceClaim", "ResourceClaimTemplate", "Job", "Deployment"} <= {each["kind"] for each in made}
    for each in made:
        validate(each, minor)


def test_mig_instances_are_claimed_by_their_profile(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    mig = pool(stack, cluster, P5_MIG)
    GpuJob(stack, "Job", cluster=cluster, pool=mig, name="train", pod=GpuPod(image=IMAGE, gpus=2))

    [request] = manifest(resources_of(stack), "ResourceClaimTemplate")["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"] == {
        "deviceClassName": "mig.nvidia.com",
        "selectors": [{"cel": {"expression": 'device.attributes["gpu.nvidia.com"].profile == "1g.10gb"'}}],
        "allocationMode": "ExactCount",
        "count": 2,
    }


def test_pods_share_a_claim_by_its_name(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    shared = SharedGpuClaim(stack, "Shared", cluster=cluster, name="shared")
    pod = GpuPod(image=IMAGE, claim=shared.name)
    GpuDeployment(stack, "Serve", cluster=cluster, pool=pool(stack, cluster), name="serve", pod=pod, port=80)

    spec = manifest(resources_of(stack), "Deployment")["spec"]["template"]["spec"]
    assert spec["resourceClaims"] == [{"name": "gpu", "resourceClaimName": "shared"}]


def job(stack: cdk.Stack, cluster: eks.ICluster | eks.Cluster) -> GpuJob:
    claims = ManagedNodeGroup(stack, "Pool", cluster=cluster, name="l4", shape=L4, min_nodes=1, max_nodes=3)
    return GpuJob(stack, "Job", cluster=cluster, pool=claims, name="train", pod=GpuPod(image=IMAGE))


def shared_claim(stack: cdk.Stack, cluster: eks.ICluster | eks.Cluster) -> SharedGpuClaim:
    return SharedGpuClaim(stack, "Shared", cluster=cluster, name="shared")


@pytest.mark.parametrize(("define", "path"), [(shared_claim, "Test/Shared"), (job, "Test/Job")])
def test_a_cluster_made_here_needs_the_driver(
    stack: cdk.Stack, created_cluster: eks.Cluster, define: Callable[..., Any], path: str
) -> None:
    define(stack, created_cluster)

    rule = rf"{path}: cluster must have a DraDriver, got none; create DraDriver\(stack, ..., cluster=...\) \[GPU132\]"
    with pytest.raises(RuntimeError, match=rule):
        resources_of(stack)


@pytest.mark.parametrize("first", [True, False])
def test_a_cluster_made_here_may_get_the_driver_at_any_time(
    stack: cdk.Stack, created_cluster: eks.Cluster, first: bool
) -> None:
    if first:
        DraDriver(stack, "Dra", cluster=created_cluster)
    shared_claim(stack, created_cluster)
    if not first:
        DraDriver(stack, "Dra", cluster=created_cluster)

    assert manifest(resources_of(stack), "ResourceClaim")["metadata"]["name"] == "shared"


def test_an_imported_cluster_may_have_the_driver_already(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    shared_claim(stack, cluster)

    assert manifest(resources_of(stack), "ResourceClaim")["metadata"]["name"] == "shared"


def test_the_driver_of_the_gpu_operator_is_enough(stack: cdk.Stack, created_cluster: eks.Cluster) -> None:
    values = {"gpuCluster": {"deployCR": True}, "clusterPolicy": {"deployCR": False}}
    GpuOperator(stack, "Operator", cluster=created_cluster, values=values)
    shared_claim(stack, created_cluster)

    assert manifest(resources_of(stack), "ResourceClaim")["metadata"]["name"] == "shared"


@pytest.mark.parametrize("first", [True, False])
def test_the_driver_outlives_the_pods(stack: cdk.Stack, cluster: eks.ICluster, first: bool) -> None:
    made = [driver(stack, cluster)] if first else []
    GpuJob(stack, "Job", cluster=cluster, pool=pool(stack, cluster), name="train", pod=GpuPod(image=IMAGE))
    made = made or [driver(stack, cluster)]

    resources = resources_of(stack)
    [chart] = of_type(resources, CHART)
    [job] = [id for id, each in of_type(resources, MANIFEST).items() if '"kind":"Job"' in str(each["Properties"])]
    assert chart in depends_on(resources, job)


def test_chart_is_pinned_and_keeps_to_its_nodes(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    driver(stack, cluster)

    properties = only(resources_of(stack), CHART)
    assert (properties["Chart"], properties["Version"]) == ("dra-driver-nvidia-gpu", "0.4.1")
    affinity = dra_driver_values()["kubeletPlugin"]["affinity"]["nodeAffinity"]
    [term] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    [rule] = term["matchExpressions"]
    assert rule["values"] == [L4.node_labels("l4")[rule["key"]]]


def test_every_chart_value_exists(chart_values: Path) -> None:
    assert unknown_values(chart_values / "dra-driver-nvidia-gpu-0.4.yaml", dra_driver_values()) == []


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"sharing": TimeSlicing(4)}, r"sharing must be Exclusive\(\), or Mig on al2023, with device_manager='dra'"),
        ({"device_manager": "plugin"}, r"device_manager must be one of device-plugin, gpu-operator, dra, got 'plugin'"),
        (
            {"device_manager": "gpu-operator", "operating_system": "bottlerocket"},
            r"device_manager must be one of bottlerocket, dra on bottlerocket",
        ),
    ],
)
def test_refuses_shapes(changes: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        NodeShape(**{"instance_types": ("g6.xlarge",), "device_manager": "dra"} | changes)


def test_refuses_nodes_that_no_component_launches(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    with pytest.raises(ValueError, match=r"min_nodes must be at least 1 with device_manager='dra', got 0"):
        pool(stack, cluster, min_nodes=0)
    role = iam.Role.from_role_name(stack, "Role", "nodes")
    with pytest.raises(ValueError, match=r"size must be Static\(nodes=2\) with device_manager='dra', got UpTo"):
        KarpenterNodePool(stack, "Karpenter", cluster=cluster, name="l4", shape=L4, size=UpTo(gpus=8), node_role=role)
    auto = NodeShape(instance_types=("g6.xlarge",), operating_system="bottlerocket", device_manager="dra")
    with pytest.raises(ValueError, match=r"shape must be without device_manager, got 'dra'"):
        AutoModeNodePool(stack, "Auto", cluster=cluster, name="l4", shape=auto, size=UpTo(gpus=8))


def test_karpenter_launches_nodes_for_claims_on_request(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    karpenter = Karpenter(stack, "Karpenter", cluster=cluster, version="1.15.1", dynamic_resource_allocation=True)
    KarpenterNodePool(stack, "Pool", cluster=cluster, karpenter=karpenter, name="l4", shape=L4, size=UpTo(gpus=8))

    resources = resources_of(stack)
    values = [
        json.loads(text_of(each["Properties"]["Values"]))
        for each in of_type(resources, CHART).values()
        if "Values" in each["Properties"]
    ]
    [settings] = [each["settings"] for each in values if "settings" in each]
    assert settings["awsFeatureGates"] == {"draNVIDIAGPU": True}
    assert manifest(resources, "NodePool")["spec"]["limits"] == {"nvidia.com/gpu": "8"}


@pytest.mark.parametrize(
    ("shape", "which"),
    [
        (NodeShape(instance_types=("g7e.2xlarge",), device_manager="dra"), "g7e.2xlarge"),
        (P5_MIG, "MIG"),
    ],
)
def test_refuses_claims_of_devices_that_karpenter_does_not_know(
    stack: cdk.Stack, cluster: eks.ICluster, shape: NodeShape, which: str
) -> None:
    karpenter = Karpenter(stack, "Karpenter", cluster=cluster, version="1.15.1", dynamic_resource_allocation=True)

    with pytest.raises(ValueError, match=rf"size must be Static\(nodes=2\) with device_manager='dra' and {which}, got"):
        KarpenterNodePool(
            stack, "Pool", cluster=cluster, karpenter=karpenter, name="pool", shape=shape, size=UpTo(gpus=8)
        )


def test_refuses_an_older_karpenter_for_claims(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    rule = r"version must be 1\.15\.1 with dynamic_resource_allocation, got '1\.14\.1'"
    with pytest.raises(ValueError, match=f"Test/Karpenter: {rule}"):
        Karpenter(stack, "Karpenter", cluster=cluster, dynamic_resource_allocation=True)


def test_a_static_pool_of_karpenter_has_no_overlay(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    role = iam.Role.from_role_name(stack, "Role", "nodes")
    KarpenterNodePool(stack, "Pool", cluster=cluster, name="mig", shape=P5_MIG, size=Static(nodes=2), node_role=role)

    assert {each["kind"] for each in manifests_of(resources_of(stack))} == {"NodePool", "EC2NodeClass"}


def test_refuses_what_cannot_claim(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    with pytest.raises(ValueError, match=r"kubernetes_version must be 1.34 or newer, got '1.33'"):
        DraDriver(stack, "Old", cluster=cluster, kubernetes_version="1.33")
    claims = pool(stack, cluster)
    with pytest.raises(ValueError, match=r"pool must offer GPUs as a resource, got 'l4' with device_manager='dra'"):
        GpuSmokeTest(stack, "Smoke", cluster=cluster, pool=claims)
    plugin = NodeShape(instance_types=("g6.xlarge",))
    counted = ManagedNodeGroup(stack, "Counted", cluster=cluster, name="counted", shape=plugin, max_nodes=1)
    pod = GpuPod(image=IMAGE, claim="shared")
    with pytest.raises(ValueError, match="pod must be without claim on a pool that has device_manager="):
        GpuJob(stack, "Job", cluster=cluster, pool=counted, name="train", pod=pod)


@pytest.mark.parametrize(
    ("changes", "error", "rule"),
    [
        ({"count": 0}, ValueError, "gpu claim: count must be at least 1, got 0"),
        ({"memory_gib": "40"}, TypeError, "gpu claim: memory_gib must be a whole number, got '40'"),
        (
            {"mig_profile": "banana"},
            ValueError,
            "gpu claim: mig_profile must be the name of a profile, got 'banana'; write one such as '1g.10gb'",
        ),
        ({"mig_profile": 1}, TypeError, "gpu claim: mig_profile must be a string, got 1"),
    ],
)
def test_refuses_claims(changes: dict[str, Any], error: type[Exception], rule: str) -> None:
    with pytest.raises(error, match=rule):
        GpuClaim(**changes)


def test_refuses_a_number_together_with_a_claim() -> None:
    with pytest.raises(
        ValueError, match="gpu pod: gpus must be left out with claim, got 4; remove it, because the claim sets"
    ):
        GpuPod(image=IMAGE, gpus=4, claim="shared")


def test_refuses_values_that_are_none(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    with pytest.raises(TypeError, match="Test/Dra: values must be a mapping, got 'x'"):
        DraDriver(stack, "Dra", cluster=cluster, kubernetes_version="1.36", values="x")  # type: ignore[arg-type]
