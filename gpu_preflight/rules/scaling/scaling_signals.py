"""Measurements of GPUs by which pods are not scaled as meant."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.charts import DCGM_EXPORTER, GPU_OPERATOR, PROMETHEUS_ADAPTER
from gpu_facts.light_patterns import regex
from gpu_facts.resources import GPU, MIG, SHARED_GPU
from gpu_preflight.case import Case
from gpu_preflight.cluster.exporters import exporters, operator_exports
from gpu_preflight.cluster.scalers import Signal, adapter_rules, signals, signals_of_gpus, target_of
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.software import DaemonSet
from gpu_preflight.model.workload import Workload
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.reading.objects import Chart, Object
from gpu_preflight.reading.unknown import dig, known_text, mapping, mappings
from gpu_preflight.rules.rule import Problem, rule

_COUNTERS = "NVIDIA/dcgm-exporter 4.5.3-4.8.2 etc/default-counters.csv"
_FIELD = regex(r"\bDCGM_(?:FI|EXP)_[A-Z0-9_]+")
_PERCENT = regex(r"DCGM_FI_DEV_(?:GPU|MEM_COPY|ENC|DEC)_UTIL")
_RATIO = regex(r"DCGM_FI_PROF_(?:GR_ENGINE|SM|DRAM|PIPE_\w+)_(?:ACTIVE|OCCUPANCY)")
_MEMORY = "DCGM_FI_DEV_FB_"
# Labels of the pod that uses a GPU, as a query would name them where they are not renamed.
_PLAIN_LABEL = regex(r"(?<![\w.])(?:pod|namespace|container)\s*(?:=~|!=|!~|=)|\bby\s*\([^)]*(?<!\w)(?:pod|container)\b")
_RENAMED_LABEL = regex(r"\bexported_(?:pod|namespace|container)\b")
_NAME = regex(r"(?:exported_)?(?:pod|namespace|container)")
_ONE = 1000
# A pod has at most eight GPUs here, whose ratios may be summed.
_MOST_RATIO = 8 * _ONE
_SERVERS = ("vllm", "text-generation-inference", "tritonserver", "sglang")
# Without DCGM_FI_.
_FIELDS = """
DEV_SM_CLOCK DEV_MEM_CLOCK DEV_MEMORY_TEMP DEV_GPU_TEMP DEV_POWER_USAGE DEV_TOTAL_ENERGY_CONSUMPTION
DEV_PCIE_REPLAY_COUNTER DEV_GPU_UTIL DEV_MEM_COPY_UTIL DEV_ENC_UTIL DEV_DEC_UTIL DEV_XID_ERRORS
DEV_FB_FREE DEV_FB_USED DEV_FB_RESERVED DEV_NVLINK_BANDWIDTH_TOTAL DEV_VGPU_LICENSE_STATUS
DEV_UNCORRECTABLE_REMAPPED_ROWS DEV_CORRECTABLE_REMAPPED_ROWS DEV_ROW_REMAP_FAILURE
PROF_GR_ENGINE_ACTIVE PROF_PIPE_TENSOR_ACTIVE PROF_DRAM_ACTIVE PROF_PCIE_TX_BYTES PROF_PCIE_RX_BYTES
DRIVER_VERSION
"""
_ON = frozenset(f"DCGM_FI_{name}" for name in _FIELDS.split())


def _keeps_labels(cluster: Cluster) -> bool | None:
    """Return whether the labels of DCGM's series survive the scrape, ``None`` where it cannot be told or differs."""
    answers = set()
    for chart, path in ((DCGM_EXPORTER, ()), (GPU_OPERATOR, ("dcgmExporter",))):
        release = cluster.chart(chart)
        monitor = mapping(dig(release.values, *path, "serviceMonitor")) if release else {}
        if release and monitor.get("enabled", chart == DCGM_EXPORTER) is True:
            answers.add(_answer(monitor))
    for each in cluster.of_kind("ServiceMonitor", "PodMonitor"):
        if "dcgm" in f"{each.name} {each.spec.get('selector')}":
            ends = mappings(each.spec.get("endpoints")) + mappings(each.spec.get("podMetricsEndpoints"))
            answers |= {_answer(end) for end in ends}
    return answers.pop() if len(answers) == 1 else None


