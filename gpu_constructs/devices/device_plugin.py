"""The device plugins for GPUs and EFA, their configuration, and checks of several device managers in a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, cast, get_args

import aws_cdk as cdk
from constructs import Construct

from gpu_constructs.devices.device_plugin_manifests import device_plugin_manifests, sharing_manifests
from gpu_constructs.installing import registry
from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.delivery import apply_manifests, install_helm_chart
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.pools.sharing import DeviceManagerName, Exclusive, Mig, Mps, Sharing, TimeSlicing
from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.labels import WITH_EFA
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_image
from gpu_facts.resources import GPU
from gpu_facts.versions import DEVICE_PLUGIN, EFA_DEVICE_PLUGIN

# They mount every /dev/infiniband device by default. Source: NVIDIA/k8s-device-plugin CHANGELOG, v0.19.3.
_TAKING_EFA = ("v0.19.0", "v0.19.1", "v0.19.2")


@named_arguments
class DevicePlugin(Construct):
    """The device plugin on every AL2023 GPU node of a cluster.

    It runs on the nodes with the label ``gpu-constructs.io/device-manager=device-plugin``, independent of taints. All
    AL2023 pools of this library have it. Add the label to other GPU nodes to run the plugin there, too. Each way of
    sharing GPUs among the pools of the app gets a separate DaemonSet. It doesn't run on Bottlerocket and EKS Auto Mode,
    whose images contain a device plugin.

    Source: https://github.com/NVIDIA/k8s-device-plugin/blob/v0.20.0/deployments/static/nvidia-device-plugin.yml

    Args:
        cluster: Cluster to install into. It needs a kubectl provider.
        image: Image with tag or digest. It must not be v0.19.0 to v0.19.2, which take over the EFA devices.
        sharing: Ways of sharing on pools that other apps define. The ways of this app's pools are always included.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster already has a device manager, has no kubectl provider, or the image breaks EFA.
    """

    manages: ClassVar[DeviceManagerName] = "device-plugin"

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        image: str = DEVICE_PLUGIN.reference,
        sharing: Sequence[Sharing] = (),
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_image(who, "image", image)
        _refuse_efa_conflict(who, image)
        if not isinstance(sharing, (list, tuple)) or not all(isinstance(each, get_args(Sharing)) for each in sharing):
            raise TypeError(
                f"{who}: sharing must be a list of TimeSlicing(...), Mps(...) or Mig(...), got {sharing!r}; write "
                "[TimeSlicing(4)]"
            )
        ref.claim(who, registry.DEVICE_MANAGER, why="two advertise every GPU twice")
        warn_of_both(self, ref)

        def serve(sharing: Sharing) -> None:
            """Add the DaemonSet for another way of sharing."""
            if not isinstance(sharing, Exclusive):
                manifests = sharing_manifests(image, sharing, plugin_config(sharing))
                apply_manifests(self, f"Sharing-{sharing.profile}", cluster=ref, manifests=manifests)

        self.resource = apply_manifests(self, "Resource", cluster=ref, manifests=device_plugin_manifests(image))
        for each in sharing:
            ref.sharing.ask(each)
        ref.sharing.serve(serve)


def _refuse_efa_conflict(who: object, image: str) -> None:
    tag = image.partition("@")[0].rpartition(":")[2]
    if tag in _TAKING_EFA:
        raise ValueError(
            f"{who}: image must not be one of {', '.join(_TAKING_EFA)}, which take over the EFA devices, got "
            f"{image!r}; use {DEVICE_PLUGIN.reference!r}"
        )


@named_arguments
class EfaDevicePlugin(Construct):
    """The plugin on every node of a pool with ``NodeShape(efa=True)``, independent of taints.

    A pod gets interfaces by the limit ``vpc.amazonaws.com/efa``, and on node groups also needs ``hugepages-2Mi``.
    Karpenter doesn't support huge pages. It never launches a node for a pod that requests them.

    The construct replaces the chart's tolerations, which don't cover GPU nodes, and its outdated list of instance
    types.
    Source: https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html

    Args:
        cluster: Cluster to install into. It needs a kubectl provider.
        values: Values of the chart that override the library's values, e.g. for an image of your own registry. The
            chart's image is in us-west-2 of the partition ``aws``.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster already has the plugin or has no kubectl provider.
    """

    def __init__(
        self, scope: Construct, id: str, *, cluster: AnyCluster, values: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        ref.claim(who, registry.EFA_PLUGIN, why="two advertise every interface twice")

        self.resource = install_helm_chart(
            self,
            "Resource",
            cluster=ref,
            chart=EFA_DEVICE_PLUGIN,
            namespace=KUBE_SYSTEM,
            values=efa_plugin_values(),
            user_values=values,
        )


def efa_plugin_values() -> Mapping[str, Any]:
    """Return the values of the plugin's chart.

    Source: aws/eks-charts stable/aws-efa-k8s-device-plugin 0.5.30 values.yaml, templates/daemonset.yaml
    """
    return {
        "supportedInstanceLabels": {"keys": [WITH_EFA], "values": ["true"]},
        "tolerations": [{"operator": "Exists"}],
    }


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
