"""Targets of HorizontalPodAutoscalers that the API server refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_preflight.case import Case
from gpu_preflight.cluster.scalers import horizontal_autoscalers
from gpu_preflight.reading.unknown import known_text, mapping, mappings
from gpu_preflight.rules.rule import Problem, rule

# Which of the fields of a target each kind of metric needs one of.
# Source: kubernetes/kubernetes v1.36.3 pkg/apis/autoscaling/validation/validation.go ``validatePodsSource`` and others
_NEEDED = {
    "Pods": ("pods", ("averageValue",)),
    "Object": ("object", ("value", "averageValue")),
    "External": ("external", ("value", "averageValue")),
    "Resource": ("resource", ("averageUtilization", "averageValue")),
    "ContainerResource": ("containerResource", ("averageUtilization", "averageValue")),
}


@rule("GPU462", "error", source="https://kubernetes.io/docs/reference/kubernetes-api/autoscaling/", stops=False)
def metric_without_a_target_of_its_kind(case: Case) -> Iterator[Problem]:
    """Metric without a target of its kind.

    The API server refuses the HorizontalPodAutoscaler, so the number of pods stays as it is.

    Fix: Give a metric of pods averageValue, one of CPU or memory averageUtilization or averageValue, others value.
    """
    for each in horizontal_autoscalers(case.cluster):
        if known_text(each.content.get("apiVersion")) == "autoscaling/v2":
            for metric in mappings(each.spec.get("metrics")):
                if text := _missing(metric):
                    yield Problem(each, f"{each.origin.path}: {text}")


def _missing(metric: Mapping[str, Any]) -> str | None:
    kind = known_text(metric.get("type")) or ""
    if kind not in _NEEDED:
        return None
    field, needed = _NEEDED[kind]
    source = metric.get(field)
    target = mapping(source).get("target")
    if not isinstance(target, dict) or any(name in target for name in needed):
        return None
    given = ", ".join(each for each in target if each != "type") or "nothing"
    return f"target of a metric of type {kind} must give {' or '.join(needed)}, got {given}"
