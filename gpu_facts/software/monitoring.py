"""DaemonSets that measure and log, rendered with Helm 4.2 from the tagged sources."""

from __future__ import annotations

from dataclasses import replace

from gpu_facts import charts, labels
from gpu_facts.software.aws import CLOUDWATCH_DCGM, CLOUDWATCH_NEURON
from gpu_facts.software.model import (
    EVERYTHING,
    LINUX,
    Container,
    KnownDaemonSet,
    KnownSoftware,
    Nodes,
    Switch,
    Tolerations,
    exclude_compute_types,
    expression,
    term,
)

_NODE_EXPORTER_CHART = "prometheus-node-exporter"
_NO_SCHEDULE = {"operator": "Exists", "effect": "NoSchedule"}
_NO_VIRTUAL_KUBELET = term(exclude_compute_types("fargate"), expression("type", "NotIn", ["virtual-kubelet"]))
_NODE_EXPORTER = KnownDaemonSet(
    name=_NODE_EXPORTER_CHART,
    tolerations=Tolerations.from_part("", _NO_SCHEDULE),
    nodes=Nodes.from_part("", _NO_VIRTUAL_KUBELET, selector=LINUX),
    containers=(Container(path="resources"),),
    inexact_paths=("nameOverride", "fullnameOverride", "kubeRBACProxy.enabled"),
    source="https://github.com/prometheus-community/helm-charts/tree/prometheus-node-exporter-4.56.1",
    as_of="2026-08-22",
)
_NODE_EXPORTER_VERSIONS = ("4.56.1", "4.56.0", "4.55.1", "4.55.0", "4.54.0", "4.53.1", "4.52.2")


def _node_exporter_path(path: str) -> str:
    return f"{_NODE_EXPORTER_CHART}.{path}"


_NODE_EXPORTER_OF_STACK = replace(
    _NODE_EXPORTER,
    name=f"{charts.KUBE_PROMETHEUS_STACK}-{_NODE_EXPORTER_CHART}",
    tolerations=Tolerations.from_part(_NODE_EXPORTER_CHART, _NO_SCHEDULE),
    nodes=Nodes.from_part(_NODE_EXPORTER_CHART, _NO_VIRTUAL_KUBELET, selector=LINUX),
    containers=(Container(path=_node_exporter_path("resources")),),
    switches=(Switch(path="nodeExporter.enabled"),),
    inexact_paths=tuple(_node_exporter_path(each) for each in _NODE_EXPORTER.inexact_paths),
    source="https://github.com/prometheus-community/helm-charts/tree/kube-prometheus-stack-88.5.3",
)

_FLUENT_BIT = KnownDaemonSet(
    name="fluent-bit",
    tolerations=Tolerations.from_part(""),
    nodes=Nodes.from_part(""),
    containers=(Container(path="resources"),),
    switches=(Switch(path="kind", on="DaemonSet", default="DaemonSet"),),
    inexact_paths=("nameOverride", "fullnameOverride", "hotReload.enabled"),
    source="https://github.com/fluent/helm-charts/tree/fluent-bit-0.58.1/charts/fluent-bit",
    as_of="2026-08-18",
)
_FLUENT_BIT_VERSIONS = ("58.1", "58.0", "57.9", "57.8", "57.7", "57.6", "57.5", "57.4")

_CLOUDWATCH_SOURCE = (
    "https://github.com/aws-observability/helm-charts/tree/amazon-cloudwatch-observability-6.4.0"
    "/charts/amazon-cloudwatch-observability"
)
_AGENT = KnownDaemonSet(
    name="cloudwatch-agent",
    tolerations=Tolerations(default=(EVERYTHING,), path=("agent.tolerations", "tolerations")),
    nodes=Nodes.from_part("agent", term(exclude_compute_types("fargate")), selector=LINUX),
    containers=(Container(requests={"cpu": "250m", "memory": "128Mi"}, path="agent.resources"),),
    switches=(
        Switch(path="agent.enabled"),
        Switch(path="agent.mode", on="daemonset", default="daemonset"),
    ),
    # A custom list of agents replaces the one that is described here.
    inexact_paths=("agents",),
    source=_CLOUDWATCH_SOURCE,
    as_of="2026-08-07",
)


def _exporter(
    name: str, key: str, requests: dict[str, str], *types: str, more: tuple[Switch, ...] = ()
) -> KnownDaemonSet:
    named = [expression(labels.INSTANCE_TYPE, "In", types)] if types else []
    return replace(
        _AGENT,
        name=name,
        tolerations=Tolerations(default=(EVERYTHING,), path=(f"{key}.tolerations", "tolerations")),
        nodes=Nodes.from_part(key, term(*named, exclude_compute_types("fargate")), selector=LINUX),
        containers=(Container(requests=requests, path=f"{key}.resources"),),
        switches=(Switch(path=f"{key}.enabled"), *more),
        inexact_paths=(f"{key}.name",),
    )


_CLOUDWATCH = KnownSoftware(
    name="amazon-cloudwatch-observability",
    versions=("6.4.0", "6.3.0", "6.2.0", "5.4.0"),
    daemon_sets=(
        _AGENT,
        replace(
            _exporter("fluent-bit", "containerLogs.fluentBit", {"cpu": "50m", "memory": "25Mi"}),
            switches=(Switch(path="containerLogs.enabled"),),
        ),
        _exporter(charts.DCGM_EXPORTER, "dcgmExporter", {"cpu": "250m", "memory": "128Mi"}, *CLOUDWATCH_DCGM),
        _exporter("neuron-monitor", "neuronMonitor", {"cpu": "256m", "memory": "128Mi"}, *CLOUDWATCH_NEURON),
        _exporter(
            "node-exporter",
            "nodeExporter",
            {"cpu": "50m", "memory": "30Mi"},
            more=(Switch(path="otelContainerInsights.enabled", default=False),),
        ),
    ),
    source=_CLOUDWATCH_SOURCE,
    as_of="2026-08-07",
)
# The add-on has its own versions. Its configuration shows that it is built from the chart.
_CLOUDWATCH_ADDON = replace(_CLOUDWATCH, versions=("6.4.0",))


def _chart(daemon_set: KnownDaemonSet, name: str, *versions: str) -> KnownSoftware:
    return KnownSoftware(
        name=name, versions=versions, daemon_sets=(daemon_set,), source=daemon_set.source, as_of=daemon_set.as_of
    )


CHARTS = (
    _chart(_NODE_EXPORTER, _NODE_EXPORTER_CHART, *_NODE_EXPORTER_VERSIONS),
    _chart(_NODE_EXPORTER_OF_STACK, charts.KUBE_PROMETHEUS_STACK, "88.5.3"),
    _chart(_FLUENT_BIT, "fluent-bit", *(f"0.{each}" for each in _FLUENT_BIT_VERSIONS)),
    _CLOUDWATCH,
)
ADDONS = (_CLOUDWATCH_ADDON,)
