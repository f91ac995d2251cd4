"""Recommends and sets the CPU and memory requests of a GPU deployment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_manifests, install_helm_chart
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.pod_scaling.signals import install_metrics_server
from gpu_constructs.workloads.deployments import GpuDeployment
from gpu_facts.charts import NAMESPACES
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_choice, words
from gpu_facts.versions import VERTICAL_POD_AUTOSCALER

_NAMESPACE = NAMESPACES[VERTICAL_POD_AUTOSCALER.name]
Mode = Literal["Off", "Initial", "InPlaceOrRecreate"]
_RESOURCES = ("cpu", "memory")


@named_arguments
class VerticalPodAutoscaler(Construct):
    """The controllers of the VerticalPodAutoscaler.

    They need a `MetricsServer`, which a cluster of this app gets with them.

    Args:
        cluster: Cluster to install into. It needs a kubectl provider.
        values: Values of the chart that override the library's values, e.g. for an image of your own registry.

    Raises:
        TypeError: ``cluster`` isn't a cluster of ``aws_eks_v2``.
        ValueError: The cluster has no kubectl provider, or already has them from this library.

    Attributes:
        chart: The release.
    """

    def __init__(
        self, scope: Construct, id: str, *, cluster: AnyCluster, values: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        ref.claim(who, "VerticalPodAutoscaler", why="both would change the same pods")
        self.chart = install_helm_chart(
            self,
            "Resource",
            cluster=ref,
            chart=VERTICAL_POD_AUTOSCALER,
            namespace=_NAMESPACE,
            create_namespace=True,
            values=controller_values(),
            user_values=values,
        )
        install_metrics_server(ref)


def controller_values() -> Mapping[str, Any]:
    """Return the values of the chart, with requests: the kubelet evicts pods without requests first.

    Source: kubernetes/autoscaler vertical-pod-autoscaler chart 0.11.0 values.yaml
    """
    memory = {"admissionController": "200Mi", "recommender": "500Mi", "updater": "200Mi"}
    return {part: {"resources": {"requests": {"cpu": "50m", "memory": each}}} for part, each in memory.items()}


@named_arguments
class CpuMemoryRightsizing(Construct):
    """Recommends or sets the CPU and memory requests of a deployment's pods, from their use.

    It never changes GPUs: the autoscaler supports only CPU and memory, devices are whole numbers, and a running pod
    can't get other devices.

    Args:
        cluster: Cluster of the deployment. It needs a kubectl provider.
        target: The deployment.
        vpa: Controllers of this app. Default: the cluster already runs them.
        mode: ``Off`` only recommends. ``Initial`` sets requests on new pods. ``InPlaceOrRecreate`` changes running
            pods, and if that fails, restarts a pod including its model.
        resources: Resources to change, of ``cpu`` and ``memory``.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A resource isn't supported, such as a GPU, or the cluster has no kubectl provider.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        target: GpuDeployment,
        vpa: VerticalPodAutoscaler | None = None,
        mode: Mode = "Off",
        resources: Sequence[str] = _RESOURCES,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        if not isinstance(target, GpuDeployment):
            raise TypeError(f"{who}: target must be a GpuDeployment, got {target!r}; pass the construct")
        if vpa is not None and not isinstance(vpa, VerticalPodAutoscaler):
            raise TypeError(
                f"{who}: vpa must be a VerticalPodAutoscaler, got {vpa!r}; create VerticalPodAutoscaler(stack, ...)"
            )
        refuse_unless_choice(who, "mode", mode, get_args(Mode))
        chosen = words(who, "resources", resources)
        _refuse_devices(who, chosen)
        made = vertical_pod_autoscaler(name=target.name, namespace=target.namespace, mode=mode, resources=chosen)
        self.resource = apply_manifests(self, "Resource", cluster=ref, manifests=[made])
        self.resource.node.add_dependency(target)
        if vpa is not None:
            self.resource.node.add_dependency(vpa.chart)


def vertical_pod_autoscaler(*, name: str, namespace: str, mode: str, resources: Sequence[str]) -> dict[str, Any]:
    """Return the VerticalPodAutoscaler."""
    policy = {"containerName": "*", "controlledResources": list(resources), "controlledValues": "RequestsOnly"}
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "updatePolicy": {"updateMode": mode},
            "resourcePolicy": {"containerPolicies": [policy]},
        },
    }


def _refuse_devices(who: object, resources: Sequence[str]) -> None:
    if not resources:
        raise ValueError(f"{who}: resources must name cpu or memory, got none; write ('cpu', 'memory')")
    for each in resources:
        if each not in _RESOURCES:
            raise ValueError(
                f"{who}: resources must be of {', '.join(_RESOURCES)}, got {each!r}; remove it, because a "
                "VerticalPodAutoscaler changes nothing else"
            )
