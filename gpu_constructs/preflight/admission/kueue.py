"""What Kueue adds to the pods of a job when it starts it."""

from __future__ import annotations

from dataclasses import replace

from gpu_constructs.preflight.cluster.kueue import flavor_tolerations, flavors_of
from gpu_constructs.preflight.model.cluster import Cluster, Workload
from gpu_constructs.preflight.model.pod import Pod


def flavored(pod: Pod, workload: Workload, cluster: Cluster) -> Pod:
    """Return a pod with the tolerations that Kueue may add: which flavor it chooses is known at run time only."""
    added = tuple(each for flavor in flavors_of(workload, cluster) for each in flavor_tolerations(flavor))
    if not added:
        return pod
    return replace(pod, tolerations=(*pod.tolerations, *added), likeness=f"{pod.likeness} {added}")
