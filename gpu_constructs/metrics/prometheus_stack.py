"""Prometheus, its operator, Alertmanager and Grafana."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from constructs import Construct

from gpu_constructs.cluster_ref import AnyCluster, PathOf, cluster_ref
from gpu_constructs.delivery import install_helm_chart
from gpu_constructs.refusals import refuse_unless_whole_number
from gpu_constructs.versions import KUBE_PROMETHEUS_STACK

NAMESPACE = "monitoring"


class PrometheusStack(Construct):
    """The chart kube-prometheus-stack, which scrapes and evaluates whatever the cluster's objects ask for.

    Args:
        cluster: Cluster to install into; needs a kubectl provider.
        storage_gib: Volume of Prometheus, in GiB; 0 for one that is lost with its pod.
        storage_class: Storage class of that volume. Default: the cluster's default class.
        retention_days: How long metrics stay.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has no kubectl provider, or has Prometheus from this library.

    Attributes:
        url: Where Prometheus answers inside the cluster.
        chart: The release; what uses Prometheus' objects depends on it.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        storage_gib: int = 50,
        storage_class: str | None = None,
        retention_days: int = 15,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_whole_number(who, "storage_gib", storage_gib, least=0)
        refuse_unless_whole_number(who, "retention_days", retention_days, least=1)
        ref.claim(who, "Prometheus", why="both are the helm release 'kube-prometheus-stack'")

        # The chart's service has the release's name.
        self.url = f"http://{KUBE_PROMETHEUS_STACK.name}-prometheus.{NAMESPACE}.svc:9090"
        self.chart = install_helm_chart(
            self,
            "Resource",
            cluster=ref,
            chart=KUBE_PROMETHEUS_STACK,
            namespace=NAMESPACE,
            create_namespace=True,
            values=stack_values(storage_gib=storage_gib, storage_class=storage_class, retention_days=retention_days),
        )
        for needed in ref.foundation:
            self.chart.node.add_dependency(needed)


def stack_values(*, storage_gib: int, storage_class: str | None, retention_days: int) -> Mapping[str, Any]:
    """Return the values of the chart.

    Source: prometheus-community/helm-charts kube-prometheus-stack 88.5.3 values.yaml
    """
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": f"{storage_gib}Gi"}}}
    named = claim | ({"storageClassName": storage_class} if storage_class is not None else {})
    storage = {"storageSpec": {"volumeClaimTemplate": {"spec": named}}} if storage_gib else {}
    return {
        "prometheus": {
            "prometheusSpec": {
                # Otherwise it takes up only objects with the label of its own release.
                "serviceMonitorSelectorNilUsesHelmValues": False,
                "podMonitorSelectorNilUsesHelmValues": False,
                "ruleSelectorNilUsesHelmValues": False,
                "retention": f"{retention_days}d",
                **storage,
            }
        },
        # Dashboards are taken from every namespace.
        "grafana": {"sidecar": {"dashboards": {"enabled": True, "searchNamespace": "ALL"}}},
        # Of the control plane EKS shows none of these.
        **{part: {"enabled": False} for part in ("kubeControllerManager", "kubeEtcd", "kubeScheduler")},
    }
