"""Rules for pod autoscalers that the API server rejects, that conflict, or that get no metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from gpu_facts.charts import KUBE_PROMETHEUS_STACK, PROMETHEUS_ADAPTER
from gpu_facts.refusals import did_you_mean
from gpu_preflight.admission.owners import is_schedule
from gpu_preflight.case import Case
from gpu_preflight.cluster.scalers import HPA, SCALED_JOB, SCALED_OBJECT, Signal, adapter_rules, scale_target
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import Workload
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.unknown import Unknown, dig, is_expression, is_true, known_number, known_text, mapping
from gpu_preflight.rule import Problem, rule

_HPA_DOCS = "https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/"
_REMOVED = {"autoscaling/v2beta1": "1.25", "autoscaling/v2beta2": "1.26"}
# Kubernetes accepts 0 by default since this version.
_ZERO_FROM = (1, 37)
_TWICE = "scaledobject.keda.sh/transfer-hpa-ownership"
_KEDA = "https://keda.sh/docs/2.20/scalers/prometheus/"
_SCALED = "https://keda.sh/docs/2.20/reference/scaledobject-spec/"
# Prefixes of a model server's metrics, by a part of the name of its image.
# Sources: docs.vllm.ai/en/v0.11.0/usage/metrics.html, docs.sglang.ai/references/production_metrics.html,
# huggingface.co/docs/text-generation-inference/reference/metrics, huggingface/text-embeddings-inference v1.8
# README.md, triton-inference-server/server r25.10 docs/user_guide/metrics.md
_OF_SERVERS = (
    ("vllm", re.compile(r"\bvllm:")),
    ("sglang", re.compile(r"\bsglang:")),
    ("text-generation-inference", re.compile(r"\btgi_")),
    ("text-embeddings-inference", re.compile(r"\bte_")),
    ("tritonserver", re.compile(r"\bnv_inference_")),
)
# A router in front of the servers also counts requests while no server runs.
_OF_ROUTERS = ("incoming", "router", "gateway")
# Triggers that are used for GPU workloads. KEDA has dozens more.
# Source: https://keda.sh/docs/2.20/scalers/ (2026-11)
_TYPES = (
    "activemq apache-kafka aws-cloudwatch aws-dynamodb aws-dynamodb-streams aws-kinesis-stream aws-sqs-queue cpu cron "
    "datadog external external-push gcp-pubsub graphite influxdb kafka kubernetes-workload loki memory metrics-api "
    "mongodb mysql nats-jetstream postgresql prometheus pulsar rabbitmq redis redis-cluster redis-streams temporal"
)
_NEAR = 0.7
# Sources: kedacore/keda v2.20.2 pkg/scalers/prometheus_scaler.go, pkg/scalers/cron_scaler.go
_NEEDS = {
    "prometheus": ("serverAddress", "query", "threshold"),
    "cron": ("timezone", "start", "end", "desiredReplicas"),
}
# Source: prometheus-community/kube-prometheus-stack 88.5 values.yaml
_SELECTING = (
    "serviceMonitorSelector",
    "serviceMonitorSelectorNilUsesHelmValues",
    "podMonitorSelector",
    "podMonitorSelectorNilUsesHelmValues",
)


@rule("GPU227", "error", source=_HPA_DOCS)
def horizontal_pod_autoscaler_that_allows_no_pods(case: Case) -> Iterator[Problem]:
    """HorizontalPodAutoscaler has minReplicas 0.

    The API server rejects minReplicas: 0 before Kubernetes 1.37.

    Fix: Set minReplicas: 1, or use a ScaledObject of KEDA, which can scale to zero by queue length.
    """
    cluster = case.cluster
    if cluster.version is not None and minor(cluster.version) >= _ZERO_FROM:
        return
    for each in case.replica_scalers:
        if each.kind == HPA and each.min_replicas == 0:
            text = "minReplicas must be at least 1 before Kubernetes 1.37, got 0"
            yield Problem.from_subject(each, text, unknown=not cluster.version)


@rule("GPU232", "error", source="https://keda.sh/docs/2.20/concepts/scaling-deployments/")
def two_autoscalers_of_one_workload(case: Case) -> Iterator[Problem]:
    """Two autoscalers scale the same workload.

    KEDA's webhook rejects the second. Two HorizontalPodAutoscalers block each other.

    Fix: Keep one autoscaler with all metrics.
    """
    for one, other in combinations(case.replica_scalers, 2):
        kind, name, namespace = one.target
        adopted = any(is_true(each.object.annotations.get(_TWICE)) for each in (one, other))
        names = [f"{each.kind} {each.object.name}" for each in (one, other)]
        if name and other.target == one.target and not adopted and names[0] != names[1]:
            yield Problem(other, f"{kind} {namespace}/{name}: {' and '.join(names)} both scale it")


@rule(
    "GPU233",
    "error",
    source="https://kubernetes.io/docs/reference/using-api/deprecation-guide/#horizontalpodautoscaler-v126",
)
def horizontal_pod_autoscaler_of_an_api_that_is_gone(case: Case) -> Iterator[Problem]:
    """HorizontalPodAutoscaler uses an API version that was removed.

    The API server doesn't know the version and rejects the object.

    Fix: Set apiVersion to autoscaling/v2.
    """
    for each in case.replica_scalers:
        version = str(each.object.content.get("apiVersion"))
        if each.kind == HPA and version in _REMOVED:
            yield Problem.from_subject(each, f"Kubernetes removed {version} in version {_REMOVED[version]}")


@rule("GPU235", "warning", source=_HPA_DOCS)
def horizontal_pod_autoscaler_on_a_metric_that_nothing_serves(case: Case) -> Iterator[Problem]:
    """HorizontalPodAutoscaler uses a metric that no adapter serves.

    It reads metrics from an API that an adapter must register. Without an adapter, it never scales.

    Fix: Install prometheus-adapter with a rule for the metric, or use a ScaledObject of KEDA.
    """
    cluster = case.cluster
    if not cluster.shows_software:
        return
    for scaler, each in case.signals:
        of_adapter = scaler.kind == HPA and each.kind in ("Pods", "Object", "External")
        if of_adapter and each.query and not _is_served(cluster, each):
            text = f"no metrics adapter in the input serves metric {each.query} of type {each.kind}, so it never scales"
            yield Problem.from_subject(scaler, text, unknown=not cluster.sees_software, doubt=cluster.doubt)


def _is_served(cluster: Cluster, signal: Signal) -> bool:
    """Whether an adapter serves a metric, or an adapter runs whose metrics aren't known."""
    api = "external.metrics.k8s.io" if signal.kind == "External" else "custom.metrics.k8s.io"
    if any(each.spec.get("group") == api for each in cluster.objects_of_kind("APIService")):
        return True
    adapter = cluster.chart(PROMETHEUS_ADAPTER)
    if adapter is None:
        return False
    rules = mapping(adapter.values.get("rules"))
    if signal.kind == "External" and not rules.get("external"):
        return False
    names = [known_text(dig(each, "name", "as")) for each in adapter_rules(cluster)]
    given = rules.get("default") is False and not rules.get("existing") and None not in names
    return not given or signal.query in names