def _answer(endpoint: dict[str, object]) -> bool | None:
    value = endpoint.get("honorLabels", False)
    plain = not endpoint.get("metricRelabelings") and not endpoint.get("relabelings")
    return value if isinstance(value, bool) and plain else None


@rule(
    "GPU224",
    "warning",
    source="https://prometheus.io/docs/prometheus/latest/configuration/configuration/#scrape_config",
)
def query_on_labels_that_the_scrape_renames(case: Case) -> Iterator[Problem]:
    """Query on labels that the scrape renames.

    Without honorLabels, pod and namespace are those of the exporter, so nothing is found for your pods.

    Fix: Use exported_pod and exported_namespace, or set honorLabels: true and use pod and namespace.
    """
    cluster = case.cluster
    kept = _keeps_labels(cluster)
    if kept is None:
        return
    wrong, right = (_RENAMED_LABEL, _PLAIN_LABEL) if kept else (_PLAIN_LABEL, _RENAMED_LABEL)
    for place, source, query in _queries(cluster):
        found = wrong.search(query)
        if found and not right.search(query):
            name = _NAME.search(found.group())
            state = "true keeps pod and namespace" if kept else "false makes it exported_"
            label = name.group() if name else "pod"
            yield Problem(source, f"{place}: the query uses {label}, and honorLabels {state}{'' if kept else label}")


def _queries(cluster: Cluster) -> Iterator[tuple[str, Object | Chart, str]]:
    """Yield what reads DCGM's series in order to scale pods."""
    for each in signals(cluster):
        if "DCGM_" in each.query:
            yield each.title, each.scaler, each.query
    scaled = " ".join(each.query for each in signals(cluster))
    for recording in cluster.of_kind("PrometheusRule"):
        for group in mappings(recording.spec.get("groups")):
            for record in mappings(group.get("rules")):
                name, query = known_text(record.get("record")), known_text(record.get("expr")) or ""
                if name and name in scaled and "DCGM_" in query:
                    yield f"record {name}", recording, query
    chart = cluster.chart(PROMETHEUS_ADAPTER)
    for adapted in adapter_rules(cluster):
        query = known_text(adapted.get("seriesQuery")) or ""
        if chart and "DCGM_" in query:
            mapped = mapping(dig(adapted, "resources", "overrides"))
            yield PROMETHEUS_ADAPTER, chart, query + "".join(f" {key}=" for key in mapped)


@rule("GPU225", "warning", source=_COUNTERS)
def threshold_in_another_unit_than_the_metric(case: Case) -> Iterator[Problem]:
    """Threshold in another unit than the metric.

    A share held against percents asks for the most pods at once; percents held against a share never scale.

    Fix: Aim at 70 for DCGM_FI_DEV_GPU_UTIL, at 0.7 for DCGM_FI_PROF_*_ACTIVE.
    """
    for each in signals_of_gpus(case.cluster):
        meaning, aimed = each.meaning, each.threshold
        if aimed is None or "100" in meaning or "/" in meaning or "*" in meaning.replace(".*", ""):
            continue
        percent, ratio = _PERCENT.search(meaning), _RATIO.search(meaning)
        if percent and not ratio and 0 < aimed <= _ONE:
            yield _unit(each, f"{percent.group()} is 0 to 100")
        elif ratio and not percent and aimed > _MOST_RATIO:
            yield _unit(each, f"{ratio.group()} is 0 to 1")


def _unit(signal: Signal, range_: str) -> Problem:
    aimed = f"{(signal.threshold or 0) / _ONE:g}"
    return Problem.of(signal, f"aims at {aimed}, and {range_}")


