"""Vertical Pod Autoscalers beside GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_constructs.preflight.model import Cluster, Object
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.scalers import HPA, VPA, target_of
from gpu_constructs.preflight.unknown import dig, items, known_text, mapping, mappings

_DOCS = "https://github.com/kubernetes/autoscaler/blob/vertical-pod-autoscaler-1.7.1/vertical-pod-autoscaler/docs"


def _named(each: Object) -> str:
    return f"{each.kind} {each.namespace}/{each.name}"


def _mode(each: Object) -> str:
    return known_text(dig(dict(each.spec), "updatePolicy", "updateMode")) or "Recreate"


def _controlled(each: Object) -> set[str]:
    policies = mappings(dig(dict(each.spec), "resourcePolicy", "containerPolicies"))
    named = [items(policy.get("controlledResources")) or ["cpu", "memory"] for policy in policies]
    return {str(name) for names in named for name in names} or {"cpu", "memory"}


def _target(each: Object) -> tuple[str, str, str]:
    reference = mapping(each.spec.get("targetRef" if each.kind == VPA else "scaleTargetRef"))
    return each.namespace, known_text(reference.get("kind")) or "Deployment", known_text(reference.get("name")) or ""


def _same_metric(cluster: Cluster) -> Iterator[Problem]:
    for vpa in cluster.of_kind(VPA):
        if _mode(vpa) == "Off":
            continue
        for hpa in cluster.of_kind(HPA):
            metrics = mappings(hpa.spec.get("metrics"))
            names = {known_text(dig(each, "resource", "name")) for each in metrics if each.get("type") == "Resource"}
            both = sorted(_controlled(vpa) & {name for name in names if name})
            if both and _target(vpa) == _target(hpa):
                yield Problem(vpa.origin, f"{_named(vpa)} and {_named(hpa)} both act on {' and '.join(both)}")


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
                each.origin, f"{_named(each)}: names {', '.join(sorted(found))}, VPA knows cpu and memory only"
            )


def _restarts(cluster: Cluster) -> Iterator[Problem]:
    for each in cluster.of_kind(VPA):
        workload, mode = target_of(each, cluster), _mode(each)
        if workload is not None and workload.asks_for_gpu and mode in ("Auto", "Recreate", "InPlaceOrRecreate"):
            yield Problem(
                each.origin, f"{_named(each)}: updateMode {mode} evicts pods of {workload.name}, which has GPUs"
            )


RULES = (
    Rule(
        id="GPU237",
        severity="warning",
        title="VPA and HorizontalPodAutoscaler on the same metric",
        why="One raises the request by which the other divides, so the number of pods and their size swing.",
        source=f"{_DOCS}/known-limitations.md",
        fix="Let VPA recommend only (updateMode Off), or scale by a metric that VPA does not change.",
        causes=("W2.12",),
        check=_same_metric,
    ),
    Rule(
        id="GPU238",
        severity="warning",
        title="VPA that is to change GPUs",
        why="VPA sees only CPU and memory; newer versions refuse other names, older ones ignore them.",
        source=f"{_DOCS}/known-limitations.md",
        fix="Remove the resource, and deploy again for another number of GPUs.",
        causes=("W2.11", "W2.17"),
        check=_gpu_rightsizing,
    ),
    Rule(
        id="GPU239",
        severity="warning",
        title="VPA that restarts GPU pods",
        why="It evicts the pod to change its CPU or memory; a model loads anew, a training run starts over.",
        source=f"{_DOCS}/features.md",
        fix="Set updateMode Off or Initial.",
        causes=("W2.13",),
        check=_restarts,
    ),
)