@rule("GPU226", "error", source=_SCALED, stops=False)
def workload_scaled_to_zero_by_a_measurement_of_its_pods(case: Case) -> Iterator[Problem]:
    """Workload scales to zero by a metric that only its running pods have.

    Without pods, no GPU is in use and there is no measurement, so KEDA never creates the first pod again.

    Fix: Add a trigger whose metric exists without pods, such as the length of a queue, or set minReplicaCount: 1.
    """
    for each in case.replica_scalers:
        spec = each.object.spec
        idle = spec.get("idleReplicaCount", spec.get("minReplicaCount", 0))
        if each.kind != SCALED_OBJECT or known_number(idle) != 0 or spec.get("fallback"):
            continue
        own, any_server = _server_metric_patterns(scale_target(each, case.cluster))
        measured = [_measured(one, own) for one in each.signals]
        asleep = [bool(_measured(one, own)) or one.kind in ("cpu", "memory") for one in each.signals]
        if any(measured) and all(asleep):
            count = "scales to 0 by default" if "minReplicaCount" not in spec else "scales to 0"
            names = sorted({name for one in measured for name in one})
            sure = not any_server or any(name.startswith("DCGM_") for name in names)
            what = f"never up again, because its metrics exist only while its pods run: {', '.join(names)}"
            yield Problem.from_subject(each, f"{count}, and {what}", unknown=not sure)


