"""Autoscalers of pods that are refused, that fight each other, or that nobody feeds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from gpu_constructs.preflight.model import Cluster, Object
from gpu_constructs.preflight.nodes import minor, sees_software
from gpu_constructs.preflight.rules.rule import OutOfReach, Problem, Rule
from gpu_constructs.preflight.scalers import HPA, SCALED_OBJECT, VPA, adapter_rules, signals, target_of
from gpu_constructs.preflight.unknown import dig, is_true, items, known_number, known_text, mapping, mappings

_HPA_DOCS = "https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/"
_LIMITS = "https://github.com/kubernetes/autoscaler/blob/vertical-pod-autoscaler-1.7.1/vertical-pod-autoscaler/docs/known-limitations.md"
_REMOVED = {"autoscaling/v2beta1": "1.25", "autoscaling/v2beta2": "1.26"}
# Kubernetes takes 0 by default from here on.
_ZERO_FROM = (1, 37)
_SERVED_BY_ADAPTER = ("Pods", "Object")
_TWICE = "scaledobject.keda.sh/transfer-hpa-ownership"
_FIELDS: tuple[tuple[str, str, str, str], ...] = (
    ("metrics", "targetAverageUtilization", "target.averageUtilization", "autoscaling/v2"),
    ("metrics", "targetAverageValue", "target.averageValue", "autoscaling/v2"),
    ("metrics", "targetValue", "target.value", "autoscaling/v2"),
    ("metrics", "metricName", "metric.name", "autoscaling/v2"),
)


def _place(each: Object) -> str:
    return f"{each.kind} {each.namespace}/{each.name}"


def _zero(cluster: Cluster) -> Iterator[Problem]:
    if cluster.version is not None and minor(cluster.version) >= _ZERO_FROM:
        return
    for each in cluster.of_kind(HPA):
        if known_number(each.spec.get("minReplicas")) == 0:
            yield Problem(each.origin, f"{_place(each)}: minReplicas must be at least 1", unknown=not cluster.version)


def _reference(each: Object) -> tuple[str, str, str]:
    reference = mapping(each.spec.get("scaleTargetRef"))
    return each.namespace, known_text(reference.get("kind")) or "Deployment", known_text(reference.get("name")) or ""


def _two(cluster: Cluster) -> Iterator[Problem]:
    for one, other in combinations(cluster.of_kind(HPA, SCALED_OBJECT), 2):
        namespace, kind, name = _reference(one)
        adopted = any(is_true(each.annotations.get(_TWICE)) for each in (one, other))
        if name and _reference(other) == (namespace, kind, name) and not adopted and not _same(one, other):
            message = f"{kind} {namespace}/{name}: {one.kind} {one.name} and {other.kind} {other.name} both scale it"
            yield Problem(other.origin, message)


def _same(one: Object, other: Object) -> bool:
    return (one.kind, one.name) == (other.kind, other.name)


def _removed(cluster: Cluster) -> Iterator[Problem]:
    for each in cluster.of_kind(HPA):
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
    version = each.content.get("apiVersion")
    if each.kind == HPA and version == "autoscaling/v2":
        for metric in mappings(each.spec.get("metrics")):
            parts = [metric, *(part for part in metric.values() if isinstance(part, dict))]
            yield from ((old, f"write {new}") for part in parts for _, old, new, _ in _FIELDS if old in part)
            if "metric" in metric:
                yield "metrics[].metric", "put it into pods, object or external"
    if each.kind == VPA and each.group == "autoscaling.k8s.io":
        for policy in mappings(dig(dict(each.spec), "resourcePolicy", "containerPolicies")):
            names = {"minResources": "minAllowed", "maxResources": "maxAllowed"}
            yield from ((old, f"write {new}") for old, new in names.items() if old in policy)
    if each.kind == "Prometheus" and each.group == "monitoring.coreos.com" and "metrics" in each.spec:
        yield "spec.metrics", "scrape with a ServiceMonitor and record with a PrometheusRule"
    if each.kind == "ClusterQueue" and version == "kueue.x-k8s.io/v1beta2":
        names = {"cohort": "cohortName", "admissionChecks": "admissionChecksStrategy"}
        yield from ((f"spec.{old}", f"write {new}") for old, new in names.items() if old in each.spec)


def _unserved(cluster: Cluster) -> Iterator[Problem]:
    if not sees_software(cluster):
        return
    served = {known_text(dig(each, "name", "as")) for each in adapter_rules(cluster)}
    adapter = cluster.chart("prometheus-adapter")
    patterns = any(
        "matches" in mapping(each.get("name")) or not dig(each, "name", "as") for each in adapter_rules(cluster)
    )
    for each in signals(cluster):
        if each.scaler.kind != HPA or not each.query or _has_api(cluster, each.kind):
            continue
        needs = each.kind in _SERVED_BY_ADAPTER or each.kind == "External"
        named = adapter is not None and (each.query in served or patterns or _default_rules(cluster))
        if needs and not (named and _registers(cluster, each.kind)):
            yield Problem(each.scaler.origin, f"{each.place}: nothing serves metric {each.query} as {each.kind}")


def _has_api(cluster: Cluster, kind: str) -> bool:
    """Whether an adapter that is no chart we know registers the API."""
    name = "external.metrics.k8s.io" if kind == "External" else "custom.metrics.k8s.io"
    return any(dig(dict(each.spec), "group") == name for each in cluster.of_kind("APIService"))


def _default_rules(cluster: Cluster) -> bool:
    adapter = cluster.chart("prometheus-adapter")
    rules = mapping(adapter.values.get("rules")) if adapter else {}
    return rules.get("default") is not False or bool(rules.get("existing"))


def _registers(cluster: Cluster, kind: str) -> bool:
    adapter = cluster.chart("prometheus-adapter")
    rules = mapping(adapter.values.get("rules")) if adapter else {}
    return kind != "External" or bool(rules.get("external"))


def _mode(each: Object) -> str:
    return known_text(dig(dict(each.spec), "updatePolicy", "updateMode")) or "Recreate"


def _controlled(each: Object) -> set[str]:
    policies = mappings(dig(dict(each.spec), "resourcePolicy", "containerPolicies"))
    named = [items(policy.get("controlledResources")) or ["cpu", "memory"] for policy in policies]
    return {str(name) for names in named for name in names} or {"cpu", "memory"}


def _vpa_reference(each: Object) -> tuple[str, str, str]:
    reference = mapping(each.spec.get("targetRef"))
    return each.namespace, known_text(reference.get("kind")) or "", known_text(reference.get("name")) or ""


def _same_metric(cluster: Cluster) -> Iterator[Problem]:
    for vpa in cluster.of_kind(VPA):
        if _mode(vpa) == "Off":
            continue
        for hpa in cluster.of_kind(HPA):
            metrics = mappings(hpa.spec.get("metrics"))
            names = {known_text(dig(each, "resource", "name")) for each in metrics if each.get("type") == "Resource"}
            both = sorted(_controlled(vpa) & {name for name in names if name})
            if both and _vpa_reference(vpa) == _reference(hpa):
                yield Problem(vpa.origin, f"{_place(vpa)} and {_place(hpa)} both act on {' and '.join(both)}")


def _gpu_rightsizing(cluster: Cluster) -> Iterator[Problem]:
    for each in cluster.of_kind(VPA):
        found = set()
        for policy in mappings(dig(dict(each.spec), "resourcePolicy", "containerPolicies")):
            parts = ("minAllowed", "maxAllowed", "minResources", "maxResources")
            names = [
                *items(policy.get("controlledResources")),
                *(name for part in parts for name in mapping(policy.get(part))),
            ]
            found |= {str(name) for name in names if str(name).startswith("nvidia.com/")}
        if found:
            yield Problem(
                each.origin, f"{_place(each)}: names {', '.join(sorted(found))}, VPA knows cpu and memory only"
            )


def _restarts(cluster: Cluster) -> Iterator[Problem]:
    for each in cluster.of_kind(VPA):
        workload, mode = target_of(each, cluster), _mode(each)
        if workload is not None and workload.asks_for_gpu and mode in ("Auto", "Recreate", "InPlaceOrRecreate"):
            yield Problem(
                each.origin, f"{_place(each)}: updateMode {mode} evicts pods of {workload.name}, which has GPUs"
            )


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
    Rule(
        id="GPU237",
        severity="warning",
        title="VPA and HorizontalPodAutoscaler on the same metric",
        why="One raises the request by which the other divides, so the number of pods and their size swing.",
        source=_LIMITS,
        fix="Let VPA recommend only (updateMode Off), or scale by a metric that VPA does not change.",
        causes=("W2.12",),
        check=_same_metric,
    ),
    Rule(
        id="GPU238",
        severity="warning",
        title="VPA that is to change GPUs",
        why="VPA sees only CPU and memory; newer versions refuse other names, older ones ignore them.",
        source=_LIMITS,
        fix="Remove the resource, and deploy again for another number of GPUs.",
        causes=("W2.11", "W2.17"),
        check=_gpu_rightsizing,
    ),
    Rule(
        id="GPU239",
        severity="warning",
        title="VPA that restarts GPU pods",
        why="It evicts the pod to change its CPU or memory; a model loads anew, a training run starts over.",
        source="https://github.com/kubernetes/autoscaler/blob/vertical-pod-autoscaler-1.7.1/vertical-pod-autoscaler/docs/features.md",
        fix="Set updateMode Off or Initial.",
        causes=("W2.13",),
        check=_restarts,
    ),
)
OUT_OF_REACH: tuple[OutOfReach, ...] = ()
