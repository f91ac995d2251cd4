"""What the API server and the queues of a cluster make of a pod before anything schedules it."""

from __future__ import annotations

from dataclasses import replace

from gpu_constructs.preflight.cluster.kueue import flavor_tolerations, is_queued, kueue_objects
from gpu_constructs.preflight.model.cluster import Cluster, Workload
from gpu_constructs.preflight.model.taints import Toleration


def admitted(workload: Workload, cluster: Cluster) -> Workload:
    """Return a workload with what is added to its pods when they are let in."""
    added = _of_flavors(cluster) if is_queued(workload) else ()
    if not added:
        return workload
    pod = workload.pod
    likeness = f"{pod.likeness} {added}"
    return replace(workload, pod=replace(pod, tolerations=(*pod.tolerations, *added), likeness=likeness))


def _of_flavors(cluster: Cluster) -> tuple[Toleration, ...]:
    """Return the tolerations that Kueue may add: which flavor it chooses is known at run time only."""
    flavors = kueue_objects(cluster, "ResourceFlavor")
    return tuple(each for flavor in flavors for each in flavor_tolerations(flavor))
