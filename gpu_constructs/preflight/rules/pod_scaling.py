"""Autoscalers of pods that are refused, that fight each other, or that nobody feeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from gpu_constructs.preflight.model import Cluster, Object
from gpu_constructs.preflight.nodes import minor
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.scalers import (
    HPA,
    SCALED_OBJECT,
    VPA,
    Signal,
    adapter_rules,
    horizontal_autoscalers,
    signals,
)
from gpu_constructs.preflight.unknown import dig, is_true, known_number, known_text, mapping, mappings

_HPA_DOCS = "https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/"
_REMOVED = {"autoscaling/v2beta1": "1.25", "autoscaling/v2beta2": "1.26"}
# Kubernetes takes 0 by default from here on.
_ZERO_FROM = (1, 37)
_TWICE = "scaledobject.keda.sh/transfer-hpa-ownership"
# Fields of autoscaling/v2beta1, and what they are called in v2.
_RENAMED = {
    "targetAverageUtilization": "target.averageUtilization",
    "targetAverageValue": "target.averageValue",
    "targetValue": "target.value",
    "metricName": "metric.name",
}


def _place(each: Object) -> str:
    return f"{each.kind} {each.namespace}/{each.name}"


def _zero(cluster: Cluster) -> Iterator[Problem]:
    if cluster.version is not None and minor(cluster.version) >= _ZERO_FROM:
        return
    for each in horizontal_autoscalers(cluster):
        if known_number(each.spec.get("minReplicas")) == 0:
            yield Problem(each.origin, f"{_place(each)}: minReplicas must be at least 1", unknown=not cluster.version)


def _reference(each: Object) -> tuple[str, str, str]:
    reference = mapping(each.spec.get("scaleTargetRef"))
    return each.namespace, known_text(reference.get("kind")) or "Deployment", known_text(reference.get("name")) or ""


def _two(cluster: Cluster) -> Iterator[Problem]:
    for one, other in combinations([*horizontal_autoscalers(cluster), *cluster.of_kind(SCALED_OBJECT)], 2):
        namespace, kind, name = _reference(one)
        adopted = any(is_true(each.annotations.get(_TWICE)) for each in (one, other))
        if name and _reference(other) == (namespace, kind, name) and not adopted and not _same(one, other):
            message = f"{kind} {namespace}/{name}: {one.kind} {one.name} and {other.kind} {other.name} both scale it"
            yield Problem(other.origin, message)


def _same(one: Object, other: Object) -> bool:
    return (one.kind, one.name) == (other.kind, other.name)


def _removed(cluster: Cluster) -> Iterator[Problem]:
    for each in horizontal_autoscalers(cluster):
        version = known_text(each.content.get("apiVersion")) or ""
        if version in _REMOVED:
            yield Problem(each.origin, f"{_place(each)}: {version} is gone since Kubernetes {_REMOVED[version]}")


def _unknown_fields(cluster: Cluster) -> Iterator[Problem]:
    for each in cluster.objects:
        for field, instead in _misnamed(each):
            yield Problem(
                each.origin, f"{_place(each)}: {field} is no field of {each.content.get('apiVersion')}; {instead}"
            )


def _misnamed(each: Object) -> Iterator[tuple[str, str]]:
    """Yield the fields of an object that its version does not have, and what to do."""
    version, spec = each.content.get("apiVersion"), each.spec
    if each.kind == HPA and version == "autoscaling/v2":
        yield from _of_metrics(mappings(spec.get("metrics")))
    elif each.kind == VPA and each.group == "autoscaling.k8s.io":
        for policy in mappings(dig(dict(spec), "resourcePolicy", "containerPolicies")):
            yield from _renamed(policy, {"minResources": "minAllowed", "maxResources": "maxAllowed"})
    elif each.kind == "Prometheus" and each.group == "monitoring.coreos.com" and "metrics" in spec:
        yield "metrics", "scrape with a ServiceMonitor and record with a PrometheusRule"
    elif each.kind == "ClusterQueue" and version == "kueue.x-k8s.io/v1beta2":
        yield from _renamed(spec, {"cohort": "cohortName", "admissionChecks": "admissionChecksStrategy"})


def _of_metrics(metrics: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for metric in metrics:
        for part in (metric, *(each for each in metric.values() if isinstance(each, dict))):
            yield from _renamed(part, _RENAMED)
        if "metric" in metric:
            yield "metric", "put it into pods, object or external"


def _renamed(part: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((old, f"write {new}") for old, new in names.items() if old in part)


def _unserved(cluster: Cluster) -> Iterator[Problem]:
    if not cluster.sees_software:
        return
    for each in signals(cluster):
        of_adapter = each.scaler.kind == HPA and each.kind in ("Pods", "Object", "External")
        if of_adapter and each.query and not _is_served(cluster, each):
            yield Problem(each.scaler.origin, f"{each.place}: nothing serves metric {each.query} as {each.kind}")


def _is_served(cluster: Cluster, signal: Signal) -> bool:
    """Whether an adapter serves a metric, or one runs of which it is not known what it serves."""
    api = "external.metrics.k8s.io" if signal.kind == "External" else "custom.metrics.k8s.io"
    if any(each.spec.get("group") == api for each in cluster.of_kind("APIService")):
        return True
    adapter = cluster.chart("prometheus-adapter")
    if adapter is None:
        return False
    rules = mapping(adapter.values.get("rules"))
    if signal.kind == "External" and not rules.get("external"):
        return False
    names = [known_text(dig(each, "name", "as")) for each in adapter_rules(cluster)]
    given = rules.get("default") is False and not rules.get("existing") and None not in names
    return not given or signal.query in names


RULES = (
    Rule(
        id="GPU227",
        severity="error",
        title="HorizontalPodAutoscaler with no pods at least",
        why="The API server refuses minReplicas: 0 before Kubernetes 1.37.",
        source=_HPA_DOCS,
        fix="Set minReplicas: 1, or scale to zero with KEDA by a measurement of demand.",
        causes=("M6",),
        check=_zero,
    ),
    Rule(
        id="GPU232",
        severity="error",
        title="Two autoscalers of one workload",
        why="KEDA's webhook refuses the second; two HorizontalPodAutoscalers stop each other.",
        source="https://keda.sh/docs/2.20/concepts/scaling-deployments/",
        fix="Keep one, with every metric in it.",
        causes=("M7",),
        check=_two,
    ),
    Rule(
        id="GPU233",
        severity="error",
        title="HorizontalPodAutoscaler of an API that is gone",
        why="The API server does not know the version and refuses the object.",
        source="https://kubernetes.io/docs/reference/using-api/deprecation-guide/#horizontalpodautoscaler-v126",
        fix="Write it as autoscaling/v2.",
        causes=("W2.3",),
        check=_removed,
    ),
    Rule(
        id="GPU234",
        severity="error",
        title="Field that the API does not have",
        why="kubectl refuses the object; whatever applies it without validation drops the field.",
        source="https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation",
        fix="Write the field that the version has.",
        causes=("W2.2", "W2.4", "W2.10"),
        check=_unknown_fields,
    ),
    Rule(
        id="GPU235",
        severity="warning",
        title="HorizontalPodAutoscaler on a metric that nothing serves",
        why="It reads metrics from an API that an adapter must register; without it, it never scales.",
        source=_HPA_DOCS,
        fix="Install prometheus-adapter with a rule for the metric, or take a ScaledObject of KEDA.",
        causes=("W2.6", "W2.9"),
        check=_unserved,
    ),
)
