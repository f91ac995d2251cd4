"""Scales the pods of a GPU deployment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_manifests, install_helm_chart
from gpu_constructs.installing.pod_identity import PodIdentity, policy_document
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.metrics.prometheus_stack import ManagedPrometheus, PrometheusStack
from gpu_constructs.pod_scaling.signals import (
    CpuUtilization,
    Demand,
    GpuUse,
    PrometheusAdapter,
    Signal,
    SqsQueue,
    install_metrics_server,
)
from gpu_constructs.pools.sharing import Exclusive
from gpu_constructs.workloads.deployments import GpuDeployment
from gpu_facts.charts import KEDA_OPERATOR, NAMESPACES
from gpu_facts.labels import OUR_DOMAIN
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_whole_number, words
from gpu_facts.versions import KEDA

_NAMESPACE = NAMESPACES[KEDA.name]
# EKS adds the variables of a role to containers when it creates a pod. So running pods get the role only if another
# annotation replaces them.
# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreatePodIdentityAssociation.html (2026-11)
_WITH_ROLE = {f"{OUR_DOMAIN}/role": "true"}
# Slow, because a GPU takes minutes to launch and a model minutes to load.
_BEHAVIOR: dict[str, Any] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 60,
        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}],
    },
    "scaleDown": {
        "stabilizationWindowSeconds": 600,
        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 120}],
    },
}
_HPA_OWNERSHIP = "validations.keda.sh/hpa-ownership"
_POLL_SECONDS = 15
_COOLDOWN_SECONDS = 900


@named_arguments
class Keda(Construct):
    """KEDA with permissions to read the queues and workspaces of scaling signals.

    It provides the API of external metrics, for which a cluster has only one provider.

    Source: https://keda.sh/docs/2.20/

    Args:
        cluster: Cluster to install into. It needs a kubectl provider.
        sqs_queue_arns: SQS queues whose length it may read.
        prometheus_workspace_arns: Workspaces of Amazon Managed Prometheus that it may query.
        values: Values of the chart that override the library's values, e.g. for an image of your own registry.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has no kubectl provider, or already has KEDA from this library.

    Attributes:
        chart: The Helm release. Constructs that create KEDA's objects depend on it.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        sqs_queue_arns: Sequence[str] = (),
        prometheus_workspace_arns: Sequence[str] = (),
        values: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        queues = words(who, "sqs_queue_arns", sqs_queue_arns)
        workspaces = words(who, "prometheus_workspace_arns", prometheus_workspace_arns)
        ref.claim(who, "KEDA", why="both provide the API of external metrics")

        statements = _statements(queues, workspaces)
        self.chart = install_helm_chart(
            self,
            "Resource",
            cluster=ref,
            chart=KEDA,
            namespace=_NAMESPACE,
            create_namespace=True,
            values=keda_values(has_role=bool(statements)),
            user_values=values,
        )
        if statements:
            identity = PodIdentity(
                self,
                "Identity",
                cluster=ref,
                namespace=_NAMESPACE,
                service_account=KEDA_OPERATOR,
                policies={"ReadSignals": policy_document(statements)},
            )
            self.chart.node.add_dependency(identity)


def keda_values(*, has_role: bool = False) -> Mapping[str, Any]:
    """Return the values of the chart.

    Source: kedacore/charts keda 2.20.2 values.yaml
    """
    values: dict[str, Any] = {"serviceAccount": {"operator": {"name": KEDA_OPERATOR}}}
    return values | ({"podAnnotations": {KEDA.name: _WITH_ROLE}} if has_role else {})


def _statements(queues: Sequence[str], workspaces: Sequence[str]) -> list[dict[str, Any]]:
    read_queues = {"Sid": "Queues", "Effect": "Allow", "Action": "sqs:GetQueueAttributes", "Resource": list(queues)}
    query = ["aps:GetLabels", "aps:GetMetricMetadata", "aps:GetSeries", "aps:QueryMetrics"]
    read_metrics = {"Sid": "Metrics", "Effect": "Allow", "Action": query, "Resource": list(workspaces)}
    return [statement for statement in (read_queues, read_metrics) if statement["Resource"]]


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """Limits and signals for the number of a Deployment's pods.

    Attributes:
        name: Name of the Deployment.
        namespace: Its namespace.
        signals: Signals that scale its pods.
        min_replicas: Min number of pods.
        max_replicas: Max number of pods.
    """

    name: str
    namespace: str
    signals: Sequence[Signal]
    min_replicas: int
    max_replicas: int


