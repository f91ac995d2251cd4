"""NVIDIA's DCGM exporter: metrics of every GPU, with the pod that uses it."""

from __future__ import annotations

from collections.abc import Sequence

from constructs import Construct

from gpu_constructs.installing import registry
from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_chart, apply_manifests
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.metrics.prometheus_stack import NAMESPACE, PrometheusStack
from gpu_constructs.metrics.rules import DEFAULT_FIELDS, counters_csv, prometheus_rule
from gpu_facts import versions
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_bool, refuse_unless_image


@named_arguments
class DcgmExporter(Construct):
    """The exporter on every GPU node of a cluster, and only there, independent of taints.

    It runs on the nodes with the label ``gpu-constructs.io/device-manager``, which all nodes of this library's pools
    have. With Prometheus it also has the scrape configuration, rules for use and memory of each pod, alarms and a
    Grafana dashboard. If the cluster enforces network policies, only the namespace of Prometheus may connect to the
    exporter.

    Args:
        cluster: Cluster to install into. It needs a kubectl provider.
        prometheus: Prometheus of this app. Default: none. Then scrape port 9400 with your own.
        fields: DCGM fields to report.
        shared_gpus: Whether pods share GPUs by time slicing or MPS. Then use and memory are counted by process.
        image: Image with tag or digest.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A field is unknown, a scaler needs a field that is left out, or the cluster already has the exporter
            or has no kubectl provider.

    Attributes:
        fields: DCGM fields that it reports.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        prometheus: PrometheusStack | None = None,
        fields: Sequence[str] = DEFAULT_FIELDS,
        shared_gpus: bool = False,
        image: str = versions.DCGM_EXPORTER.reference,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_image(who, "image", image)
        refuse_unless_bool(who, "shared_gpus", shared_gpus)
        counters = counters_csv(who, fields)
        if prometheus is not None and not isinstance(prometheus, PrometheusStack):
            raise TypeError(
                f"{who}: prometheus must be a PrometheusStack, got {prometheus!r}; create PrometheusStack(stack, ...)"
            )
        ref.claim(who, registry.DCGM_EXPORTER, why="both would report every GPU")

        self.fields = tuple(fields)
        ref.fields.serve(self._refuse_unless_reported)
        # Imported here because cdk8s takes a second to load.
        from gpu_constructs.metrics import dcgm_manifests as manifests

        chart = manifests.exporter_chart(image=image, counters=counters, shared=shared_gpus)
        self.resource = apply_chart(self, "Resource", cluster=ref, chart=chart)
        if prometheus is not None:
            objects = {
                "ServiceMonitor": manifests.service_monitor(),
                "NetworkPolicy": manifests.network_policy(NAMESPACE),
                "Rules": prometheus_rule(name=manifests.NAME, namespace=manifests.NAMESPACE),
                "Dashboard": manifests.dashboard(),
            }
            for name, made in objects.items():
                applied = apply_manifests(self, name, cluster=ref, manifests=[made])
                # Prometheus' chart installs the CRDs of these objects.
                applied.node.add_dependency(prometheus.chart)

    def _refuse_unless_reported(self, asked: tuple[str, str]) -> None:
        said, field = asked
        if field not in self.fields:
            raise ValueError(f"{said} without {field}; add it to fields of {self.node.path!r}")
