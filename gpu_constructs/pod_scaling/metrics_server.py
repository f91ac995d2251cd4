"""metrics-server and the Prometheus adapter, which serve the metrics APIs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from constructs import Construct

from gpu_constructs.installing import eks_resources
from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.delivery import install_helm_chart
from gpu_constructs.installing.eks_resources import set_logical_id
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.metrics.dcgm_exporter import MEMORY_RECORD, SM_RECORD, UTILIZATION_RECORD
from gpu_constructs.metrics.prometheus_stack import NAMESPACE, PrometheusStack
from gpu_facts.charts import METRICS_SERVER
from gpu_facts.named_arguments import named_arguments
from gpu_facts.versions import PROMETHEUS_ADAPTER

_ONE = "metrics server"


@named_arguments
class MetricsServer(Construct):
    """The EKS add-on ``metrics-server``.

    A cluster of this app gets it with the first `VerticalPodAutoscaler` or `CpuUtilization`. Create it before them to
    set its version, or for an imported cluster without it. Two would conflict over one API.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/community-addons.html

    Args:
        cluster: Cluster to install into.
        version: Version of the add-on, e.g. ``v0.8.0-eksbuild.2``. Default: the default of EKS.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster already has it from this library.

    Attributes:
        resource: The add-on.
    """

    def __init__(self, scope: Construct, id: str, *, cluster: AnyCluster, version: str | None = None) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster)
        if version is not None and (not isinstance(version, str) or not version):
            raise TypeError(f"{who}: version must be a string, got {version!r}; write one such as 'v0.8.0-eksbuild.2'")
        ref.claim(who, _ONE, why="both provide the API of resource metrics")
        self.resource = eks_resources.CfnAddon(
            self,
            "Resource",
            addon_name=METRICS_SERVER,
            addon_version=version,
            cluster_name=ref.name_token,
            # The template takes precedence over manual changes in the cluster.
            resolve_conflicts="OVERWRITE",
        )
        ref.software.addons[METRICS_SERVER] = {}
        # Its pods need nodes.
        set_logical_id(self.resource, ref, "Addon", METRICS_SERVER)
        ref.wait_for_foundation(cast("Construct", self.resource))


def bring_metrics_server(cluster: ClusterRef) -> None:
    """Install it once into a cluster of this app. An imported one may have its own, which the app can't detect."""
    made_here = cluster.auto_mode is not None
    if made_here and cluster.holder(_ONE) is None:
        MetricsServer(cluster.shared(cluster.stack), "MetricsServer", cluster=cluster.cluster)


@named_arguments
class PrometheusAdapter(Construct):
    """The adapter with the two records of GPUs. It is the only provider of the API of custom metrics.

    Args:
        cluster: Cluster to install into. It needs a kubectl provider.
        prometheus: Prometheus of this app, with the rules of a `DcgmExporter`.
        values: Values of the chart that override the library's values, e.g. for an image of your own registry.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has no kubectl provider, or already has the adapter from this library.

    Attributes:
        chart: The release.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        prometheus: PrometheusStack,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        if not isinstance(prometheus, PrometheusStack):
            raise TypeError(
                f"{who}: prometheus must be a PrometheusStack, got {prometheus!r}; create PrometheusStack(stack, ...)"
            )
        ref.claim(who, PROMETHEUS_ADAPTER.name, why="both provide the API of custom metrics")
        self.chart = install_helm_chart(
            self,
            "Resource",
            cluster=ref,
            chart=PROMETHEUS_ADAPTER,
            namespace=NAMESPACE,
            values=adapter_values(prometheus.url),
            user_values=values,
        )
        self.chart.node.add_dependency(prometheus.chart)


def adapter_values(url: str) -> Mapping[str, Any]:
    """Return the values of the chart, without external metrics, which KEDA provides.

    Source: prometheus-community/helm-charts prometheus-adapter 5.3.0 values.yaml
    """
    address, _, port = url.rpartition(":")
    rules = [_rule(record) for record in (UTILIZATION_RECORD, MEMORY_RECORD, SM_RECORD)]
    return {
        "prometheus": {"url": address, "port": int(port)},
        "rules": {"default": False, "custom": rules},
        # As the chart suggests. It sets none, and the kubelet evicts pods without requests first.
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    }


def _rule(record: str) -> dict[str, Any]:
    overrides = {name: {"resource": name} for name in ("namespace", "pod")}
    return {
        "seriesQuery": f'{record}{{namespace!="",pod!=""}}',
        "resources": {"overrides": overrides},
        "name": {"as": record},
        "metricsQuery": "avg(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)",
    }