def _server_metric_patterns(workload: Workload | None) -> tuple[tuple[re.Pattern[str], ...], bool]:
    """Return the patterns of metrics of a workload's own server, and whether they are a guess.

    A GPU pod with an unknown image may be any server.
    """
    images = [each.image_text for each in workload.containers] if workload else []
    known = tuple(names for part, names in _OF_SERVERS if any(part in image for image in images))
    guessed = not known and workload is not None and workload.asks_for_gpu
    return (tuple(names for _, names in _OF_SERVERS) if guessed else known), guessed


def _measured(signal: Signal, own: tuple[re.Pattern[str], ...]) -> list[str]:
    """Return the metrics of a trigger that have no value while no pod runs."""
    wakes = re.search(r"\bvector\s*\(\s*[1-9]", signal.meaning) or "kube_" in signal.meaning
    if signal.kind != "prometheus" or wakes or any(word in signal.meaning for word in _OF_ROUTERS):
        return []
    read = re.findall(r"[a-zA-Z_:][\w:]*", re.sub(r"\"[^\"]*\"|'[^']*'", "", signal.meaning))
    return [each for each in read if each.startswith("DCGM_") or any(names.match(each) for names in own)]


@rule("GPU230", "warning", source=_KEDA)
def keda_query_that_is_no_sum(case: Case) -> Iterator[Problem]:
    """KEDA query isn't a sum.

    KEDA creates query / threshold pods. An average results in one or two pods with any load, and several values fail.

    Fix: Write the query as a sum over the pods, for example sum(max by (exported_pod) (...)).
    """
    for scaler, each in case.gpu_signals:
        if each.kind != "prometheus" or not each.per_pod or not each.query:
            continue
        query = each.query.strip()
        if re.match(r"avg\s*(?:\(|by|without)", query):
            yield Problem.from_subject(
                scaler,
                "its query returns an average, but KEDA divides the result by the threshold, so it must be a sum",
                fix="Use sum instead of avg in the query, or set metricType: Value in the trigger.",
            )
        elif re.match(r"DCGM_\w+\s*(?:\{[^}]*\})?$", query) or re.match(r"(?:sum|max|min)\s+by\b", query):
            text = "its query returns a value for each GPU or pod, but KEDA accepts only one"
            yield Problem.from_subject(scaler, text)


@rule("GPU231", "note", source=_KEDA)
def missing_measurement_that_counts_as_zero(case: Case) -> Iterator[Problem]:
    """Missing measurement counts as zero.

    If the exporter or Prometheus is down, KEDA removes busy pods.

    Fix: Set ignoreNullValues: "false" in the trigger.
    """
    for scaler, each in case.gpu_signals:
        if each.kind == "prometheus" and each.null_is_zero and "vector" not in each.query:
            text = "a missing measurement counts as 0, so KEDA removes pods while the exporter is down"
            yield Problem.from_subject(scaler, text)


@rule("GPU389", "error", source="https://keda.sh/docs/2.20/concepts/scaling-deployments/", stops=False)
def trigger_that_keda_refuses(case: Case) -> Iterator[Problem]:
    """KEDA rejects the trigger.

    The ScaledObject stays unready, and its target isn't scaled.

    Fix: Correct the trigger as the message states.
    """
    known = _TYPES.split()
    for each in case.scalers:
        for trigger in each.signals if each.kind in (SCALED_OBJECT, SCALED_JOB) else ():
            kind, metadata = trigger.kind, mapping(trigger.metadata)
            near = did_you_mean(kind, known, closeness=_NEAR) if kind not in known else ""
            if near:
                yield Problem.from_subject(each, f"KEDA has no trigger {kind}{near}", unknown=True)
            if isinstance(trigger.metadata, Unknown):
                continue
            lacking = [name for name in _NEEDS.get(kind, ()) if name not in metadata]
            if lacking:
                lent = trigger.authentication is not None and lacking == ["serverAddress"]
                yield Problem.from_subject(each, f"trigger {kind} lacks {', '.join(lacking)}", unknown=lent)
            elif kind == "cron":
                for text in _cron_faults(metadata):
                    yield Problem.from_subject(each, f"trigger cron: {text}")