def horizontal_pod_autoscaler(scale: Scale) -> dict[str, Any]:
    """Return an HPA on records of the pods themselves.

    KEDA's webhook doesn't reject a ScaledObject of the same Deployment because of it. When a deployment replaces one by
    the other, the new one exists before the old one is deleted. In that time Kubernetes stops both, and neither scales.

    Source: https://keda.sh/docs/2.19/operate/admission-webhooks/#validation-enforcement
    """
    metrics = [_metric(each) for each in scale.signals if not isinstance(each, (Demand, SqsQueue))]
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": scale.name, "namespace": scale.namespace, "annotations": {_HPA_OWNERSHIP: "false"}},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": scale.name},
            "minReplicas": scale.min_replicas,
            "maxReplicas": scale.max_replicas,
            "metrics": metrics,
            "behavior": _BEHAVIOR,
        },
    }


def _metric(signal: GpuUse | CpuUtilization) -> dict[str, Any]:
    if isinstance(signal, CpuUtilization):
        target = {"type": "Utilization", "averageUtilization": signal.percent}
        return {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    target = {"type": "AverageValue", "averageValue": str(signal.percent)}
    return {"type": "Pods", "pods": {"metric": {"name": signal.record}, "target": target}}


def scaled_object(scale: Scale, *, prometheus_url: str, region: str | None = None) -> dict[str, Any]:
    """Return the ScaledObject of KEDA, with the region for a Prometheus that AWS manages.

    Source: https://keda.sh/docs/2.20/reference/scaledobject-spec/
    """
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": scale.name, "namespace": scale.namespace},
        "spec": {
            "scaleTargetRef": {"name": scale.name},
            "pollingInterval": _POLL_SECONDS,
            "cooldownPeriod": _COOLDOWN_SECONDS,
            "minReplicaCount": scale.min_replicas,
            "maxReplicaCount": scale.max_replicas,
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _BEHAVIOR}},
            "triggers": [_signed(_trigger(each, scale, prometheus_url), scale, region) for each in scale.signals],
        },
    }


def trigger_authentication(*, name: str, namespace: str) -> dict[str, Any]:
    """Return the TriggerAuthentication with which KEDA reads AWS with its own role, by Pod Identity."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "TriggerAuthentication",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"podIdentity": {"provider": "aws"}},
    }


def _trigger(signal: Signal, scale: Scale, prometheus_url: str) -> dict[str, Any]:
    if isinstance(signal, SqsQueue):
        return {
            "type": "aws-sqs-queue",
            "metadata": {
                "queueURL": signal.url,
                "awsRegion": signal.region,
                "queueLength": str(signal.per_pod),
                # KEDA activates above this value.
                "activationQueueLength": str(signal.wakes_at - 1),
            },
            "authenticationRef": {"name": scale.name},
        }
    if isinstance(signal, CpuUtilization):
        return {"type": "cpu", "metricType": "Utilization", "metadata": {"value": str(signal.percent)}}
    if isinstance(signal, Demand):
        return _measured(prometheus_url, signal.query, signal.per_pod, signal.wakes_at)
    # Pods of this Deployment: its name, the hash of a ReplicaSet, five characters.
    pods = f'exported_namespace="{scale.namespace}",exported_pod=~"{scale.name}-[a-z0-9]+-[a-z0-9]{{5}}"'
    return _measured(prometheus_url, signal.query(pods), signal.percent, 1)


def _signed(trigger: dict[str, Any], scale: Scale, region: str | None) -> dict[str, Any]:
    """Return a trigger that reads an AWS Prometheus with KEDA's own role."""
    if region is None or trigger["type"] != "prometheus":
        return trigger
    metadata = trigger["metadata"] | {"awsRegion": region}
    return trigger | {"metadata": metadata, "authenticationRef": {"name": scale.name}}


def _measured(prometheus_url: str, query: str, per_pod: int, wakes_at: int) -> dict[str, Any]:
    return {
        "type": "prometheus",
        "metricType": "AverageValue",
        "metadata": {
            "serverAddress": prometheus_url,
            "query": query,
            "threshold": str(per_pod),
            "activationThreshold": str(wakes_at - 1),
            # A missing series means that an exporter is down. It must not remove pods.
            "ignoreNullValues": "false",
        },
    }


