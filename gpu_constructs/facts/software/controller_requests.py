"""Requests of the controllers that charts and add-ons install without GPUs, by their default values.

Sources: values.yaml of each pinned chart (kueue 0.19.0, lws 0.10.0, jobset 0.12.0, keda 2.20.2, karpenter 1.15.1,
gpu-operator v26.7.0); the manifest of CoreDNS at https://docs.aws.amazon.com/eks/latest/userguide/managing-coredns.html
(2026-11)
"""

from __future__ import annotations

from collections.abc import Mapping

from gpu_constructs.facts import charts
from gpu_constructs.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Controller:
    """A Deployment of a chart.

    Attributes:
        replicas: Its pods by default.
        cpu: Thousandths of a CPU that each requests by default.
        memory_mib: MiB of memory that each requests by default.
        replicas_path: Path of the number of pods in the values; empty where no value sets it.
        resources_path: Path of its resources in the values.
    """

    replicas: int
    cpu: int
    memory_mib: int
    replicas_path: tuple[str, ...]
    resources_path: tuple[str, ...]


CONTROLLERS: Mapping[str, tuple[Controller, ...]] = {
    charts.KUEUE: (
        Controller(
            1, 500, 512, ("controllerManager", "replicas"), ("controllerManager", "manager", "resources", "requests")
        ),
    ),
    charts.LEADER_WORKER_SET: (Controller(1, 1000, 1024, ("replicaCount",), ("resources", "requests")),),
    charts.JOBSET: (Controller(1, 500, 128, ("controller", "replicas"), ("controller", "resources", "requests")),),
    charts.KEDA: (
        Controller(1, 100, 100, ("operator", "replicaCount"), ("resources", "operator", "requests")),
        Controller(1, 100, 100, ("metricsServer", "replicaCount"), ("resources", "metricServer", "requests")),
        Controller(1, 100, 100, ("webhooks", "replicaCount"), ("resources", "webhooks", "requests")),
    ),
    charts.KARPENTER: (Controller(2, 0, 0, ("replicas",), ("controller", "resources", "requests")),),
    charts.GPU_OPERATOR: (Controller(1, 200, 100, (), ("operator", "resources", "requests")),),
    charts.COREDNS: (Controller(2, 100, 70, ("replicaCount",), ("resources", "requests")),),
}
