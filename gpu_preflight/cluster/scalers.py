"""What scales pods, and by which measurement.

Sources: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/horizontal-pod-autoscaler-v2/,
https://keda.sh/docs/2.20/reference/scaledobject-spec/ (2026-08)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpu_facts.charts import KEDA_OPERATOR, PROMETHEUS_ADAPTER
from gpu_facts.light import dataclass
from gpu_facts.quantities import quantity
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import Workload
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import dig, known_number, known_text, mapping, mappings

HPA, SCALED_OBJECT, VPA = "HorizontalPodAutoscaler", "ScaledObject", "VerticalPodAutoscaler"
# What KEDA takes for the most pods where nothing is written.
# Source: kedacore/keda v2.20.0 apis/keda/v1alpha1/scaledobject_types.go
_MOST_OF_KEDA = 100

# Kinds whose number of replicas is that of their pods.
_COUNTED = ("Deployment", "ReplicaSet", "ReplicationController", "Rollout", "StatefulSet")
# What begins the annotations that stop KEDA, at some number of pods or at those there are.
_PAUSED = "autoscaling.keda.sh/paused"


@dataclass(frozen=True, slots=True)
class Signal:
    """One measurement that pods are scaled by.

    Attributes:
        scaler: The HorizontalPodAutoscaler or ScaledObject.
        kind: Type of the metric or of the trigger, e.g. ``Pods``, ``prometheus``.
        query: Name of the metric, or KEDA's query; empty where it has none or it is not known.
        meaning: The query and the rules that record what it reads.
        threshold: What is aimed at, in thousandths; ``None`` where it is not known.
        per_pod: Whether the threshold is for each pod.
        null_is_zero: Whether a series that is missing counts as zero.
    """

    scaler: Object
    kind: str
    query: str
    meaning: str
    threshold: int | None
    per_pod: bool
    null_is_zero: bool = False

    @property
    def origin(self) -> Origin:
        """Where the scaler stands."""
        return self.scaler.origin

    @property
    def title(self) -> str:
        """The scaler, as people name it."""
        return f"{self.scaler.kind} {self.scaler.namespace}/{self.scaler.name}"


def signals(cluster: Cluster) -> Iterator[Signal]:
    """Yield what each HorizontalPodAutoscaler and ScaledObject scales by."""
    records = recorded(cluster)
    for each in horizontal_autoscalers(cluster):
        for metric in mappings(each.spec.get("metrics")):
            yield _metric_signal(each, metric, records)
    for each in cluster.objects_of_kind(SCALED_OBJECT):
        for trigger in mappings(each.spec.get("triggers")):
            yield _trigger_signal(each, trigger, records)


def signals_of_gpus(cluster: Cluster) -> Iterator[Signal]:
    """Return the measurements of GPUs by which pods are scaled."""
    return (each for each in signals(cluster) if "DCGM_" in each.meaning)


def horizontal_autoscalers(cluster: Cluster) -> list[Object]:
    """Return every HorizontalPodAutoscaler but those that KEDA makes of its ScaledObjects."""
    return [
        each
        for each in cluster.objects_of_kind(HPA)
        if each.labels.get("app.kubernetes.io/managed-by") != KEDA_OPERATOR
    ]


def least_pods(scaler: Object) -> int | None:
    """Return the fewest pods that an autoscaler keeps once it scales; ``None`` where that is not known.

    A HorizontalPodAutoscaler has at least 1 where nothing is written, and so has the one that KEDA makes.
    """
    written = scaler.spec.get("minReplicaCount" if scaler.kind == SCALED_OBJECT else "minReplicas")
    least = 1 if written is None else known_number(written)
    return max(least, 1) if least is not None and scaler.kind == SCALED_OBJECT else least


def most_pods(scaler: Object) -> int | None:
    """Return the most pods that an autoscaler makes; ``None`` where that is not known."""
    written = scaler.spec.get("maxReplicaCount" if scaler.kind == SCALED_OBJECT else "maxReplicas")
    return _MOST_OF_KEDA if written is None and scaler.kind == SCALED_OBJECT else known_number(written)


def _metric_signal(scaler: Object, metric: dict[str, object], records: dict[str, str]) -> Signal:
    kind = known_text(metric.get("type")) or ""
    source = mapping(metric.get(kind[:1].lower() + kind[1:]))
    name = known_text(dig(source, "metric", "name")) or known_text(source.get("name")) or ""
    target = mapping(source.get("target"))
    average, value = target.get("averageValue"), target.get("value")
    aimed = quantity("cpu", value if average is None else average)
    return Signal(scaler, kind, name, _meaning(name, records), aimed, average is not None)


def _trigger_signal(scaler: Object, trigger: dict[str, object], records: dict[str, str]) -> Signal:
    kind, metadata = known_text(trigger.get("type")) or "", mapping(trigger.get("metadata"))
    query = known_text(metadata.get("query")) or ""
    per_pod = trigger.get("metricType") in (None, "AverageValue")
    zero = str(metadata.get("ignoreNullValues", "true")).lower() == "true"
    aimed = quantity("cpu", metadata.get("threshold"))
    return Signal(scaler, kind, query, _meaning(query, records), aimed, per_pod, zero)


def _meaning(query: str, records: dict[str, str]) -> str:
    return " ".join([query, *(expression for name, expression in records.items() if name in query)])


def recorded(cluster: Cluster) -> dict[str, str]:
    """Return the expression behind each name that a recording rule or prometheus-adapter gives."""
    found = {}
    for rule in cluster.objects_of_kind("PrometheusRule"):
        for group in mappings(rule.spec.get("groups")):
            for each in mappings(group.get("rules")):
                name, expression = known_text(each.get("record")), known_text(each.get("expr"))
                if name and expression:
                    found[name] = expression
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


def scale_target(scaler: Object, cluster: Cluster) -> Workload | None:
    """Return the pods that a scaler changes, when they are in the input."""
    target = _target(scaler)
    return next((each for each in cluster.workloads if _key(each.owner) == target), None)


def _target(scaler: Object) -> tuple[str, object, str]:
    reference = mapping(scaler.spec.get("targetRef" if scaler.kind == VPA else "scaleTargetRef"))
    return known_text(reference.get("kind")) or "Deployment", reference.get("name"), scaler.namespace


def _key(owner: Object) -> tuple[str, object, str]:
    return owner.kind, owner.name, owner.namespace


def scaled(workloads: Iterable[Workload], objects: Iterable[Object]) -> tuple[Workload, ...]:
    """Return workloads with as many pods as an autoscaler leaves them at once, whatever it measures."""
    listed = [each for each in objects if each.kind in (HPA, SCALED_OBJECT)]
    scalers = {_target(each): each for each in listed if isinstance(_target(each)[1], str)}
    return tuple(
        replace(each, replicas=_bounded(each.replicas, scaler))
        if (scaler := scalers.get(_key(each.owner))) is not None and each.owner.kind in _COUNTED
        else each
        for each in workloads
    )


def _bounded(replicas: int | None, scaler: Object) -> int | None:
    """Return how many pods an autoscaler leaves of some; ``None`` where its bounds do not tell.

    A HorizontalPodAutoscaler leaves what has no pods alone, and KEDA what it may keep at none.
    Source: kubernetes/kubernetes v1.36.1 pkg/controller/podautoscaler/horizontal.go
    """
    if any(name.startswith(_PAUSED) for name in scaler.annotations):
        return None
    kept = scaler.kind == SCALED_OBJECT and scaler.spec.get("minReplicaCount") not in (None, 0)
    if replicas is None or (replicas == 0 and not kept):
        return replicas
    least, most = least_pods(scaler), most_pods(scaler)
    if least is None or (most is None and replicas > least):
        return None
    return max(replicas, least) if most is None else max(least, min(replicas, most))
