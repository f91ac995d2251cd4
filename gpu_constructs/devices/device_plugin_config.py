"""What the device plugin and NVIDIA's operator share: the plugin's configuration, and which of both a node may have."""

from __future__ import annotations

from typing import Any, Protocol, cast

import aws_cdk as cdk
from constructs import Construct

from gpu_constructs.installing import registry
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.pools.sharing import Mig, Mps, Sharing, TimeSlicing
from gpu_facts.resources import GPU


def plugin_config(sharing: Sharing) -> dict[str, Any]:
    """Return the plugin's configuration file.

    Source: NVIDIA/k8s-device-plugin v0.20.0 api/config/v1/
    """
    found: dict[str, Any] = {"version": "v1", "flags": {"migStrategy": "none", "mofedEnabled": False}}
    match sharing:
        case Mig():
            found["flags"]["migStrategy"] = "mixed"
        case TimeSlicing(replicas=replicas):
            # Two shares are neither twice the time nor twice the memory: a pod that asks for two is told so.
            slicing = {"renameByDefault": True, "failRequestsGreaterThanOne": True, "resources": _replicas(replicas)}
            found["sharing"] = {"timeSlicing": slicing}
        case Mps(replicas=replicas):
            found["sharing"] = {"mps": {"renameByDefault": True, "resources": _replicas(replicas)}}
    return found


def _replicas(replicas: int) -> list[dict[str, Any]]:
    return [{"name": GPU, "replicas": replicas}]


def warn_of_both(manager: Construct, cluster: ClusterRef) -> None:
    """Warn where GPUs are both counted and claimed: since Kubernetes 1.36 a count may be met by a claim.

    Source: https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/ (extended resources)
    """
    if cluster.holder(registry.DEVICE_MANAGER) is not None and cluster.holder(registry.DRA_DRIVER) is not None:
        cdk.Annotations.of(manager).add_warning_v2(
            "gpu-constructs:countedAndClaimed",
            "the cluster has a device plugin and the DRA driver: from Kubernetes 1.36 on a pod that asks for "
            "nvidia.com/gpu without selecting its pool may get a GPU that is meant to be claimed",
        )


class _Installed(Protocol):
    """What has a release."""

    chart: Construct


def install_in_order(cluster: ClusterRef) -> None:
    """Install the DRA driver after the GPU Operator, where one stack has both.

    Each chart has a definition of ComputeDomain of its own, and the later one stays: the driver reads those objects.
    Source: NVIDIA/gpu-operator v26.7.0, kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1, their crds
    """
    operator, driver = (cluster.holder(each) for each in (registry.GPU_OPERATOR, registry.DRA_DRIVER))
    if operator is not None and driver is not None and cdk.Stack.of(operator) is cdk.Stack.of(driver):
        cast("_Installed", driver).chart.node.add_dependency(cast("_Installed", operator).chart)
