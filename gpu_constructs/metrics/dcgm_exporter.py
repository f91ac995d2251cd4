"""NVIDIA's DCGM exporter: metrics of every GPU, with the pod that uses it, and Prometheus' rules and alarms on them.

Source of the list of DCGM fields: NVIDIA/dcgm-exporter 4.5.3-4.8.2 etc/default-counters.csv
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from constructs import Construct

from gpu_constructs.installing import registry
from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_chart, apply_manifests
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.metrics.prometheus_stack import NAMESPACE, PrometheusStack
from gpu_facts import versions
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_bool, refuse_unless_choice, refuse_unless_image, words

GPU_UTIL = "DCGM_FI_DEV_GPU_UTIL"
FB_USED, FB_FREE = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
_XID_ERRORS, _GPU_TEMP = "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_GPU_TEMP"
_GR_ENGINE_ACTIVE, SM_ACTIVE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE"
# Metric type and description, by field.
FIELDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        GPU_UTIL: ("gauge", "Time in which at least one kernel ran (%). Not under MIG"),
        "DCGM_FI_DEV_MEM_COPY_UTIL": ("gauge", "Time in which memory was read or written (%)"),
        "DCGM_FI_DEV_ENC_UTIL": ("gauge", "Use of the encoder (%)"),
        "DCGM_FI_DEV_DEC_UTIL": ("gauge", "Use of the decoder (%)"),
        FB_USED: ("gauge", "Memory in use (MiB)"),
        FB_FREE: ("gauge", "Memory that is free (MiB)"),
        "DCGM_FI_DEV_FB_RESERVED": ("gauge", "Memory that the driver keeps (MiB)"),
        _XID_ERRORS: ("gauge", "Code of the last XID error; 0 for none"),
        _GPU_TEMP: ("gauge", "Temperature of the GPU (C)"),
        "DCGM_FI_DEV_MEMORY_TEMP": ("gauge", "Temperature of the memory (C)"),
        "DCGM_FI_DEV_POWER_USAGE": ("gauge", "Power (W)"),
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("counter", "Energy since boot (mJ)"),
        "DCGM_FI_DEV_SM_CLOCK": ("gauge", "Clock of the multiprocessors (MHz)"),
        "DCGM_FI_DEV_MEM_CLOCK": ("gauge", "Clock of the memory (MHz)"),
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": ("counter", "Retries on PCIe"),
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": ("counter", "Traffic over NVLink"),
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": ("counter", "Memory rows remapped after uncorrectable errors"),
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": ("counter", "Memory rows remapped after correctable errors"),
        "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("gauge", "Whether remapping a row has failed"),
        _GR_ENGINE_ACTIVE: ("gauge", "Part of time in which the graphics or compute engine was active (0 to 1)"),
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("gauge", "Part of cycles in which the tensor cores were active (0 to 1)"),
        "DCGM_FI_PROF_DRAM_ACTIVE": ("gauge", "Part of cycles in which memory was read or written (0 to 1)"),
        SM_ACTIVE: ("gauge", "Part of time in which a multiprocessor had a warp (0 to 1)"),
        "DCGM_FI_PROF_SM_OCCUPANCY": ("gauge", "Part of the warps that multiprocessors could hold (0 to 1)"),
        "DCGM_FI_PROF_PCIE_TX_BYTES": ("counter", "Bytes sent over PCIe"),
        "DCGM_FI_PROF_PCIE_RX_BYTES": ("counter", "Bytes received over PCIe"),
    }
)
# SM_ACTIVE in addition to upstream's list, because AWS recommends it to show whether a GPU is used well.
# Source: https://docs.aws.amazon.com/eks/latest/best-practices/aiml-observability.html (2026-05)
DEFAULT_FIELDS = tuple(field for field in FIELDS if field != "DCGM_FI_PROF_SM_OCCUPANCY")
# Prometheus prefixes the labels of the pod that uses a GPU, because the labels without prefix are of the exporter's
# pod.
_BY_POD = "exported_namespace, exported_pod"
_USED = 'exported_pod!=""'
# Lower values come from the driver's own activity.
_IDLE_PERCENT = 3
_GPUS = 'resource=~"nvidia_com_.*"'
_ALLOCATABLE = f"sum by (node) (kube_node_status_allocatable{{{_GPUS}}})"
# kube-state-metrics also reports requests of pods that have ended.
_ALIVE = '(kube_pod_status_phase{phase=~"Pending|Running"} == 1)'
_REQUESTED = (
    f"sum by (node) (kube_pod_container_resource_requests{{{_GPUS}}} * on (namespace, pod, uid) group_left () {_ALIVE})"
)
_MEMORY_PERCENT = f"100 * {FB_USED} / ({FB_USED} + {FB_FREE})"
UTILIZATION_RECORD, MEMORY_RECORD = "gpu_utilization_percent", "gpu_memory_used_percent"
SM_RECORD = "gpu_sm_active_percent"


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
        # Imported here because cdk8s-plus takes a quarter of a second to load.
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


def counters_csv(who: object, fields: Sequence[str]) -> str:
    """Return the exporter's list of fields.

    Raises:
        TypeError: ``fields`` isn't a list.
        ValueError: A field is unknown, or the list is empty.
    """
    names = words(who, "fields", fields)
    if not names:
        raise ValueError(
            f"{who}: fields must name at least one field, got none; write {GPU_UTIL!r} for the use of a GPU"
        )
    for name in names:
        refuse_unless_choice(who, "fields", name, FIELDS)
    return "".join(f"{name}, {FIELDS[name][0]}, {FIELDS[name][1]}\n" for name in names)


def recording_rules() -> list[dict[str, Any]]:
    """Return use, memory and SM activity of each pod's GPUs, from 0 to 100, with the labels of the pod."""
    used = f"100 * {FB_USED}{{{_USED}}} / ({FB_USED}{{{_USED}}} + {FB_FREE}{{{_USED}}})"
    return [
        {"record": UTILIZATION_RECORD, "expr": _with_pod_labels(f"avg by ({_BY_POD}) ({GPU_UTIL}{{{_USED}}})")},
        {"record": MEMORY_RECORD, "expr": _with_pod_labels(f"max by ({_BY_POD}) ({used})")},
        {"record": SM_RECORD, "expr": _with_pod_labels(f"100 * avg by ({_BY_POD}) ({SM_ACTIVE}{{{_USED}}})")},
    ]


