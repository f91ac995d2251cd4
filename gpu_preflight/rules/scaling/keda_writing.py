"""Triggers of KEDA that it refuses, and monitors that Prometheus does not select."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.charts import KUBE_PROMETHEUS_STACK
from gpu_facts.refusals import did_you_mean
from gpu_preflight.admission.schedules import is_schedule
from gpu_preflight.case import Case
from gpu_preflight.cluster.scalers import SCALED_OBJECT
from gpu_preflight.reading.unknown import (
    Unknown,
    dig,
    is_expression,
    known_number,
    known_text,
    mapping,
    mappings,
)
from gpu_preflight.rules.rule import Problem, rule

# Those by which GPU workloads are scaled; the project has some dozens more.
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


@rule("GPU389", "error", source="https://keda.sh/docs/2.20/concepts/scaling-deployments/", stops=False)
def trigger_that_keda_refuses(case: Case) -> Iterator[Problem]:
    """Trigger that KEDA refuses.

    The ScaledObject stays unready, and nothing scales its target.

    Fix: Correct the trigger as the message says.
    """
    known = _TYPES.split()
    for each in case.cluster.of_kind(SCALED_OBJECT, "ScaledJob"):
        for trigger in mappings(each.spec.get("triggers")):
            kind = known_text(trigger.get("type")) or ""
            near = did_you_mean(kind, known, closeness=_NEAR) if kind not in known else ""
            metadata = trigger.get("metadata")
            place = f"{each.kind} {each.namespace}/{each.name}"
            if near:
                yield Problem(each, f"{place}: KEDA has no trigger {kind}{near}", unknown=True)
            lacking = [name for name in _NEEDS.get(kind, ()) if name not in mapping(metadata)]
            lent = bool(trigger.get("authenticationRef"))
            if lacking and not isinstance(metadata, Unknown):
                text = f"{place}: trigger {kind} lacks {', '.join(lacking)}"
                yield Problem(each, text, unknown=lent and lacking == ["serverAddress"])
            elif kind == "cron":
                for text in _cron_faults(mapping(metadata)):
                    yield Problem(each, f"{place}: trigger cron: {text}")


def _cron_faults(metadata: Mapping[str, Any]) -> Iterator[str]:
    start, end = known_text(metadata.get("start")), known_text(metadata.get("end"))
    for name, text in (("start", start), ("end", end)):
        # It takes five fields, and no word such as @daily.
        if text is not None and not is_expression(text) and (text.startswith("@") or not is_schedule(text)):
            yield f"{name} must be a cron expression such as '0 8 * * 1-5', got {text!r}"
    if start is not None and start == end:
        yield f"start and end must differ, got {start!r} for both"
    replicas = metadata.get("desiredReplicas")
    if isinstance(replicas, Unknown) or (isinstance(replicas, str) and is_expression(replicas)):
        return
    if not known_number(replicas):
        yield f"desiredReplicas must be a whole number but 0, got {replicas!r}"


@rule("GPU397", "warning", source="https://github.com/prometheus-operator/kube-prometheus/issues/1392")
def monitor_that_prometheus_does_not_select(case: Case) -> Iterator[Problem]:
    """Monitor that Prometheus does not select.

    The Prometheus of kube-prometheus-stack reads monitors with the label of its release only; what scales by this one's
    metrics never moves.

    Fix: Give the monitor the label release, or set serviceMonitorSelectorNilUsesHelmValues of the chart to false.
    """
    chart = case.cluster.chart(KUBE_PROMETHEUS_STACK)
    spec = mapping(dig(chart.values, "prometheus", "prometheusSpec")) if chart else {}
    release = known_text(chart.properties.get("Release")) if chart else None
    if chart is None or release is None or any(each in spec for each in _SELECTING):
        return
    for each in case.cluster.of_kind("ServiceMonitor", "PodMonitor"):
        have = each.labels.get("release")
        if not isinstance(have, Unknown) and have != release:
            text = f"{each.kind} {each.namespace}/{each.name}: has no label release={release}"
            yield Problem(each, text, unknown=bool(case.cluster.of_kind("Prometheus")))
