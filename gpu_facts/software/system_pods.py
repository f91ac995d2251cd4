"""Pods of controllers, their requests, and how many nodes without GPUs they need.

Requests of the controllers that charts and add-ons install without GPUs, by their default values.

Charts without default requests have zeros here. The values of a release then set them.

Sources: values.yaml of each pinned chart (kueue 0.19.0, lws 0.10.0, jobset 0.12.0, keda 2.20.2, karpenter 1.15.1,
gpu-operator v26.7.0, kube-prometheus-stack 88.5.3, prometheus-adapter 5.3.0, vertical-pod-autoscaler 0.11.0,
aws-load-balancer-controller 3.5.0, aws-node-termination-handler 0.27.6), and of metrics-server and
aws-ebs-csi-driver, whose controller has at least five containers of 10m and 40Mi; the manifest of CoreDNS at
https://docs.aws.amazon.com/eks/latest/userguide/managing-coredns.html (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpu_facts import charts
from gpu_facts.light import dataclass
from gpu_facts.quantities import MIB, Resources, quantity

RESOURCES = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Controller:
    """A Deployment of a chart.

    Attributes:
        replicas: Its default number of pods.
        cpu: Default CPU request of each, in thousandths.
        memory_mib: Default memory request of each, in MiB.
        replicas_path: Path of the number of pods in the values, or empty if no value sets it.
        resources_path: Path of its resources in the values.
        enabled_path: Path of the value that disables it, or empty if no value does.
        one_per_node: Whether each of its pods needs a separate node.
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


_CONTROLLERS: Mapping[str, tuple[Controller, ...]] = {
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


@dataclass(frozen=True, slots=True)
class SystemPods:
    """The pods of one controller.

    Attributes:
        name: Its name.
        replicas: Number of pods.
        requests: Min request of each, in base units.
        one_per_node: Whether each of them needs a separate node.
    """

    name: str
    replicas: int
    requests: Resources
    one_per_node: bool = False


def controller_pods(name: str, values: Mapping[str, Any]) -> tuple[SystemPods, ...] | None:
    """Return the pods of a chart or add-on that need a node without GPUs, or ``None`` if its requests aren't known.

    A value that is known only at deployment isn't counted. A chart whose values set tolerations has no such pods,
    because they may run on GPU nodes.
    """
    controllers = _CONTROLLERS.get(name)
    if controllers is None:
        return None
    if _tolerates(values):
        return ()
    named = [f"{name} {number}" if number > 1 else name for number in range(1, len(controllers) + 1)]
    pods = (_pods(each, controller, values) for each, controller in zip(named, controllers, strict=True))
    return tuple(each for each in pods if each.replicas)


def requested(pods: Iterable[SystemPods], resource: str) -> int:
    """Return the total request of all pods for a resource."""
    return sum(each.replicas * each.requests.get(resource, 0) for each in pods)


def nodes_at_least(pods: Sequence[SystemPods], free: Resources) -> int | None:
    """Return a number of nodes below which some pods stay Pending in any placement.

    Args:
        pods: The pods.
        free: Resources of each node for them. A resource that is left out isn't limited.

    Returns:
        The number, or ``None`` if a pod fits no node.
    """
    needed = [_bound(sorted(_sizes(pods, resource), reverse=True), free[resource]) for resource in free]
    return None if None in needed else max((each or 0 for each in needed), default=0)


def nodes_in_any_order(pods: Sequence[SystemPods], free: Resources) -> int | None:
    """Return a number of nodes on which no pod stays Pending, in any order of placement.

    kube-scheduler never moves a pod to make room for another one of the same priority. A pod stays Pending only if each
    node has too little room for it, and the other pods can cause that only on few nodes. For example, nodes have 1640m,
    one pod requests 1000m, and the others 3000m together. They use more than 640m on at most four nodes, so five are
    sufficient.

    Args:
        pods: The pods.
        free: Resources of each node for them. A resource that is left out isn't limited.

    Returns:
        The number, or ``None`` if a pod fits no node.
    """
    most = 0
    for pod in pods:
        closed = pod.replicas - 1 if pod.one_per_node else 0
        for resource, room in free.items():
            size = pod.requests.get(resource, 0)
            if size > room:
                return None
            if size:
                closed += (requested(pods, resource) - size) // (room - size + 1)
        most = max(most, closed + 1)
    return most


def _sizes(pods: Iterable[SystemPods], resource: str) -> list[int]:
    return [each.requests.get(resource, 0) for each in pods for _ in range(each.replicas)]


def _bound(sizes: Sequence[int], room: int) -> int | None:
    """Return the min number of bins of a size that some pieces need, or ``None`` if a piece is larger.

    Each piece larger than half a bin needs its own bin, and smaller ones use the remaining room. Pieces that are small
    enough to fit next to each large one may be left out.

    Source: Martello and Toth, Knapsack Problems (1990), chapter 8.3, lower bound L2
    """
    if sizes and sizes[0] > room:
        return None
    return max((_bound_without(sizes, room, least) for least in {0, *sizes} if 2 * least <= room), default=0)


def _bound_without(sizes: Sequence[int], room: int, least: int) -> int:
    alone = [each for each in sizes if each > room - least]
    large = [each for each in sizes if room - least >= each and 2 * each > room]
    small = [each for each in sizes if 2 * each <= room and each >= least]
    over = sum(small) - (len(large) * room - sum(large))
    return len(alone) + len(large) + max(-(-over // room) if room else 0, 0)


def _tolerates(values: Mapping[str, Any]) -> bool:
    return any(
        (key == "tolerations" and each) or (isinstance(each, Mapping) and _tolerates(each))
        for key, each in values.items()
    )


def _pods(name: str, controller: Controller, values: Mapping[str, Any]) -> SystemPods:
    replicas = _find_value(values, controller.replicas_path, controller.replicas)
    runs = _find_value(values, controller.enabled_path, True) is not False
    defaults = {"cpu": controller.cpu, "memory": controller.memory_mib * MIB}
    written = {each: _find_value(values, (*controller.resources_path, each), None) for each in RESOURCES}
    amounts = {each: defaults[each] if value is None else quantity(each, value) or 0 for each, value in written.items()}
    return SystemPods(name, (quantity("pods", replicas) or 0) if runs else 0, amounts, controller.one_per_node)


def _find_value(values: Any, path: Sequence[str], default: Any) -> Any:
    """Return the value at a path, or the unknown value that is in place of a mapping on the path."""
    if not path:
        return default
    for key in path:
        if not isinstance(values, Mapping):
            return values
        values = values.get(key)
        if values is None:
            return default
    return values
