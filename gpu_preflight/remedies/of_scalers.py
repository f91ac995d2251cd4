"""What could be changed in an autoscaler of pods so that it makes as many as run."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preflight.cluster.scalers import HPA, SCALED_OBJECT, least_pods, most_pods, target_of
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.objects import Object
from gpu_preflight.remedies.change import Change

_OF_HPA = ("minReplicas", "maxReplicas")
_OF_KEDA = ("minReplicaCount", "maxReplicaCount")


def scaler_of(workload: Workload, cluster: Cluster) -> Object | None:
    """Return the autoscaler that decides how many pods a workload has; of several, the last."""
    found = [each for each in cluster.of_kind(HPA, SCALED_OBJECT) if target_of(each, cluster) is workload]
    return found[-1] if found else None


def bounded(scaler: Object, replicas: int) -> Iterator[Change]:
    """Yield what keeps an autoscaler from making more than some pods."""
    least, most = _OF_KEDA if scaler.kind == SCALED_OBJECT else _OF_HPA
    who = f"{scaler.kind} {scaler.namespace}/{scaler.name}"
    for name, now in ((most, most_pods(scaler)), (least, least_pods(scaler))):
        if now is not None and now > replicas:
            text = f"lower {name} of {who} to {replicas}"
            yield Change(text, scaler.origin, ("spec", name), replicas, of_pool=True)