@rule("GPU228", "warning", source="https://docs.nvidia.com/datacenter/dcgm/latest/gpu-telemetry/dcgm-exporter.html")
def pods_scaled_by_the_use_of_gpus_that_they_share(case: Case) -> Iterator[Problem]:
    """Pods scaled by the use of GPUs that they share.

    DCGM counts a shared GPU for one pod of several, and has no GPU_UTIL of a MIG slice.

    Fix: Scale by demand, such as requests that wait, or take DCGM_FI_PROF_GR_ENGINE_ACTIVE for MIG slices.
    """
    cluster = case.cluster
    if any(_counts_shares(each) for each in exporters(cluster)):
        return
    for each in signals_of_gpus(cluster):
        workload = target_of(each.scaler, cluster)
        text = _unattributed(each, workload, case) if workload else None
        if workload and text:
            yield Problem.of(each, f"{workload.name} {text}")


def _counts_shares(exporter: DaemonSet) -> bool:
    """Whether an exporter tells the pods of a shared GPU apart."""
    return any("KUBERNETES_VIRTUAL_GPUS" in each.env for each in exporter.pod.every_container)


def _unattributed(signal: Signal, workload: Workload, case: Case) -> str | None:
    """Return why a measurement is not that of the pods of a workload."""
    asked = workload.pod.requests
    cut = next((name for name in asked if name.startswith(MIG)), None)
    percent = _PERCENT.search(signal.meaning)
    if cut is not None:
        return f"runs on {cut}, of which there is no {percent.group()}" if percent else None
    if "pod" in signal.meaning and (SHARED_GPU in asked or _on_shares(workload, case)):
        return "shares its GPUs, and a shared GPU is counted for one of its pods"
    return None


def _on_shares(workload: Workload, case: Case) -> bool:
    # Whether an autoscaler makes the nodes is said elsewhere.
    taking = [
        each.pool
        for each in case.verdict(workload).pools
        if all(reason.kind in ("autoscaler", "limit") for reason in each.reasons if reason.answer is Answer.NO)
    ]
    nodes = [node for pool in taking for node in case.nodes(pool)]
    return bool(nodes) and all(_is_shared(node) for node in nodes)


def _is_shared(node: NodeToBe) -> bool:
    return node.row is not None and node.most.get(GPU, 0) > node.row.gpus


@rule("GPU229", "warning", source="https://docs.vllm.ai/en/latest/configuration/conserving_memory/")
def model_server_scaled_by_gpu_memory(case: Case) -> Iterator[Problem]:
    """Model server scaled by GPU memory.

    It keeps most of the memory whether it has work or not, so the pods go to their most and stay there.

    Fix: Scale by requests that wait, e.g. vllm:num_requests_waiting.
    """
    cluster = case.cluster
    for each in signals_of_gpus(cluster):
        workload = target_of(each.scaler, cluster)
        images = [one.image_text for one in workload.containers] if workload else []
        server = next((name for name in _SERVERS if any(name in image for image in images)), None)
        if server and workload and _MEMORY in each.meaning:
            yield Problem.of(each, f"{server} takes GPU memory at start, used or not")


@rule("GPU236", "warning", source=_COUNTERS)
def field_that_the_exporter_does_not_export(case: Case) -> Iterator[Problem]:
    """Field that the exporter does not export.

    The series does not exist, so what scales by it never moves.

    Fix: Add the field to customMetrics of the chart, beside the default ones, or take a default field.
    """
    cluster = case.cluster
    if not _exports_defaults(cluster):
        return
    for each in signals_of_gpus(cluster):
        missing = sorted(set(_FIELD.findall(each.meaning)) - _ON)
        if missing:
            yield Problem.of(each, f"the exporter does not export {', '.join(missing)}")


def _exports_defaults(cluster: Cluster) -> bool:
    """Whether the only exporter is that of the chart, with its own list of fields."""
    chart = cluster.chart(DCGM_EXPORTER)
    if chart is None or operator_exports(cluster) or len(exporters(cluster)) != 1 or not cluster.shows_software:
        return False
    return not any(chart.values.get(key) for key in ("customMetrics", "arguments", "extraConfigMapVolumes", "extraEnv"))
