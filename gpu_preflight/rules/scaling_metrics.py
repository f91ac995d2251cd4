"""Rules for metrics that scale pods: exporters, targets and queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpu_facts.charts import DCGM_EXPORTER, GPU_OPERATOR, PROMETHEUS_ADAPTER
from gpu_facts.light import regex
from gpu_facts.resources import GPU, MIG, SHARED_GPU
from gpu_preflight.case import Case
from gpu_preflight.cluster.scalers import HPA, Scaler, Signal, adapter_rules, recorded, scale_target
from gpu_preflight.cluster.software import exporters, is_defined, operator_exports
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.pod import Workload
from gpu_preflight.model.software import DaemonSet
from gpu_preflight.node.nodes import NodeToBe, gpu_types, miss
from gpu_preflight.reading.objects import Chart, Object, Origin
from gpu_preflight.reading.unknown import dig, known_text, mapping, mappings
from gpu_preflight.rule import Problem, rule

_COUNTERS = "NVIDIA/dcgm-exporter 4.5.3-4.8.2 etc/default-counters.csv"
_FIELD = regex(r"\bDCGM_(?:FI|EXP)_[A-Z0-9_]+")
_PERCENT = regex(r"DCGM_FI_DEV_(?:GPU|MEM_COPY|ENC|DEC)_UTIL")
_RATIO = regex(r"DCGM_FI_PROF_(?:GR_ENGINE|SM|DRAM|PIPE_\w+)_(?:ACTIVE|OCCUPANCY)")
_MEMORY = "DCGM_FI_DEV_FB_"
# Labels of the pod that uses a GPU, as a query names them if the scrape doesn't rename them.
_PLAIN_LABEL = regex(r"(?<![\w.])(?:pod|namespace|container)\s*(?:=~|!=|!~|=)|\bby\s*\([^)]*(?<!\w)(?:pod|container)\b")
_RENAMED_LABEL = regex(r"\bexported_(?:pod|namespace|container)\b")
_NAME = regex(r"(?:exported_)?(?:pod|namespace|container)")
_ONE = 1000
# A pod has at most eight GPUs here, whose ratios may be summed.
_MOST_RATIO = 8 * _ONE
# The metric of requests that wait in each server.
# Sources: docs.vllm.ai/en/v0.11.0/usage/metrics.html, docs.sglang.ai/references/production_metrics.html,
# huggingface.co/docs/text-generation-inference/reference/metrics, triton-inference-server/server r25.10
# docs/user_guide/metrics.md
_WAITING_REQUESTS = {
    "vllm": "vllm:num_requests_waiting",
    "text-generation-inference": "tgi_queue_size",
    "tritonserver": "nv_inference_pending_request_count",
    "sglang": "sglang:num_queue_reqs",
}
_SERVERS = tuple(_WAITING_REQUESTS)
# Names without the prefix DCGM_FI_.
_FIELDS = """
DEV_SM_CLOCK DEV_MEM_CLOCK DEV_MEMORY_TEMP DEV_GPU_TEMP DEV_POWER_USAGE DEV_TOTAL_ENERGY_CONSUMPTION
DEV_PCIE_REPLAY_COUNTER DEV_GPU_UTIL DEV_MEM_COPY_UTIL DEV_ENC_UTIL DEV_DEC_UTIL DEV_XID_ERRORS
DEV_FB_FREE DEV_FB_USED DEV_FB_RESERVED DEV_NVLINK_BANDWIDTH_TOTAL DEV_VGPU_LICENSE_STATUS
DEV_UNCORRECTABLE_REMAPPED_ROWS DEV_CORRECTABLE_REMAPPED_ROWS DEV_ROW_REMAP_FAILURE
PROF_GR_ENGINE_ACTIVE PROF_PIPE_TENSOR_ACTIVE PROF_DRAM_ACTIVE PROF_PCIE_TX_BYTES PROF_PCIE_RX_BYTES
DRIVER_VERSION
"""
_ON = frozenset(f"DCGM_FI_{name}" for name in _FIELDS.split())
_CHART = "NVIDIA/dcgm-exporter 4.5.3-4.8.2 deployment/values.yaml"
_MONITORS = "monitoring.coreos.com"
# The target fields of each kind of metric. One of them is required.
# Source: kubernetes/kubernetes v1.36.3 pkg/apis/autoscaling/validation/validation.go ``validatePodsSource`` and others
_NEEDED = {
    "Pods": ("averageValue",),
    "Object": ("value", "averageValue"),
    "External": ("value", "averageValue"),
    "Resource": ("averageUtilization", "averageValue"),
    "ContainerResource": ("averageUtilization", "averageValue"),
}


def _keeps_labels(cluster: Cluster) -> bool | None:
    """Return whether the labels of DCGM's series survive the scrape; ``None`` if it isn't known or differs."""
    answers = set()
    for chart, path in ((DCGM_EXPORTER, ()), (GPU_OPERATOR, ("dcgmExporter",))):
        release = cluster.chart(chart)
        monitor = mapping(dig(release.values, *path, "serviceMonitor")) if release else {}
        if release and monitor.get("enabled", chart == DCGM_EXPORTER) is True:
            answers.add(_answer(monitor))
    for each in cluster.objects_of_kind("ServiceMonitor", "PodMonitor"):
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
    """Query uses labels that the scrape renames.

    Without honorLabels, the labels pod and namespace are the exporter's, so the query finds no data for your pods.

    Fix: Use the label of your pods in the query.
    """
    cluster = case.cluster
    kept = _keeps_labels(cluster)
    if kept is None:
        return
    wrong, right = (_RENAMED_LABEL, _PLAIN_LABEL) if kept else (_PLAIN_LABEL, _RENAMED_LABEL)
    for place, source, query in _queries(case):
        found = wrong.search(query)
        if found and not right.search(query):
            name = _NAME.search(found.group())
            label = name.group() if name else "pod"
            right_label = label.removeprefix("exported_") if kept else f"exported_{label}"
            scrape = f"the scrape of DCGM exporter has honorLabels: {str(kept).lower()}"
            text = f"{place}: its query uses label {label}, but {scrape}, so the label of your pods is {right_label}"
            other = f"set honorLabels: {str(not kept).lower()} for the scrape of DCGM exporter"
            yield Problem(source, text, f"Use label {right_label} in the query, or {other}.")


def _queries(case: Case) -> Iterator[tuple[str, Scaler | Object | Chart, str]]:
    """Yield the queries on DCGM's series that scale pods."""
    for scaler, each in case.signals:
        if "DCGM_" in each.query:
            yield scaler.title, scaler, each.query
    scaled = " ".join(each.query for _, each in case.signals)
    for recording, name, query in recorded(case.cluster):
        if name and name in scaled and "DCGM_" in query:
            yield f"record {name}", recording, query
    chart = case.cluster.chart(PROMETHEUS_ADAPTER)
    for adapted in adapter_rules(case.cluster):
        query = known_text(adapted.get("seriesQuery")) or ""
        if chart and "DCGM_" in query:
            mapped = mapping(dig(adapted, "resources", "overrides"))
            yield PROMETHEUS_ADAPTER, chart, query + "".join(f" {key}=" for key in mapped)


