"""Vertical Pod Autoscalers beside GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.resources import NVIDIA
from gpu_preflight.case import Case
from gpu_preflight.cluster.scalers import HPA, VPA, target_of
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, items, known_text, mapping, mappings
from gpu_preflight.rules.rule import Problem, rule

_DOCS = "https://github.com/kubernetes/autoscaler/blob/vertical-pod-autoscaler-1.7.1/vertical-pod-autoscaler/docs"


def _named(each: Object) -> str:
    return f"{each.kind} {each.namespace}/{each.name}"


def _mode(each: Object) -> str:
    return known_text(dig(each.spec, "updatePolicy", "updateMode")) or "Recreate"


def _controlled(each: Object) -> set[str]:
    policies = mappings(dig(each.spec, "resourcePolicy", "containerPolicies"))
    named = [items(policy.get("controlledResources")) or ["cpu", "memory"] for policy in policies]
    return {str(name) for names in named for name in names} or {"cpu", "memory"}


def _target(each: Object) -> tuple[str, str, str]:
    reference = mapping(each.spec.get("targetRef" if each.kind == VPA else "scaleTargetRef"))
    return each.namespace, known_text(reference.get("kind")) or "Deployment", known_text(reference.get("name")) or ""


@rule("GPU237", "warning", source=f"{_DOCS}/known-limitations.md")
def vpa_and_horizontal_pod_autoscaler_on_the_same_metric(case: Case) -> Iterator[Problem]:
    """VPA and HorizontalPodAutoscaler on the same metric.

    One raises the request by which the other divides, so the number of pods and their size swing.

    Fix: Let VPA recommend only (updateMode Off), or scale by a metric that VPA does not change.
    """
    cluster = case.cluster
    for vpa in cluster.of_kind(VPA):
        if _mode(vpa) == "Off":
            continue
        for hpa in cluster.of_kind(HPA):
            metrics = mappings(hpa.spec.get("metrics"))
            names = {known_text(dig(each, "resource", "name")) for each in metrics if each.get("type") == "Resource"}
            both = sorted(_controlled(vpa) & {name for name in names if name})
            if both and _target(vpa) == _target(hpa):
                yield Problem(vpa, f"{_named(vpa)} and {_named(hpa)} both act on {' and '.join(both)}")


@rule("GPU238", "warning", source=f"{_DOCS}/known-limitations.md")
def vpa_that_is_to_change_gpus(case: Case) -> Iterator[Problem]:
    """VPA that is to change GPUs.

    VPA sees only CPU and memory; newer versions refuse other names, older ones ignore them.

    Fix: Remove the resource, and deploy again for another number of GPUs.
    """
    for each in case.cluster.of_kind(VPA):
        found = set()
        for policy in mappings(dig(each.spec, "resourcePolicy", "containerPolicies")):
            parts = ("minAllowed", "maxAllowed", "minResources", "maxResources")
            names = [
                *items(policy.get("controlledResources")),
                *(name for part in parts for name in mapping(policy.get(part))),
            ]
            found |= {str(name) for name in names if str(name).startswith(NVIDIA)}
        if found:
            yield Problem(each, f"{_named(each)}: names {', '.join(sorted(found))}, VPA knows cpu and memory only")


@rule("GPU239", "warning", source=f"{_DOCS}/features.md")
def vpa_that_restarts_gpu_pods(case: Case) -> Iterator[Problem]:
    """VPA that restarts GPU pods.

    It evicts the pod to change its CPU or memory; a model loads anew, a training run starts over.

    Fix: Set updateMode Off or Initial.
    """
    cluster = case.cluster
    for each in cluster.of_kind(VPA):
        workload, mode = target_of(each, cluster), _mode(each)
        if workload is not None and workload.asks_for_gpu and mode in ("Auto", "Recreate", "InPlaceOrRecreate"):
            yield Problem(each, f"{_named(each)}: updateMode {mode} evicts pods of {workload.name}, which has GPUs")
