"""NVIDIA's DRA driver, and claims of GPUs that pods share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from constructs import Construct

from gpu_constructs.devices.device_plugin import install_in_order, warn_of_both
from gpu_constructs.installing import registry
from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_after_dra_driver, apply_manifests, install_helm_chart
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.pools.sharing import GpuClaim
from gpu_facts.charts import NAMESPACES
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.labels import DEVICE_MANAGER
from gpu_facts.named_arguments import named_arguments
from gpu_facts.versions import DRA_DRIVER, WITHOUT_CLAIMS

_NAMESPACE = NAMESPACES[DRA_DRIVER.name]


@named_arguments
class DraDriver(Construct):
    """The driver for Dynamic Resource Allocation on the nodes of pools with ``device_manager="dra"``.

    `GpuJob` and `GpuDeployment` on such a pool claim their GPUs. `SharedGpuClaim` is a claim that several pods use.
    A `DevicePlugin` may serve the other pools of the cluster. Each runs only on its own nodes, by their label.
    On Bottlerocket it replaces the image's own DRA driver, which exists since 1.66.0 and is off by default.

    DRA doesn't support the launch of a pool's first node yet, so managed node groups keep one, and Karpenter pools are
    static. It also doesn't support Auto Mode and queues by quota. From Kubernetes 1.36, a pod that requests
    ``nvidia.com/gpu`` may also get a claimed GPU, because the driver's device class names that resource.
    Source: https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia-dra-device-plugin.html

    Args:
        cluster: Cluster to install into. It needs a kubectl provider.
        kubernetes_version: Minor version of an imported cluster. Default: the cluster's own.
        values: Values of the chart.

    Raises:
        TypeError: ``cluster`` isn't a cluster of ``aws_eks_v2``.
        ValueError: Kubernetes is too old, the cluster already has the driver, or it has no kubectl provider.

    Attributes:
        chart: The release.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        kubernetes_version: str | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        version = ref.kubernetes_version(kubernetes_version, who=who)
        if version in WITHOUT_CLAIMS:
            raise ValueError(
                f"{who}: kubernetes_version must be 1.34 or newer, got {version!r}; upgrade, because older API servers "
                "have no resource.k8s.io/v1"
            )
        ref.claim(who, registry.DRA_DRIVER, why="two offer every GPU twice")
        warn_of_both(self, ref)

        self.chart = install_helm_chart(
            self,
            "Resource",
            cluster=ref,
            chart=DRA_DRIVER,
            namespace=_NAMESPACE,
            create_namespace=True,
            values=dra_driver_values(),
            user_values=values,
        )
        install_in_order(ref)
        # Without the driver a pod with a claim can't terminate.
        ref.claimants.serve(lambda workload: workload.node.add_dependency(self.chart))


def dra_driver_values() -> Mapping[str, Any]:
    """Return the values of the driver's chart.

    Source: kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1 deployments/helm/dra-driver-nvidia-gpu/values.yaml
    """
    ours = {"key": DEVICE_MANAGER, "operator": "In", "values": ["dra"]}
    terms = [{"matchExpressions": [ours]}]
    return {
        # The chart rejects GPUs without this value.
        "gpuResourcesEnabledOverride": True,
        # Channels between nodes of one NVLink network, which only GB200 has.
        "resources": {"gpus": {"enabled": True}, "computeDomains": {"enabled": False}},
        # EKS' images contain the driver.
        "nvidiaDriverRoot": "/",
        "kubeletPlugin": {
            "tolerations": [{"operator": "Exists"}],
            # The chart's default selects labels of software that isn't installed.
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            },
        },
    }


@named_arguments
class SharedGpuClaim(Construct):
    """A claim that every pod with ``GpuPod(claim=<its name>)`` uses. All of them run on the node with its GPUs.

    The pods take turns on the GPU. Each can use all of its memory, without isolation.

    Kubernetes never changes a claim. If you change ``gpu``, change ``name`` in the same deployment.

    Args:
        cluster: Cluster of the pods. It needs a kubectl provider.
        name: Name of the claim.
        namespace: Existing namespace of the pods.
        gpu: Claimed GPUs.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has no kubectl provider. At synth: the app creates the cluster and installs no DRA
            driver.

    Attributes:
        name: Name of the claim.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        name: str,
        namespace: str = "default",
        gpu: GpuClaim = GpuClaim(),  # noqa: B008 - frozen value
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        if not isinstance(gpu, GpuClaim):
            raise TypeError(f"{who}: gpu must be a GpuClaim, got {gpu!r}; write GpuClaim(count=1)")
        refuse_unless_object_name(who, "name", name)
        refuse_unless_object_name(who, "namespace", namespace)

        self.name = name
        self.resource = apply_manifests(
            self, "Resource", cluster=ref, manifests=[gpu.claim(name=name, namespace=namespace)]
        )
        apply_after_dra_driver(self.resource, cluster=ref)
