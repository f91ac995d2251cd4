"""Autoscalers of pods, and the metrics that they use.

Sources: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/horizontal-pod-autoscaler-v2/,
https://keda.sh/docs/2.20/reference/scaledobject-spec/ (2026-08)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from gpu_facts.charts import KEDA_OPERATOR, PROMETHEUS_ADAPTER
from gpu_facts.light import dataclass
from gpu_facts.quantities import quantity
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import Workload
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import dig, known_number, known_text, mapping, mappings

HPA, SCALED_OBJECT, SCALED_JOB = "HorizontalPodAutoscaler", "ScaledObject", "ScaledJob"
VPA = "VerticalPodAutoscaler"
# KEDA's default maximum number of pods.
# Source: kedacore/keda v2.20.0 apis/keda/v1alpha1/scaledobject_types.go
_MOST_OF_KEDA = 100

# Kinds whose number of replicas is their number of pods.
_COUNTED = ("Deployment", "ReplicaSet", "ReplicationController", "Rollout", "StatefulSet")
# Prefix of the annotations that pause KEDA, at a given or at the current number of pods.
_PAUSED = "autoscaling.keda.sh/paused"
_OF_RESOURCES = ("Resource", "ContainerResource")


class Target(NamedTuple):
    """The object that a reference names. The name is ``None`` if it isn't set or isn't known."""

    kind: str
    name: str | None
    namespace: str


@dataclass(frozen=True, slots=True)
class Signal:
    """A metric by which pods are scaled: a metric of a HorizontalPodAutoscaler, or a trigger of KEDA.

    Attributes:
        kind: Type of the metric or of the trigger, e.g. ``Pods``, ``prometheus``.
        query: Name of the metric, or KEDA's query; empty if it has none or if it isn't known.
        meaning: The query, and the recording rules that it reads.
        threshold: The target value, in thousandths; ``None`` if it isn't known.
        per_pod: Whether the threshold is for each pod.
        null_is_zero: Whether a missing series counts as zero.
        resource: Name of the resource that a metric measures; ``None`` for other types, or if it isn't known.
        container: Name of the container that a metric measures.
        target: Target of a metric; ``None`` if it isn't a mapping.
        metadata: Metadata of a trigger, as they are written.
        authentication: Authentication of a trigger; ``None`` if it isn't set.
    """

    kind: str
    query: str
    meaning: str
    threshold: int | None
    per_pod: bool
    null_is_zero: bool = False
    resource: str | None = None
    container: str | None = None
    target: Mapping[str, Any] | None = None
    metadata: Any = None
    authentication: Target | None = None


@dataclass(frozen=True, slots=True)
class Scaler:
    """A HorizontalPodAutoscaler, VerticalPodAutoscaler, ScaledObject or ScaledJob.

    Attributes:
        object: The object.
        target: The object that it scales.
        min_replicas: Min number of pods after it scales. ``None`` if it isn't known, and for a ScaledJob or
            VerticalPodAutoscaler. The default of a HorizontalPodAutoscaler is 1, also if KEDA creates it.
        max_replicas: Max number of pods; ``None`` if it isn't known.
        signals: The metrics by which it scales.
    """

    object: Object
    target: Target
    min_replicas: int | None
    max_replicas: int | None
    signals: tuple[Signal, ...] = ()

    @property
    def kind(self) -> str:
        """Its kind."""
        return self.object.kind

    @property
    def origin(self) -> Origin:
        """Its place in the input."""
        return self.object.origin

    @property
    def title(self) -> str:
        """Its kind, namespace and name."""
        return self.object.title

    @property
    def is_made_by_keda(self) -> bool:
        """Whether KEDA creates it for a ScaledObject."""
        return self.object.labels.get("app.kubernetes.io/managed-by") == KEDA_OPERATOR


def read_scaler(written: Object, records: Mapping[str, str] = MappingProxyType({})) -> Scaler:
    """Return the scaler that an object describes.

    Args:
        written: The object.
        records: The expression behind each name that a query may read.
    """
    spec, keda = written.spec, written.kind == SCALED_OBJECT
    least, most = (spec.get(f"{bound}Replica{'Count' if keda else 's'}") for bound in ("min", "max"))
    fewest = None if written.kind in (SCALED_JOB, VPA) else 1 if least is None else known_number(least)
    return Scaler(
        written,
        _reference(spec.get("targetRef" if written.kind == VPA else "scaleTargetRef"), "Deployment", written.namespace),
        max(fewest, 1) if fewest is not None and keda else fewest,
        _MOST_OF_KEDA if most is None and keda else known_number(most),
        tuple(
            _metric_signal(each, records) if written.kind == HPA else _trigger_signal(each, written, records)
            for each in mappings(spec.get("metrics" if written.kind == HPA else "triggers"))
        ),
    )


def read_scalers(cluster: Cluster) -> tuple[Scaler, ...]:
    """Return every scaler of a cluster, by kind."""
    records = _expressions(cluster)
    return tuple(read_scaler(each, records) for each in cluster.objects_of_kind(HPA, SCALED_OBJECT, SCALED_JOB, VPA))


def _reference(written: Any, kind: str, namespace: str) -> Target:
    reference = mapping(written)
    return Target(known_text(reference.get("kind")) or kind, known_text(reference.get("name")), namespace)


def _metric_signal(metric: Mapping[str, Any], records: Mapping[str, str]) -> Signal:
    kind = known_text(metric.get("type")) or ""
    source = mapping(metric.get(kind[:1].lower() + kind[1:]))
    own = known_text(source.get("name"))
    name = known_text(dig(source, "metric", "name")) or own or ""
    target = source.get("target")
    average, value = (mapping(target).get(key) for key in ("averageValue", "value"))
    return Signal(
        kind,
        name,
        _meaning(name, records),
        quantity("cpu", value if average is None else average),
        average is not None,
        resource=own if kind in _OF_RESOURCES else None,
        container=known_text(source.get("container")),
        target=target if isinstance(target, dict) else None,
    )


def _trigger_signal(trigger: Mapping[str, Any], scaler: Object, records: Mapping[str, str]) -> Signal:
    metadata, reference = mapping(trigger.get("metadata")), trigger.get("authenticationRef")
    query = known_text(metadata.get("query")) or ""
    return Signal(
        known_text(trigger.get("type")) or "",
        query,
        _meaning(query, records),
        quantity("cpu", metadata.get("threshold")),
        trigger.get("metricType") in (None, "AverageValue"),
        str(metadata.get("ignoreNullValues", "true")).lower() == "true",
        metadata=trigger.get("metadata"),
        authentication=_reference(reference, "TriggerAuthentication", scaler.namespace) if reference else None,
    )


def _meaning(query: str, records: Mapping[str, str]) -> str:
    return " ".join([query, *(expression for name, expression in records.items() if name in query)])


def recorded(cluster: Cluster) -> Iterator[tuple[Object, str, str]]:
    """Yield each recording rule with its PrometheusRule, its name and its expression, as far as they are known."""
    for each in cluster.objects_of_kind("PrometheusRule"):
        for group in mappings(each.spec.get("groups")):
            for rule in mappings(group.get("rules")):
                yield each, known_text(rule.get("record")) or "", known_text(rule.get("expr")) or ""


def _expressions(cluster: Cluster) -> dict[str, str]:
    """Return the expression behind each name that a recording rule or prometheus-adapter defines."""
    found = {name: expression for _, name, expression in recorded(cluster) if name and expression}
    for each in adapter_rules(cluster):
        name = known_text(dig(each, "name", "as"))
        if name:
            series = (known_text(each.get("seriesQuery")), known_text(each.get("metricsQuery")))
            found.setdefault(name, " ".join(text for text in series if text))
    return found


def adapter_rules(cluster: Cluster) -> list[dict[str, object]]:
    """Return the rules of prometheus-adapter's chart."""
    chart = cluster.chart(PROMETHEUS_ADAPTER)
    rules = mapping(chart.values.get("rules")) if chart else {}
    return [each for part in ("custom", "external") for each in mappings(rules.get(part))]