def alerting_rules() -> list[dict[str, Any]]:
    """Return the alarms."""
    where = "GPU {{ $labels.gpu }} of {{ $labels.instance }}"
    return [
        _alert(
            "GpuXidError",
            f"{_XID_ERRORS} > 0",
            "1m",
            "critical",
            f"{where} reports XID {{{{ $value }}}}",
            "https://docs.nvidia.com/deploy/xid-errors/",
        ),
        _alert(
            "GpuMemoryAlmostFull", f"{_MEMORY_PERCENT} > 97", "15m", "warning", f"{where} has hardly any memory left"
        ),
        _alert("GpuHot", f"{_GPU_TEMP} > 87", "10m", "warning", f"{where} is at {{{{ $value }}}} C"),
        _alert(
            "GpuIdleButTaken",
            # The hour is the duration of `for`. It begins when the window contains no use any more. A new pod gets all
            # of it.
            f"max by ({_BY_POD}) (max_over_time({GPU_UTIL}{{{_USED}}}[5m])) < {_IDLE_PERCENT}",
            "1h",
            "info",
            "Pod {{ $labels.exported_namespace }}/{{ $labels.exported_pod }} has not used its GPUs for an hour",
        ),
        _alert(
            "GpuNodeIdle",
            f"max by (Hostname) (max_over_time({GPU_UTIL}[15m])) < {_IDLE_PERCENT}",
            "4h",
            "info",
            "Nobody has used a GPU of node {{ $labels.Hostname }} for four hours, reserved or on demand",
        ),
        _alert(
            "GpuNodeUnrequested",
            f"{_ALLOCATABLE} > 0 unless {_REQUESTED} > 0",
            "1h",
            "info",
            "No pod has asked for a GPU of node {{ $labels.node }} for an hour",
        ),
        _alert(
            "GpuMetricsMissing",
            f'absent({GPU_UTIL}) and on () sum(kube_node_status_allocatable{{resource=~"nvidia_com_.*"}}) > 0',
            "15m",
            "warning",
            "There are GPU nodes and no metrics of GPUs",
        ),
    ]


def _with_pod_labels(expression: str) -> str:
    namespace = f'label_replace({expression}, "namespace", "$1", "exported_namespace", "(.+)")'
    return f'label_replace({namespace}, "pod", "$1", "exported_pod", "(.+)")'


def _alert(name: str, expression: str, duration: str, severity: str, summary: str, runbook: str = "") -> dict[str, Any]:
    annotations = {"summary": summary} | ({"runbook_url": runbook} if runbook else {})
    return {
        "alert": name,
        "expr": expression,
        "for": duration,
        "labels": {"severity": severity},
        "annotations": annotations,
    }


def prometheus_rule(*, name: str, namespace: str) -> dict[str, Any]:
    """Return the rules as an object that Prometheus' operator reads."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "groups": [
                {"name": "gpu-pods", "rules": recording_rules()},
                {"name": "gpu-alerts", "rules": alerting_rules()},
            ]
        },
    }
