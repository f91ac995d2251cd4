"""How Karpenter of a cluster is set: by the settings of its chart, or by the environment of its Deployment.

Source: aws/karpenter-provider-aws v1.14.1 charts/karpenter/templates/deployment.yaml; sigs.k8s.io/karpenter v1.14.1
pkg/operator/options/options.go
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from gpu_facts.charts import KARPENTER
from gpu_preflight.model.answer import Answer, yes_if
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.unknown import Unknown, dig, is_true, known_text, mappings

_GATES = "featureGates"
# What is set where nothing of Karpenter is seen, or more than one.
_ELSEWHERE = Unknown("${settings of Karpenter}")


def option(cluster: Cluster, name: str) -> Any:
    """Return a setting by its name in the chart; ``None`` where its default counts, `Unknown` where it is not known."""
    chart = cluster.chart(KARPENTER)
    if chart is not None:
        settings = chart.values.get("settings", {})
        told = _environment(mappings(dig(chart.values, "controller", "env")), _variable(name))
        return told if told is not None else settings if isinstance(settings, Unknown) else dig(settings, name)
    deployed = [each for each in cluster.autoscalers if each.kind == "karpenter"]
    return deployed[0].flags.get(_variable(name)) if len(deployed) == 1 else _ELSEWHERE


def feature_gate(cluster: Cluster, name: str, *, default: bool) -> Answer:
    """Say whether a feature gate is on, by its name in the chart."""
    gates = option(cluster, _GATES)
    if isinstance(gates, Unknown):
        return Answer.UNKNOWN
    value = _listed(gates, name) if isinstance(gates, str) else dig(gates, name)
    if isinstance(value, Unknown):
        return Answer.UNKNOWN
    return yes_if(default if value is None else is_true(value))


def _listed(gates: str, name: str) -> str | None:
    """Return the value of a gate in a text such as ``NodeRepair=true,StaticCapacity=false``."""
    named = dict(each.strip().partition("=")[::2] for each in gates.split(","))
    return named.get(f"{name[0].upper()}{name[1:]}")


def _variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def _environment(variables: Iterable[dict[str, Any]], name: str) -> Any:
    found = [each.get("value", _ELSEWHERE) for each in variables if known_text(each.get("name")) == name]
    return found[-1] if found else None