def _cron_faults(metadata: Mapping[str, Any]) -> Iterator[str]:
    start, end = known_text(metadata.get("start")), known_text(metadata.get("end"))
    for name, text in (("start", start), ("end", end)):
        # KEDA requires five fields and doesn't accept words such as @daily.
        if text is not None and not is_expression(text) and (text.startswith("@") or not is_schedule(text)):
            yield f"{name} must be a cron expression such as '0 8 * * 1-5', got {text!r}"
    if start is not None and start == end:
        yield f"start and end must differ, got {start!r} for both"
    replicas = metadata.get("desiredReplicas")
    if isinstance(replicas, Unknown) or (isinstance(replicas, str) and is_expression(replicas)):
        return
    if not known_number(replicas):
        yield f"desiredReplicas must be a whole number of 1 or more, got {replicas!r}"


@rule("GPU397", "warning", source="https://github.com/prometheus-operator/kube-prometheus/issues/1392")
def monitor_that_prometheus_does_not_select(case: Case) -> Iterator[Problem]:
    """Prometheus doesn't select the monitor.

    The Prometheus of kube-prometheus-stack reads only monitors with the label of its release. Autoscalers that use
    metrics of this monitor never scale.

    Fix: Add the label to the monitor.
    """
    chart = case.cluster.chart(KUBE_PROMETHEUS_STACK)
    spec = mapping(dig(chart.values, "prometheus", "prometheusSpec")) if chart else {}
    release = known_text(chart.properties.get("Release")) if chart else None
    if chart is None or release is None or any(each in spec for each in _SELECTING):
        return
    for each in case.cluster.objects_of_kind("ServiceMonitor", "PodMonitor"):
        have = each.labels.get("release")
        if not isinstance(have, Unknown) and have != release:
            unknown = bool(case.cluster.objects_of_kind("Prometheus"))
            text = f"has no label release={release}, so Prometheus ignores it"
            value = f"{each.kind[:1].lower()}{each.kind[1:]}SelectorNilUsesHelmValues"
            chart_fix = f"set prometheus.prometheusSpec.{value}: false in the values of chart {chart.name}"
            fix = f"Add label release: {release} to the monitor, or {chart_fix}."
            yield Problem.from_subject(each, text, fix=fix, unknown=unknown)


@rule("GPU375", "warning", source="https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/")
def autoscaler_of_pods_that_goes_beyond_the_pools(case: Case) -> Iterator[Problem]:
    """Autoscaler may create more pods than the pools have nodes for.

    Under load it creates pods that stay Pending, and the load remains.

    Fix: Raise the maximum of a pool, or lower the maximum of the autoscaler.
    """
    for scaler in case.replica_scalers:
        workload, most = scale_target(scaler, case.cluster), scaler.max_replicas
        if workload is None or most is None or not workload.asks_for_gpu:
            continue
        for text, answer in _max_replicas_shortage(case, workload, most):
            message = f"creates up to {most} pods of {workload.name}; {text}"
            unknown = answer is not Answer.NO or not case.cluster.whole
            yield Problem.from_subject(scaler, message, unknown=unknown)


def _max_replicas_shortage(case: Case, workload: Workload, most: int) -> Iterator[tuple[str, Answer]]:
    """Yield how many of the maximum number of pods run, if not all."""
    now = case.verdict(workload)
    if now.answer is Answer.NO:
        return
    then = case.with_replicas(workload, most)
    known = {each.text for each in now.reasons}
    for each in then.reasons:
        if each.rule == "GPU121" and each.text not in known:
            yield each.text, each.answer
