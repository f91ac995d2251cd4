"""DCGM exporters that measure the wrong nodes, or that cannot be installed."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.charts import DCGM_EXPORTER
from gpu_preflight.case import Case
from gpu_preflight.cluster.definitions import is_defined
from gpu_preflight.cluster.exporters import exporters, operator_exports
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.node.nodes import gpu_types
from gpu_preflight.reading.unknown import dig
from gpu_preflight.rules.rule import Problem, rule

_CHART = "NVIDIA/dcgm-exporter 4.5.3-4.8.2 deployment/values.yaml"
_MONITORS = "monitoring.coreos.com"


@rule("GPU220", "warning", source=_CHART)
def dcgm_exporter_that_does_not_run_on_gpu_nodes(case: Case) -> Iterator[Problem]:
    """DCGM exporter that does not run on GPU nodes.

    No GPU of the pool is measured, so what scales by its metrics does not move and no alert fires.

    Fix: Give the exporter a toleration of the pool's taint and a node selector that the pool's labels meet.
    """
    cluster = case.cluster
    found = exporters(cluster)
    if not found or operator_exports(cluster):
        return
    for pool in case.gpu_pools:
        if all(case.reaches(each, pool) is Answer.NO for each in found):
            names = " and ".join(dict.fromkeys(each.name for each in found))
            yield Problem(found[0], f"pool {pool.name}: {names} does not run on its nodes")


def _has_no_gpus(pool: Pool) -> bool:
    """Whether a pool certainly has no GPUs; types whose family begins with g or p may have some of another kind."""
    named = bool(pool.instance_types) and not any(each.startswith(("g", "p", "vt")) for each in pool.instance_types)
    return named and not gpu_types(pool)


@rule("GPU221", "warning", source=_CHART)
def dcgm_exporter_on_nodes_without_gpus(case: Case) -> Iterator[Problem]:
    """DCGM exporter on nodes without GPUs.

    It finds no GPU there and restarts for ever.

    Fix: Select nodes by nvidia.com/gpu.present=true or by a label of the GPU pools.
    """
    cluster = case.cluster
    for each in exporters(cluster):
        names = [pool.name for pool in cluster.pools if _has_no_gpus(pool) and case.reaches(each, pool) is Answer.YES]
        if names:
            yield Problem(each, f"{each.name} also runs on pool {', '.join(names)}, which has no GPUs")


@rule(
    "GPU222",
    "warning",
    source="https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/getting-started.html",
)
def two_dcgm_exporters_for_the_same_gpus(case: Case) -> Iterator[Problem]:
    """Two DCGM exporters for the same GPUs.

    Every series is there twice, so sums over them are twice too high, and both want the profiling counters.

    Fix: Keep one: remove the chart dcgm-exporter, or set dcgmExporter.enabled: false in the GPU Operator or in
    amazon-cloudwatch-observability.
    """
    cluster = case.cluster
    found = exporters(cluster)
    if operator_exports(cluster):
        for each in found:
            yield Problem(each, f"{each.name} and the GPU Operator's exporter measure the same GPUs")
    for pool in case.gpu_pools:
        here = [each for each in found if case.reaches(each, pool) is not Answer.NO]
        if len(here) > 1:
            sure = sum(case.reaches(each, pool) is Answer.YES for each in here) > 1
            where = " and ".join(f"{each.name} of {each.origin.path}" for each in here)
            yield Problem.of(pool, f"{where} measure the same GPUs", unknown=not sure)


@rule("GPU223", "error", source=_CHART)
def servicemonitor_without_prometheus_operator(case: Case) -> Iterator[Problem]:
    """ServiceMonitor without Prometheus Operator.

    The chart makes one by default, and installing it fails where its definition is missing.

    Fix: Install kube-prometheus-stack before it, or set serviceMonitor.enabled: false.
    """
    cluster = case.cluster
    chart = cluster.chart(DCGM_EXPORTER)
    if chart is None or not cluster.shows_software or is_defined(_MONITORS, cluster):
        return
    if dig(chart.values, "serviceMonitor", "enabled") in (None, True):
        message = f"chart dcgm-exporter makes a ServiceMonitor, and nothing here defines {_MONITORS}"
        yield Problem(chart, message, unknown=not cluster.sees_software)
