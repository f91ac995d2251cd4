"""Scales the pods of a deployment on GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from constructs import Construct

from gpu_constructs.installing.claims import PathOf
from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_manifests
from gpu_constructs.metrics.managed_prometheus import ManagedPrometheus
from gpu_constructs.metrics.prometheus_stack import PrometheusStack
from gpu_constructs.pod_scaling.keda import Keda
from gpu_constructs.pod_scaling.metrics_server import bring_metrics_server
from gpu_constructs.pod_scaling.prometheus_adapter import PrometheusAdapter
from gpu_constructs.pod_scaling.scaling_manifests import (
    Scale,
    horizontal_pod_autoscaler,
    scaled_object,
    trigger_authentication,
)
from gpu_constructs.pod_scaling.signals import CpuUtilization, Demand, GpuUse, Signal, SqsQueue
from gpu_constructs.pools.sharing import Exclusive
from gpu_constructs.workloads.gpu_deployment import GpuDeployment
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_whole_number


@named_arguments
class GpuHorizontalAutoscaler(Construct):
    """Keeps as many pods as the signals ask for: the largest number that one of them does.

    Through KEDA it takes every signal and scales to none and up again by what waits; through prometheus-adapter it is a
    plain HorizontalPodAutoscaler on the use of GPUs. By CPU alone it needs neither. Pods are added one a minute and
    removed one in two.

    You can change ``through`` later. Its controller may leave the app in the same deployment.

    If the deployment had ``replicas`` before, Kubernetes sets it to one pod at the deployment that adds the autoscaler,
    which then adds a pod a minute. To keep the pods, run ``kubectl apply edit-last-applied deployment/NAME`` before
    that deployment and remove ``replicas`` there.

    Source: https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/ (Migrating Deployments and
    StatefulSets to horizontal autoscaling)

    Args:
        cluster: Cluster of the deployment; needs a kubectl provider.
        target: Deployment without ``replicas`` of its own.
        signals: What to scale by.
        max_replicas: Most pods.
        min_replicas: Least pods; 0 takes a signal of what waits, because pods that are not there use no GPU.
        through: What reads the signals. Default: for `CpuUtilization` alone, the cluster's `MetricsServer`.
        prometheus: Where use and demand are measured: in the cluster, or, with Keda, a workspace of AWS.
            Default: none, for queues and CPU alone.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The deployment would be scaled wrongly, twice, or never again.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        target: GpuDeployment,
        signals: Sequence[Signal],
        max_replicas: int,
        min_replicas: int = 1,
        through: Keda | PrometheusAdapter | None = None,
        prometheus: PrometheusStack | ManagedPrometheus | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        _refuse_unless_target(who, target)
        _refuse_unless_signals(who, signals, through, prometheus)
        refuse_unless_whole_number(who, "min_replicas", min_replicas, least=0)
        refuse_unless_whole_number(who, "max_replicas", max_replicas, least=max(1, min_replicas))
        _refuse_sleep_without_waking(who, min_replicas, signals, through)
        _refuse_use_of_shared_gpus(who, target, signals)
        for signal in signals:
            said = f"{who}: signals must be what the exporter reports, got {type(signal).__name__}"
            for field in getattr(signal, "fields", ()):
                ref.fields.ask((said, field))
        ref.claim(who, f"scaler of {target.namespace}/{target.name}", why="each would undo what the other does")

        scale = Scale(
            name=target.name,
            namespace=target.namespace,
            signals=signals,
            min_replicas=min_replicas,
            max_replicas=max_replicas,
        )
        if isinstance(through, Keda):
            managed = prometheus if isinstance(prometheus, ManagedPrometheus) else None
            objects = [
                scaled_object(
                    scale,
                    prometheus_url=prometheus.url if prometheus is not None else "",
                    region=managed.region if managed is not None else None,
                )
            ]
            if managed is not None or any(isinstance(each, SqsQueue) for each in signals):
                objects.insert(0, trigger_authentication(name=target.name, namespace=target.namespace))
        else:
            objects = [horizontal_pod_autoscaler(scale)]
        self.resource = apply_manifests(self, "Resource", cluster=ref, manifests=objects)
        for needed in (target, *((through.chart,) if through is not None else ())):
            self.resource.node.add_dependency(needed)
        if any(isinstance(each, CpuUtilization) for each in signals):
            bring_metrics_server(ref)


def _refuse_unless_target(who: object, target: object) -> None:
    if not isinstance(target, GpuDeployment):
        raise TypeError(f"{who}: target must be a GpuDeployment, got {target!r}")
    if target.replicas is not None:
        raise ValueError(
            f"{who}: target must be without replicas, got {target.replicas}; each deployment would set them back"
        )


def _refuse_unless_signals(who: object, signals: object, through: object, prometheus: object) -> None:
    if through is not None and not isinstance(through, (Keda, PrometheusAdapter)):
        raise TypeError(f"{who}: through must be a Keda or a PrometheusAdapter, got {through!r}")
    if prometheus is not None and not isinstance(prometheus, (PrometheusStack, ManagedPrometheus)):
        raise TypeError(f"{who}: prometheus must be a PrometheusStack or ManagedPrometheus, got {prometheus!r}")
    if isinstance(through, PrometheusAdapter) and isinstance(prometheus, ManagedPrometheus):
        raise ValueError(
            f"{who}: through must be a Keda with a ManagedPrometheus, got a PrometheusAdapter; it signs nothing"
        )
    if not isinstance(signals, (list, tuple)) or not all(isinstance(each, get_args(Signal)) for each in signals):
        raise TypeError(f"{who}: signals must be a list such as [GpuUtilization(percent=70)], got {signals!r}")
    if not signals:
        raise ValueError(f"{who}: signals must name at least one, got none")
    others = [type(each).__name__ for each in signals if not isinstance(each, CpuUtilization)]
    if through is None and others:
        raise ValueError(f"{who}: through must be given for {', '.join(others)}, got None; make a Keda")
    foreign = [type(each).__name__ for each in signals if isinstance(each, (Demand, SqsQueue))]
    if isinstance(through, PrometheusAdapter) and foreign:
        raise ValueError(f"{who}: through must be a Keda for {', '.join(foreign)}, got a PrometheusAdapter")
    measured = any(not isinstance(each, (SqsQueue, CpuUtilization)) for each in signals)
    if isinstance(through, Keda) and measured and prometheus is None:
        raise ValueError(f"{who}: prometheus must be given for signals that it measures, got None")


def _refuse_sleep_without_waking(who: object, least: int, signals: Sequence[Signal], through: object) -> None:
    if least:
        return
    if not isinstance(through, Keda):
        reader = "through a PrometheusAdapter" if through is not None else "without a Keda"
        raise ValueError(f"{who}: min_replicas must be at least 1 {reader}, got 0; use Keda")
    if not any(isinstance(each, (Demand, SqsQueue)) for each in signals):
        raise ValueError(
            f"{who}: min_replicas must be at least 1 without a Demand or SqsQueue, got 0; no pod uses no GPU, and "
            "nothing would ever start one again"
        )


def _refuse_use_of_shared_gpus(who: object, target: GpuDeployment, signals: Sequence[Signal]) -> None:
    measured = [type(each).__name__ for each in signals if isinstance(each, get_args(GpuUse))]
    if measured and not isinstance(target.pool.shape.sharing, Exclusive):
        raise ValueError(
            f"{who}: signals must not measure GPUs of a pool with {target.pool.shape.sharing!r}, whose use is not "
            f"known by pod, got {', '.join(measured)}; write Demand(...)"
        )
