"""What measures GPUs in a cluster."""

from __future__ import annotations

from gpu_facts.charts import DCGM_EXPORTER, GPU_OPERATOR, OPERATOR_DCGM_EXPORTER
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.software import DaemonSet
from gpu_preflight.reading.unknown import dig


def exporters(cluster: Cluster) -> list[DaemonSet]:
    """Return the DCGM exporters, without that of the GPU Operator, which labels its nodes itself."""
    charted = cluster.chart(GPU_OPERATOR)
    return [
        each for each in cluster.daemon_sets if _exports(each) and not (charted and each.name == OPERATOR_DCGM_EXPORTER)
    ]


def _exports(daemon: DaemonSet) -> bool:
    images = [each.image_text for each in daemon.pod.containers or ()]
    return DCGM_EXPORTER in daemon.name or any(DCGM_EXPORTER in image for image in images)


def operator_exports(cluster: Cluster) -> bool:
    """Whether the GPU Operator runs an exporter of its own."""
    chart = cluster.chart(GPU_OPERATOR)
    return chart is not None and dig(chart.values, "dcgmExporter", "enabled") is not False