@rule("GPU225", "warning", source=_COUNTERS)
def threshold_in_another_unit_than_the_metric(case: Case) -> Iterator[Problem]:
    """Threshold has another unit than the metric.

    A threshold below 1 for percents scales to the maximum at once. A threshold in percent for a ratio never scales.

    Fix: Set the threshold to 70 for DCGM_FI_DEV_GPU_UTIL, or 0.7 for DCGM_FI_PROF_*_ACTIVE.
    """
    for scaler, each in case.gpu_signals:
        meaning, aimed = each.meaning, each.threshold
        if aimed is None or "100" in meaning or "/" in meaning or "*" in meaning.replace(".*", ""):
            continue
        percent, ratio = _PERCENT.search(meaning), _RATIO.search(meaning)
        if percent and not ratio and 0 < aimed <= _ONE:
            text = f"{percent.group()} has values from 0 to 100, so it scales to its maximum at once"
            yield _unit(scaler, aimed, text, aimed / _ONE * 100)
        elif ratio and not percent and aimed > _MOST_RATIO:
            text = f"{ratio.group()} has values from 0 to 1, so it never scales up"
            yield _unit(scaler, aimed, text, aimed / _ONE / 100)


def _unit(scaler: Scaler, aimed: int, range_: str, meant: float) -> Problem:
    text = f"its threshold is {aimed / _ONE:g}, but {range_}"
    return Problem.from_subject(scaler, text, fix=f"Set the threshold to {meant:g}.")


@rule("GPU228", "warning", source="https://docs.nvidia.com/datacenter/dcgm/latest/gpu-telemetry/dcgm-exporter.html")
def pods_scaled_by_the_use_of_gpus_that_they_share(case: Case) -> Iterator[Problem]:
    """Pods that share GPUs are scaled by GPU usage.

    DCGM exporter attributes a shared GPU to only one of its pods, and DCGM has no GPU_UTIL for a MIG slice.

    Fix: Scale by queue length or waiting requests.
    """
    cluster = case.cluster
    if any(_counts_shares(each) for each in exporters(cluster)):
        return
    for scaler, each in case.gpu_signals:
        workload = scale_target(scaler, cluster)
        text = _unattributed(each, workload, case) if workload else None
        if workload and text:
            yield Problem.from_subject(scaler, f"{workload.name} {text}", fix=_attribution_fix(each, workload))


