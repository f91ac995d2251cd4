"""Autoscalers of pods that are refused, that fight each other, or that nobody feeds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from gpu_facts.charts import PROMETHEUS_ADAPTER
from gpu_preflight.case import Case
from gpu_preflight.cluster.scalers import (
    HPA,
    SCALED_OBJECT,
    Signal,
    adapter_rules,
    horizontal_autoscalers,
    signals,
)
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, is_true, known_number, known_text, mapping
from gpu_preflight.rules.rule import Problem, rule

_HPA_DOCS = "https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/"
_REMOVED = {"autoscaling/v2beta1": "1.25", "autoscaling/v2beta2": "1.26"}
# Kubernetes takes 0 by default from here on.
_ZERO_FROM = (1, 37)
_TWICE = "scaledobject.keda.sh/transfer-hpa-ownership"


def _place(each: Object) -> str:
    return f"{each.kind} {each.namespace}/{each.name}"


@rule("GPU227", "error", source=_HPA_DOCS)
def horizontal_pod_autoscaler_that_allows_no_pods(case: Case) -> Iterator[Problem]:
    """HorizontalPodAutoscaler with no pods at least.

    The API server refuses minReplicas: 0 before Kubernetes 1.37.

    Fix: Set minReplicas: 1, or scale to zero with KEDA by a measurement of demand.
    """
    cluster = case.cluster
    if cluster.version is not None and minor(cluster.version) >= _ZERO_FROM:
        return
    for each in horizontal_autoscalers(cluster):
        if known_number(each.spec.get("minReplicas")) == 0:
            yield Problem(each, f"{_place(each)}: minReplicas must be at least 1", unknown=not cluster.version)


def _reference(each: Object) -> tuple[str, str, str]:
    reference = mapping(each.spec.get("scaleTargetRef"))
    return each.namespace, known_text(reference.get("kind")) or "Deployment", known_text(reference.get("name")) or ""


@rule("GPU232", "error", source="https://keda.sh/docs/2.20/concepts/scaling-deployments/")
def two_autoscalers_of_one_workload(case: Case) -> Iterator[Problem]:
    """Two autoscalers of one workload.

    KEDA's webhook refuses the second; two HorizontalPodAutoscalers stop each other.

    Fix: Keep one, with every metric in it.
    """
    cluster = case.cluster
    for one, other in combinations([*horizontal_autoscalers(cluster), *cluster.of_kind(SCALED_OBJECT)], 2):
        namespace, kind, name = _reference(one)
        adopted = any(is_true(each.annotations.get(_TWICE)) for each in (one, other))
        if name and _reference(other) == (namespace, kind, name) and not adopted and not _same(one, other):
            message = f"{kind} {namespace}/{name}: {one.kind} {one.name} and {other.kind} {other.name} both scale it"
            yield Problem(other, message)


def _same(one: Object, other: Object) -> bool:
    return (one.kind, one.name) == (other.kind, other.name)


@rule(
    "GPU233",
    "error",
    source="https://kubernetes.io/docs/reference/using-api/deprecation-guide/#horizontalpodautoscaler-v126",
)
def horizontal_pod_autoscaler_of_an_api_that_is_gone(case: Case) -> Iterator[Problem]:
    """HorizontalPodAutoscaler of an API that is gone.

    The API server does not know the version and refuses the object.

    Fix: Write it as autoscaling/v2.
    """
    for each in horizontal_autoscalers(case.cluster):
        version = known_text(each.content.get("apiVersion")) or ""
        if version in _REMOVED:
            yield Problem(each, f"{_place(each)}: {version} is gone since Kubernetes {_REMOVED[version]}")


@rule("GPU235", "warning", source=_HPA_DOCS)
def horizontal_pod_autoscaler_on_a_metric_that_nothing_serves(case: Case) -> Iterator[Problem]:
    """HorizontalPodAutoscaler on a metric that nothing serves.

    It reads metrics from an API that an adapter must register; without it, it never scales.

    Fix: Install prometheus-adapter with a rule for the metric, or take a ScaledObject of KEDA.
    """
    cluster = case.cluster
    if not cluster.shows_software:
        return
    for each in signals(cluster):
        of_adapter = each.scaler.kind == HPA and each.kind in ("Pods", "Object", "External")
        if of_adapter and each.query and not _is_served(cluster, each):
            text = f"nothing serves metric {each.query} as {each.kind}"
            yield Problem.of(each, text, unknown=not cluster.sees_software)


def _is_served(cluster: Cluster, signal: Signal) -> bool:
    """Whether an adapter serves a metric, or one runs of which it is not known what it serves."""
    api = "external.metrics.k8s.io" if signal.kind == "External" else "custom.metrics.k8s.io"
    if any(each.spec.get("group") == api for each in cluster.of_kind("APIService")):
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