@named_arguments
class GpuHorizontalAutoscaler(Construct):
    """Keeps the number of pods that the signals require: the largest number of all signals.

    Through KEDA it supports every signal, and scales to zero and up again when work waits. Through prometheus-adapter
    it is a plain HorizontalPodAutoscaler on the use of GPUs. With CPU only, it needs neither. It adds one pod per
    minute, and removes one pod in two minutes.

    You can change ``through`` later. Its controller may leave the app in the same deployment.

    If the deployment had ``replicas`` before, Kubernetes sets it to one pod at the deployment that adds the autoscaler,
    which then adds a pod a minute. To keep the pods, run ``kubectl apply edit-last-applied deployment/NAME`` before
    that deployment and remove ``replicas`` there.

    Source: https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/ (Migrating Deployments and
    StatefulSets to horizontal autoscaling)

    Args:
        cluster: Cluster of the deployment. It needs a kubectl provider.
        target: Deployment without ``replicas``.
        signals: Signals to scale by.
        max_replicas: Max number of pods.
        min_replicas: Min number of pods. 0 requires a signal of pending work, because without pods no GPU is in use.
        through: Component that reads the signals. Default: for `CpuUtilization` only, the cluster's `MetricsServer`.
        prometheus: Prometheus that measures use and demand: in the cluster, or, with Keda, an AWS workspace. Default:
            none, for queues and CPU only.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The deployment would be scaled wrongly, by two scalers, or never up again.
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
            said = f"{who}: signals must be reported by the exporter, got {type(signal).__name__}"
            for field in getattr(signal, "fields", ()):
                ref.fields.ask((said, field))
        ref.claim(who, f"scaler of {target.namespace}/{target.name}", why="each would undo the changes of the other")

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
            install_metrics_server(ref)


def _refuse_unless_target(who: object, target: object) -> None:
    if not isinstance(target, GpuDeployment):
        raise TypeError(f"{who}: target must be a GpuDeployment, got {target!r}; pass the construct")
    if target.replicas is not None:
        raise ValueError(
            f"{who}: target must be without replicas, got {target.replicas}; remove them, because each deployment "
            "would reset them"
        )


def _refuse_unless_signals(who: object, signals: object, through: object, prometheus: object) -> None:
    if through is not None and not isinstance(through, (Keda, PrometheusAdapter)):
        raise TypeError(
            f"{who}: through must be a Keda or a PrometheusAdapter, got {through!r}; create Keda(stack, ...)"
        )
    if prometheus is not None and not isinstance(prometheus, (PrometheusStack, ManagedPrometheus)):
        raise TypeError(
            f"{who}: prometheus must be a PrometheusStack or ManagedPrometheus, got {prometheus!r}; create one"
        )
    if isinstance(through, PrometheusAdapter) and isinstance(prometheus, ManagedPrometheus):
        raise ValueError(
            f"{who}: through must be a Keda with a ManagedPrometheus, got a PrometheusAdapter; use Keda, because the "
            "adapter doesn't sign requests"
        )
    if not isinstance(signals, (list, tuple)) or not all(isinstance(each, get_args(Signal)) for each in signals):
        raise TypeError(
            f"{who}: signals must be a list of signals, got {signals!r}; write [GpuUtilization(percent=70)]"
        )
    if not signals:
        raise ValueError(f"{who}: signals must name at least one, got none; write [GpuUtilization(percent=70)]")
    others = [type(each).__name__ for each in signals if not isinstance(each, CpuUtilization)]
    if through is None and others:
        raise ValueError(f"{who}: through must be given for {', '.join(others)}, got None; create a Keda")
    foreign = [type(each).__name__ for each in signals if isinstance(each, (Demand, SqsQueue))]
    if isinstance(through, PrometheusAdapter) and foreign:
        raise ValueError(f"{who}: through must be a Keda for {', '.join(foreign)}, got a PrometheusAdapter; use Keda")
    measured = any(not isinstance(each, (SqsQueue, CpuUtilization)) for each in signals)
    if isinstance(through, Keda) and measured and prometheus is None:
        raise ValueError(
            f"{who}: prometheus must be given for signals that it measures, got None; pass a PrometheusStack"
        )


def _refuse_sleep_without_waking(who: object, least: int, signals: Sequence[Signal], through: object) -> None:
    if least:
        return
    if not isinstance(through, Keda):
        reader = "through a PrometheusAdapter" if through is not None else "without a Keda"
        raise ValueError(f"{who}: min_replicas must be at least 1 {reader}, got 0; use Keda")
    if not any(isinstance(each, (Demand, SqsQueue)) for each in signals):
        raise ValueError(
            f"{who}: min_replicas must be at least 1 without a Demand or SqsQueue, got 0; add one, because without "
            "pods no GPU is in use and no signal would start a pod"
        )


def _refuse_use_of_shared_gpus(who: object, target: GpuDeployment, signals: Sequence[Signal]) -> None:
    measured = [type(each).__name__ for each in signals if isinstance(each, get_args(GpuUse))]
    if measured and not isinstance(target.pool.shape.sharing, Exclusive):
        raise ValueError(
            f"{who}: signals must not measure GPUs of a pool with {target.pool.shape.sharing!r}, whose use isn't known "
            f"by pod, got {', '.join(measured)}; write Demand(...)"
        )
