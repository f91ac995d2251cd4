"""Where DaemonSets run: tolerations and node selector terms that several share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gpu_facts import labels
from gpu_facts.software.model import NodeSelectorTerm, Toleration

LINUX: Final = {labels.OS: "linux"}

EVERYTHING: Final[Toleration] = {"operator": "Exists"}
GPU: Final[Toleration] = {"key": labels.GPU_TAINT, "operator": "Exists", "effect": "NoSchedule"}
CRITICAL_ADDONS: Final[Toleration] = {"key": "CriticalAddonsOnly", "operator": "Exists"}
FOR_FIVE_MINUTES: Final[Toleration] = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": "300"}


def expression(key: str, operator: str, values: Iterable[str]) -> dict[str, object]:
    """Return one requirement of a node selector term."""
    return {"key": key, "operator": operator, "values": sorted(values)}


def term(*expressions: dict[str, object]) -> NodeSelectorTerm:
    """Return a term that holds where all requirements do."""
    return {"matchExpressions": list(expressions)}


def not_on(*compute_types: str) -> dict[str, object]:
    """Return the requirement that a node is none of some compute types of EKS."""
    return expression(labels.COMPUTE_TYPE, "NotIn", compute_types)


def any_label(*pairs: str) -> tuple[NodeSelectorTerm, ...]:
    """Return terms of which one holds where a node has one of some ``key=value`` labels."""
    split = (each.split("=") for each in pairs)
    return tuple(term(expression(key, "In", [value])) for key, value in split)


def tolerates(key: str, **more: str) -> Toleration:
    """Return the toleration of a key, whatever its value."""
    return {"key": key, "operator": "Exists", **more}
