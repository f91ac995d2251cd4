"""What two device managers in one cluster mean for each other."""

from __future__ import annotations

from typing import Protocol, cast

import aws_cdk as cdk
from constructs import Construct

from gpu_constructs.installing import registry
from gpu_constructs.installing.cluster_ref import ClusterRef


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
