"""What the API server and the queues of a cluster make of a pod before anything schedules it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpu_constructs.preflight.cluster.kueue import is_queued, kueue_objects
from gpu_constructs.preflight.model.cluster import Cluster, Workload
from gpu_constructs.preflight.reading.unknown import items


def admitted(workload: Workload, cluster: Cluster) -> Workload:
    """Return a workload with what is added to its pods when they are let in."""
    added = _of_flavors(cluster) if is_queued(workload) else []
    if not added:
        return workload
    tolerations = [*items(workload.pod.get("tolerations")), *added]
    return replace(workload, pod={**workload.pod, "tolerations": tolerations})


def _of_flavors(cluster: Cluster) -> list[Any]:
    """Return the tolerations that Kueue may add: which flavor it chooses is known at run time only."""
    flavors = kueue_objects(cluster, "ResourceFlavor")
    return [toleration for flavor in flavors for toleration in items(flavor.spec.get("tolerations"))]
