"""The device plugin's configuration, also for NVIDIA's operator, and checks that a node has only one of both."""

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
            # Two shares are neither twice the time nor twice the memory, so the plugin rejects a request for two.
            slicing = {"renameByDefault": True, "failRequestsGreaterThanOne": True, "resources": _replicas(replicas)}
            found["sharing"] = {"timeSlicing": slicing}
        case Mps(replicas=replicas):
            found["sharing"] = {"mps": {"renameByDefault": True, "resources": _replicas(replicas)}}
    return found


def _replicas(replicas: int) -> list[dict[str, Any]]:
    return [{"name": GPU, "replicas": replicas}]


def warn_of_both(manager: Construct, cluster: ClusterRef) -> None:
    """Warn if GPUs are both counted and claimed: since Kubernetes 1.36 a claim may satisfy a counted request.

    Source: https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/ (extended resources)
    """
    if cluster.holder(registry.DEVICE_MANAGER) is not None and cluster.holder(registry.DRA_DRIVER) is not None:
        cdk.Annotations.of(manager).add_warning_v2(
            "gpu-constructs:countedAndClaimed",
            "the cluster has a device plugin and the DRA driver: from Kubernetes 1.36 a pod that requests "
            "nvidia.com/gpu without selecting its pool may get a GPU that is reserved for claims",
        )


class _Installed(Protocol):
    """A construct with a Helm release."""

    chart: Construct


def install_in_order(cluster: ClusterRef) -> None:
    """Install the DRA driver after the GPU Operator, if one stack has both.

    Each chart has its own CRD of ComputeDomain, and the later one stays. It must be the driver's, which reads these
    objects.
    Source: NVIDIA/gpu-operator v26.7.0, kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1, their crds
    """
    operator, driver = (cluster.holder(each) for each in (registry.GPU_OPERATOR, registry.DRA_DRIVER))
    if operator is not None and driver is not None and cdk.Stack.of(operator) is cdk.Stack.of(driver):
        cast("_Installed", driver).chart.node.add_dependency(cast("_Installed", operator).chart)
