"""A fresh node and the requirements of a pod on it, without a cluster around them."""

from __future__ import annotations

from typing import Any

from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.resources import GPU
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.scheduling.demand import Demand, demand
from tests.preflight.readers import workload


def wanted(*, spec: Any = None, topology: Any = None, replicas: Any = 1, **limits: Any) -> Demand:
    """The requests of pods of one container."""
    container = {"name": "main", "resources": {"limits": limits}}
    template = {"spec": {"containers": [container], **(spec or {})}}
    pods = workload("Deployment", {"replicas": replicas, "template": template})
    return demand(pods, Cluster("demo")) if topology is None else Demand(pods, topology)


def node(kind: str | None = "g6.xlarge", **changes: Any) -> NodeToBe:
    """A node that has, and is expected to have, room for pods and one GPU."""
    has = changes.pop("has", {"pods": 58, "cpu": 3920, GPU: 1})
    given = {"row": catalogue().get(kind or ""), "labels": {}, "taints": (), "least": has, "most": has, "believed": has}
    return NodeToBe(**{"instance_type": kind, **given, **changes})
