"""Requests of the controllers that charts and add-ons install without GPUs, by their default values.

Charts without requests of their own have zeros here: the values of a release then set them.

Sources: values.yaml of each pinned chart (kueue 0.19.0, lws 0.10.0, jobset 0.12.0, keda 2.20.2, karpenter 1.15.1,
gpu-operator v26.7.0, kube-prometheus-stack 88.5.3, prometheus-adapter 5.3.0, vertical-pod-autoscaler 0.11.0,
aws-load-balancer-controller 3.5.0, aws-node-termination-handler 0.27.6), and of metrics-server and
aws-ebs-csi-driver, whose controller has at least five containers of 10m and 40Mi; the manifest of CoreDNS at
https://docs.aws.amazon.com/eks/latest/userguide/managing-coredns.html (2026-11)
"""

from __future__ import annotations

from collections.abc import Mapping

from gpu_facts import charts
from gpu_facts.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Controller:
    """A Deployment of a chart.

    Attributes:
        replicas: Its pods by default.
        cpu: Thousandths of a CPU that each requests by default.
        memory_mib: MiB of memory that each requests by default.
        replicas_path: Path of the number of pods in the values; empty where no value sets it.
        resources_path: Path of its resources in the values.
        enabled_path: Path of the value that leaves it out; empty where no value does.
        one_per_node: Whether its pods reject a node that one of them runs on.
    """

    replicas: int
    cpu: int
    memory_mib: int
    replicas_path: tuple[str, ...]
    resources_path: tuple[str, ...]
    enabled_path: tuple[str, ...] = ()
    one_per_node: bool = False


def _part_of_stack(part: str, replicas: tuple[str, ...] = (), *path: str) -> Controller:
    """Return a controller of kube-prometheus-stack."""
    return Controller(1, 0, 0, replicas, (part, *path, "resources", "requests"), (part, "enabled"))


def _vertical(part: str) -> Controller:
    """Return a controller of the chart of VerticalPodAutoscaler."""
    return Controller(2, 0, 0, (part, "replicas"), (part, "resources", "requests"), (part, "enabled"))


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
    # Source: karpenter-provider-aws v1.15.1 charts/karpenter/values.yaml (affinity.podAntiAffinity)
    charts.KARPENTER: (Controller(2, 0, 0, ("replicas",), ("controller", "resources", "requests"), one_per_node=True),),
    charts.KUBE_PROMETHEUS_STACK: (
        _part_of_stack("prometheusOperator"),
        _part_of_stack("prometheus", ("prometheus", "prometheusSpec", "replicas"), "prometheusSpec"),
        _part_of_stack("grafana", ("grafana", "replicas")),
        Controller(1, 0, 0, (), (charts.KUBE_STATE_METRICS, "resources", "requests"), ("kubeStateMetrics", "enabled")),
    ),
    charts.PROMETHEUS_ADAPTER: (Controller(1, 0, 0, ("replicas",), ("resources", "requests")),),
    charts.VERTICAL_POD_AUTOSCALER: tuple(map(_vertical, ("admissionController", "recommender", "updater"))),
    charts.LOAD_BALANCER_CONTROLLER: (Controller(2, 0, 0, ("replicaCount",), ("resources", "requests")),),
    charts.METRICS_SERVER: (Controller(1, 100, 200, ("replicas",), ("resources", "requests")),),
    charts.EBS_CSI_DRIVER: (Controller(2, 50, 200, ("controller", "replicaCount"), ()),),
    charts.GPU_OPERATOR: (Controller(1, 200, 100, (), ("operator", "resources", "requests")),),
    charts.COREDNS: (Controller(2, 100, 70, ("replicaCount",), ("resources", "requests")),),
}