def scale_target(scaler: Scaler, cluster: Cluster) -> Workload | None:
    """Return the pods that a scaler changes, if they are in the input."""
    return next((each for each in cluster.workloads if _key(each.owner) == scaler.target), None)


def _key(owner: Object) -> tuple[str, str, str]:
    return owner.kind, owner.name, owner.namespace


def scaled(workloads: Iterable[Workload], objects: Iterable[Object]) -> tuple[Workload, ...]:
    """Return workloads with the number of pods that their autoscaler immediately enforces, for any metric value."""
    listed = (read_scaler(each) for each in objects if each.kind in (HPA, SCALED_OBJECT))
    scalers: dict[tuple[str, str | None, str], Scaler] = {each.target: each for each in listed}
    return tuple(
        replace(each, replicas=_bounded(each.replicas, scaler))
        if (scaler := scalers.get(_key(each.owner))) is not None and each.owner.kind in _COUNTED
        else each
        for each in workloads
    )


def _bounded(replicas: int | None, scaler: Scaler) -> int | None:
    """Return a number of pods within the bounds of an autoscaler; ``None`` if the bounds don't decide it.

    A HorizontalPodAutoscaler doesn't scale a target with 0 pods. KEDA doesn't scale a target that it may keep at 0.
    Source: kubernetes/kubernetes v1.36.1 pkg/controller/podautoscaler/horizontal.go
    """
    if any(name.startswith(_PAUSED) for name in scaler.object.annotations):
        return None
    kept = scaler.kind == SCALED_OBJECT and scaler.object.spec.get("minReplicaCount") not in (None, 0)
    if replicas is None or (replicas == 0 and not kept):
        return replicas
    least, most = scaler.min_replicas, scaler.max_replicas
    if least is None or (most is None and replicas > least):
        return None
    return max(replicas, least) if most is None else max(least, min(replicas, most))
