"""EFA's device plugin: reports the EFA interfaces of a node to the kubelet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from constructs import Construct

from gpu_constructs.installing import registry
from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import install_helm_chart
from gpu_constructs.installing.registry import PathOf
from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.labels import WITH_EFA
from gpu_facts.named_arguments import named_arguments
from gpu_facts.versions import EFA_DEVICE_PLUGIN


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
