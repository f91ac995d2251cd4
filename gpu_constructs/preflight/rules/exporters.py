"""DCGM exporters that measure the wrong nodes, or that cannot be installed."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_constructs.preflight.answer import Answer
from gpu_constructs.preflight.model import Cluster, DaemonSet, Pool
from gpu_constructs.preflight.nodes import gpu_types, reaches
from gpu_constructs.preflight.rules.definitions import is_defined
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.unknown import dig, known_text, mappings

_CHART = "NVIDIA/dcgm-exporter 4.5.3-4.8.2 deployment/values.yaml"
_OF_OPERATOR = "nvidia-dcgm-exporter"
_MONITORS = "monitoring.coreos.com"


def exporters(cluster: Cluster) -> list[DaemonSet]:
    """Return the DCGM exporters, without that of the GPU Operator, which labels its nodes itself."""
    charted = cluster.chart("gpu-operator")
    return [each for each in cluster.daemon_sets if _exports(each) and not (charted and each.name == _OF_OPERATOR)]


def _exports(daemon: DaemonSet) -> bool:
    images = [known_text(each.get("image")) or "" for each in mappings(daemon.pod.get("containers"))]
    return "dcgm-exporter" in daemon.name or any("dcgm-exporter" in image for image in images)


def operator_exports(cluster: Cluster) -> bool:
    """Whether the GPU Operator runs an exporter of its own."""
    chart = cluster.chart("gpu-operator")
    return chart is not None and dig(dict(chart.values), "dcgmExporter", "enabled") is not False


def _not_reached(cluster: Cluster) -> Iterator[Problem]:
    found = exporters(cluster)
    if not found or operator_exports(cluster):
        return
    for pool in cluster.gpu_pools:
        if all(reaches(each, pool, cluster) is Answer.NO for each in found):
            names = " and ".join(dict.fromkeys(each.name for each in found))
            yield Problem(found[0].origin, f"pool {pool.name}: {names} does not run on its nodes")


def _has_no_gpus(pool: Pool) -> bool:
    """Whether a pool certainly has no GPUs; types whose family begins with g or p may have some of another kind."""
    named = bool(pool.instance_types) and not any(each.startswith(("g", "p", "vt")) for each in pool.instance_types)
    return named and not gpu_types(pool)


def _without_gpus(cluster: Cluster) -> Iterator[Problem]:
    for each in exporters(cluster):
        names = [
            pool.name for pool in cluster.pools if _has_no_gpus(pool) and reaches(each, pool, cluster) is Answer.YES
        ]
        if names:
            yield Problem(each.origin, f"{each.name} also runs on pool {', '.join(names)}, which has no GPUs")


def _twice(cluster: Cluster) -> Iterator[Problem]:
    if operator_exports(cluster):
        for each in exporters(cluster):
            yield Problem(each.origin, f"{each.name} and the GPU Operator's exporter measure the same GPUs")


def _no_monitors(cluster: Cluster) -> Iterator[Problem]:
    chart = cluster.chart("dcgm-exporter")
    if chart is None or not cluster.sees_software or is_defined(_MONITORS, cluster):
        return
    if dig(dict(chart.values), "serviceMonitor", "enabled") in (None, True):
        message = f"chart dcgm-exporter makes a ServiceMonitor, and nothing here defines {_MONITORS}"
        yield Problem(chart.origin, message)


RULES = (
    Rule(
        id="GPU220",
        severity="warning",
        title="DCGM exporter that does not run on GPU nodes",
        why="No GPU of the pool is measured, so what scales by its metrics does not move and no alert fires.",
        source=_CHART,
        fix="Give the exporter a toleration of the pool's taint and a node selector that the pool's labels meet.",
        causes=("S4",),
        check=_not_reached,
    ),
    Rule(
        id="GPU221",
        severity="warning",
        title="DCGM exporter on nodes without GPUs",
        why="It finds no GPU there and restarts for ever.",
        source=_CHART,
        fix="Select nodes by nvidia.com/gpu.present=true or by a label of the GPU pools.",
        causes=("S4",),
        check=_without_gpus,
    ),
    Rule(
        id="GPU222",
        severity="warning",
        title="Two DCGM exporters for the same GPUs",
        why="Every series is there twice, so sums over them are twice too high.",
        source="https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/getting-started.html",
        fix="Remove the chart dcgm-exporter, or set dcgmExporter.enabled: false in the GPU Operator.",
        causes=("M1",),
        check=_twice,
    ),
    Rule(
        id="GPU223",
        severity="error",
        title="ServiceMonitor without Prometheus Operator",
        why="The chart makes one by default, and installing it fails where its definition is missing.",
        source=_CHART,
        fix="Install kube-prometheus-stack before it, or set serviceMonitor.enabled: false.",
        causes=("M2",),
        check=_no_monitors,
    ),
)