def _attribution_fix(signal: Signal, workload: Workload) -> str:
    """Return how a metric belongs to the pods of a workload; empty for the rule's own fix.

    Source: NVIDIA/dcgm-exporter 4.5.3-4.8.2: KUBERNETES_VIRTUAL_GPUS covers GPU_UTIL and FB_USED, and needs hostPID
    """
    if any(name.startswith(MIG) for name in workload.pod.requests):
        return "Use DCGM_FI_PROF_GR_ENGINE_ACTIVE, which DCGM has for MIG slices, or scale by waiting requests."
    if not _PERCENT.search(signal.meaning):
        return ""
    own = 'environment variable KUBERNETES_VIRTUAL_GPUS: "true" and hostPID: true in dcgm-exporter'
    return f"Scale by queue length or waiting requests, or set {own}."


def _counts_shares(exporter: DaemonSet) -> bool:
    """Whether an exporter distinguishes the pods of a shared GPU."""
    return any("KUBERNETES_VIRTUAL_GPUS" in each.env for each in exporter.pod.every_container)


def _unattributed(signal: Signal, workload: Workload, case: Case) -> str | None:
    """Return why a measurement doesn't belong to the pods of a workload."""
    requests = workload.pod.requests
    cut = next((name for name in requests if name.startswith(MIG)), None)
    percent = _PERCENT.search(signal.meaning)
    if cut is not None:
        return f"runs on {cut}, for which DCGM has no {percent.group()}" if percent else None
    if "pod" in signal.meaning and (SHARED_GPU in requests or _runs_on_shared_gpus(workload, case)):
        return "shares its GPUs, but DCGM exporter attributes a shared GPU to only one of its pods"
    return None


def _runs_on_shared_gpus(workload: Workload, case: Case) -> bool:
    # Other rules check whether an autoscaler creates the nodes.
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
    """Model server is scaled by GPU memory.

    The server keeps most of the memory whether it has work or not, so the autoscaler scales to the maximum and never
    scales down.

    Fix: Scale by waiting requests.
    """
    for scaler, each in case.gpu_signals:
        workload = scale_target(scaler, case.cluster)
        images = [one.image_text for one in workload.containers] if workload else []
        server = next((name for name in _SERVERS if any(name in image for image in images)), None)
        if server and workload and _MEMORY in each.meaning:
            text = f"scales by GPU memory, but {server} allocates it at start with or without load"
            fix = f"Scale by waiting requests: metric {_WAITING_REQUESTS[server]}."
            yield Problem.from_subject(scaler, text, fix=fix)


@rule("GPU236", "warning", source=_COUNTERS)
def field_that_the_exporter_does_not_export(case: Case) -> Iterator[Problem]:
    """Exporter doesn't export a field.

    The series doesn't exist, so the autoscaler that uses it never scales.

    Fix: Add the field to customMetrics of the chart, together with the default ones, or use a default field.
    """
    if not _exports_defaults(case.cluster):
        return
    for scaler, each in case.gpu_signals:
        missing = sorted(set(_FIELD.findall(each.meaning)) - _ON)
        if missing:
            text = f"uses {', '.join(missing)}, which DCGM exporter doesn't export by default, so it never scales"
            yield Problem.from_subject(scaler, text)


def _exports_defaults(cluster: Cluster) -> bool:
    """Whether the chart's exporter is the only one, and has the default list of fields."""
    chart = cluster.chart(DCGM_EXPORTER)
    if chart is None or operator_exports(cluster) or len(exporters(cluster)) != 1 or not cluster.shows_software:
        return False
    return not any(chart.values.get(key) for key in ("customMetrics", "arguments", "extraConfigMapVolumes", "extraEnv"))


@rule("GPU220", "warning", source=_CHART)
def dcgm_exporter_that_does_not_run_on_gpu_nodes(case: Case) -> Iterator[Problem]:
    """DCGM exporter doesn't run on GPU nodes.

    The GPUs of the pool aren't measured. Autoscalers that use its metrics don't scale, and no alert fires.

    Fix: Add a toleration of the pool's taint to the exporter, or make its node selector match the pool's labels.
    """
    cluster = case.cluster
    found = exporters(cluster)
    if not found or operator_exports(cluster):
        return
    for pool in case.gpu_pools:
        if all(case.reaches(each, pool) is Answer.NO for each in found):
            misses = [miss(each, pool.taints, case.nodes(pool)) for each in found]
            texts = (each.text or f"DaemonSet {each.daemon.name} doesn't run on its nodes" for each in misses)
            text = "; ".join(dict.fromkeys(texts))
            yield Problem(found[0], f"pool {pool.name}: {text}, so its GPUs aren't measured", misses[0].fix)


def _has_no_gpus(pool: Pool) -> bool:
    """Whether a pool certainly has no GPUs; families that start with g or p may have GPUs of another vendor."""
    named = bool(pool.instance_types) and not any(each.startswith(("g", "p", "vt")) for each in pool.instance_types)
    return named and not gpu_types(pool)


