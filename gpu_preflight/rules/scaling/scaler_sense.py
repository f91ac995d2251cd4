"""Scalers of pods that have nothing to scale, nothing to go by, or no room between their bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_facts.charts import KEDA_OPERATOR
from gpu_preflight.case import Case
from gpu_preflight.cluster.scalers import (
    SCALED_OBJECT,
    horizontal_autoscalers,
    least_pods,
    most_pods,
    target_of,
)
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, known_number, known_text, mapping, mappings
from gpu_preflight.rules.rule import Problem, rule

_HPA_DOCS = "https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/"
_KEDA_DOCS = "https://keda.sh/docs/2.20/reference/scaledobject-spec/"
# What metrics.k8s.io serves.
# Source: kubernetes/metrics v0.36.1 pkg/apis/metrics/v1beta1/types.go
_MEASURED = ("cpu", "memory")
_SOURCES = {"Resource": "resource", "ContainerResource": "containerResource"}
_WITH_SCALE = {"Deployment": "apps", "StatefulSet": "apps", "ReplicaSet": "apps"}


def _title(each: Object) -> str:
    return f"{each.kind} {each.namespace}/{each.name}"


def _of_resources(cluster: Cluster) -> Iterator[tuple[Object, str, dict[str, Any]]]:
    """Yield each metric of a resource: its HorizontalPodAutoscaler, its type and what is written of it."""
    for each in horizontal_autoscalers(cluster):
        for metric in mappings(each.spec.get("metrics")):
            kind = known_text(metric.get("type")) or ""
            if kind in _SOURCES:
                yield each, kind, mapping(metric.get(_SOURCES[kind]))


@rule("GPU360", "error", source=_HPA_DOCS, stops=False)
def horizontal_pod_autoscaler_by_a_resource_that_is_not_measured(case: Case) -> Iterator[Problem]:
    """HorizontalPodAutoscaler by a resource that is not measured.

    The resource metrics API has CPU and memory only; the autoscaler reports FailedGetResourceMetric and never scales.

    Fix: Scale by requests that wait, or by DCGM's metrics through prometheus-adapter or KEDA.
    """
    for each, kind, metric in _of_resources(case.cluster):
        name = known_text(metric.get("name"))
        if name is not None and name not in _MEASURED:
            yield Problem(each, f"{_title(each)}: metric {name} of type {kind} is measured by nobody")


@rule("GPU361", "error", source=_HPA_DOCS, stops=False)
def horizontal_pod_autoscaler_by_a_share_of_no_request(case: Case) -> Iterator[Problem]:
    """HorizontalPodAutoscaler by a share of no request.

    Utilization is a share of what each container requests; without a request there is no share, and it never scales.

    Fix: Request the resource in every container, or aim at an averageValue.
    """
    cluster = case.cluster
    for each, kind, metric in _of_resources(cluster):
        name, workload = known_text(metric.get("name")), target_of(each, cluster)
        share = dig(metric, "target", "averageUtilization") is not None
        if name is None or workload is None or not share:
            continue
        named = known_text(metric.get("container"))
        bare = [
            one.name
            for one in workload.pod.containers or ()
            if (kind == "Resource" or one.name == named) and not one.is_open and name not in one.requests
        ]
        filled = [one for one in cluster.of_kind("LimitRange") if one.namespace == each.namespace]
        whole = name in mapping(workload.pod.asked) or name in mapping(workload.pod.limits)
        if bare and not whole:
            names = ", ".join(map(str, bare))
            text = f"{_title(each)}: goes by a share of {name}, which container {names} does not request"
            yield Problem(each, text, unknown=bool(filled))


@rule("GPU362", "error", source=_KEDA_DOCS, stops=False)
def scaler_that_refers_to_something_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """Scaler that refers to something that does not exist.

    It finds nothing to scale, or may not read what it goes by, and does nothing.

    Fix: Create what is named in the scaler's namespace, or correct the name.
    """
    cluster = case.cluster
    if not cluster.whole:
        return
    for each in [*horizontal_autoscalers(cluster), *cluster.of_kind(SCALED_OBJECT)]:
        # Who deploys nothing else into the namespace may deploy the target by other means.
        alone = not any(one.namespace == each.namespace for one in cluster.workloads)
        for text in _missing_target(each, cluster):
            yield Problem(each, f"{_title(each)}: {text}", unknown=alone or not cluster.sees_objects)
        for text in _missing_authentication(each, cluster):
            yield Problem(each, f"{_title(each)}: {text}", unknown=not cluster.sees_objects)


def _missing_target(scaler: Object, cluster: Cluster) -> Iterator[str]:
    reference = mapping(scaler.spec.get("scaleTargetRef"))
    kind, name = known_text(reference.get("kind")) or "Deployment", known_text(reference.get("name"))
    ours = scaler.labels.get("app.kubernetes.io/managed-by") == KEDA_OPERATOR
    if name is None or kind not in _WITH_SCALE or ours:
        return
    there = {(each.namespace, each.name) for each in cluster.of_kind(kind)}
    if (scaler.namespace, name) not in there:
        elsewhere = next((space for space, other in there if other == name), None)
        hint = f"; namespace {elsewhere} has one" if elsewhere else ""
        yield f"{kind} {scaler.namespace}/{name} does not exist{hint}"


def _missing_authentication(scaler: Object, cluster: Cluster) -> Iterator[str]:
    for trigger in mappings(scaler.spec.get("triggers")):
        reference = mapping(trigger.get("authenticationRef"))
        kind, name = known_text(reference.get("kind")) or "TriggerAuthentication", known_text(reference.get("name"))
        if name is None:
            continue
        everywhere = kind == "ClusterTriggerAuthentication"
        found = [each for each in cluster.of_kind(kind) if each.name == name]
        if not any(everywhere or each.namespace == scaler.namespace for each in found):
            place = name if everywhere else f"{scaler.namespace}/{name}"
            yield f"{kind} {place} does not exist"


@rule("GPU363", "error", source="kedacore/keda v2.20.0 apis/keda/v1alpha1/scaledobject_webhook.go", stops=False)
def scaler_whose_bounds_contradict_each_other(case: Case) -> Iterator[Problem]:
    """Scaler whose bounds contradict each other.

    The API server, or KEDA's webhook, refuses it.

    Fix: Keep the least number of pods at or below the most, and KEDA's idle number below the least.
    """
    cluster = case.cluster
    for each in (*horizontal_autoscalers(cluster), *cluster.of_kind(SCALED_OBJECT)):
        least, most = _least_compared(each), most_pods(each)
        if least is not None and most is not None and least > most:
            yield Problem(each, f"{_title(each)}: at least {least} pods and at most {most}")
        idle = known_number(each.spec.get("idleReplicaCount"))
        if idle is not None and least is not None and idle >= least:
            pods = f"{idle} {'pod' if idle == 1 else 'pods'}"
            yield Problem(each, f"{_title(each)}: {pods} while idle must be fewer than the least, {least}")


def _least_compared(scaler: Object) -> int | None:
    """Return the least number of pods as it is compared: KEDA takes 0 where none is written, and 1 for a written 0."""
    absent = scaler.kind == SCALED_OBJECT and scaler.spec.get("minReplicaCount") is None
    return 0 if absent else least_pods(scaler)
