"""HorizontalPodAutoscaler and ScaledObject."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpu_constructs.pod_scaling.signals import CpuUtilization, Demand, GpuUse, Signal, SqsQueue
from gpu_facts.named_arguments import named_arguments

# Slow, because a GPU takes minutes to come and a model minutes to load.
BEHAVIOR: dict[str, Any] = {
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
@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """How many pods a Deployment has, and by what.

    Attributes:
        name: Name of the Deployment.
        namespace: Its namespace.
        signals: What its pods are scaled by.
        min_replicas: Least pods.
        max_replicas: Most pods.
    """

    name: str
    namespace: str
    signals: Sequence[Signal]
    min_replicas: int
    max_replicas: int


def horizontal_pod_autoscaler(scale: Scale) -> dict[str, Any]:
    """Return an HPA on records of the pods themselves.

    KEDA's webhook doesn't reject a ScaledObject of the same Deployment because of it. When a deployment replaces one by
    the other, the new one exists before the old one is deleted. Until then neither scales: Kubernetes stops both.

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
            "behavior": BEHAVIOR,
        },
    }


def _metric(signal: GpuUse | CpuUtilization) -> dict[str, Any]:
    if isinstance(signal, CpuUtilization):
        target = {"type": "Utilization", "averageUtilization": signal.percent}
        return {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    target = {"type": "AverageValue", "averageValue": str(signal.percent)}
    return {"type": "Pods", "pods": {"metric": {"name": signal.record}, "target": target}}


def scaled_object(scale: Scale, *, prometheus_url: str, region: str | None = None) -> dict[str, Any]:
    """Return what KEDA scales by; of a Prometheus that AWS manages, with its region.

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
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": BEHAVIOR}},
            "triggers": [_signed(_trigger(each, scale, prometheus_url), scale, region) for each in scale.signals],
        },
    }


def trigger_authentication(*, name: str, namespace: str) -> dict[str, Any]:
    """Return that KEDA reads AWS as itself, by Pod Identity."""
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
                # KEDA wakes above it.
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
    """Return a trigger that reads a Prometheus of AWS as KEDA itself."""
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
            # A series that is missing is an exporter that is down, and no reason to remove pods.
            "ignoreNullValues": "false",
        },
    }