@rule("GPU221", "warning", source=_CHART)
def dcgm_exporter_on_nodes_without_gpus(case: Case) -> Iterator[Problem]:
    """DCGM exporter runs on nodes without GPUs.

    The exporter finds no GPU there and restarts permanently.

    Fix: Select nodes by nvidia.com/gpu.present=true or by a label of the GPU pools.
    """
    cluster = case.cluster
    for each in exporters(cluster):
        names = [pool.name for pool in cluster.pools if _has_no_gpus(pool) and case.reaches(each, pool) is Answer.YES]
        if names:
            where = f"pool {', '.join(names)}, which has no GPUs"
            yield Problem(each, f"DaemonSet {each.name} also runs on {where}, and restarts there permanently")


@rule(
    "GPU222",
    "warning",
    source="https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/getting-started.html",
)
def two_dcgm_exporters_for_the_same_gpus(case: Case) -> Iterator[Problem]:
    """Two DCGM exporters measure the same GPUs.

    Every series exists twice, so sums are twice too high, and both exporters need the profiling counters.

    Fix: Remove one of the two exporters.
    """
    cluster = case.cluster
    found = exporters(cluster)
    if operator_exports(cluster):
        for each in found:
            text = f"DaemonSet {each.name} and the GPU Operator's exporter both report each metric of the same GPUs"
            fix = f"Set dcgmExporter.enabled: false in the values of chart gpu-operator, or remove {each.name}."
            yield Problem(each, text, fix)
    for pool in case.gpu_pools:
        here = [each for each in found if case.reaches(each, pool) is not Answer.NO]
        if len(here) > 1:
            sure = sum(case.reaches(each, pool) is Answer.YES for each in here) > 1
            addons = {addon.origin: addon.name for addon in cluster.addons}
            names = [_exporter_name(each, addons) for each in here]
            times = "twice" if len(here) == 2 else f"{len(here)} times"
            text = f"{' and '.join(names)} report its GPUs, so each metric exists {times}"
            others = " and ".join(name for name, each in zip(names, here, strict=True) if each.origin not in addons)
            addon = next((addons[each.origin] for each in here if each.origin in addons), "")
            off = f"Set dcgmExporter.enabled: false in ConfigurationValues of add-on {addon}"
            fix = f"{off}, or remove {others}." if others else f"{off}."
            fix = fix if addon else f"Keep one of {' and '.join(names)}, and remove the rest."
            yield Problem.from_subject(pool, text, fix=fix, unknown=not sure)


def _exporter_name(daemon: DaemonSet, addons: Mapping[Origin, str]) -> str:
    addon = f" of add-on {addons[daemon.origin]}" if daemon.origin in addons else ""
    return f"DaemonSet {daemon.name}{addon} ({daemon.origin.path})"


@rule("GPU223", "error", source=_CHART)
def servicemonitor_without_prometheus_operator(case: Case) -> Iterator[Problem]:
    """Chart creates a ServiceMonitor without Prometheus Operator.

    The chart creates a ServiceMonitor by default, and its installation fails without the CRD.

    Fix: Install chart kube-prometheus-stack before chart dcgm-exporter, or set serviceMonitor.enabled: false in the
    values of dcgm-exporter.
    """
    cluster = case.cluster
    chart = cluster.chart(DCGM_EXPORTER)
    if chart is None or not cluster.shows_software or is_defined(_MONITORS, cluster):
        return
    if dig(chart.values, "serviceMonitor", "enabled") in (None, True):
        message = (
            f"chart dcgm-exporter creates a ServiceMonitor, but the input doesn't install its API group {_MONITORS}"
        )
        yield Problem(chart, message, unknown=not cluster.sees_software, doubt=cluster.doubt)


@rule("GPU462", "error", source="https://kubernetes.io/docs/reference/kubernetes-api/autoscaling/", stops=False)
def metric_without_a_target_of_its_kind(case: Case) -> Iterator[Problem]:
    """Metric has no target that fits its type.

    The API server rejects the HorizontalPodAutoscaler, so the number of pods doesn't change.

    Fix: Set a field in the target that the type of the metric allows.
    """
    for scaler, metric in case.signals:
        target, needed = metric.target, _NEEDED.get(metric.kind, ())
        versioned = scaler.kind == HPA and scaler.object.content.get("apiVersion") == "autoscaling/v2"
        if versioned and target is not None and needed and not any(name in target for name in needed):
            given = ", ".join(str(each) for each in target if each != "type") or "none"
            text = f"the target of its metric of type {metric.kind} must set {' or '.join(needed)}, got {given}"
            yield Problem(scaler, f"{scaler.origin.path}: {text}", f"Set {needed[0]} in the target of the metric.")
