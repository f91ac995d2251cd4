"""What Kueue adds to the pods of a job when it starts it."""

from __future__ import annotations

from dataclasses import replace

from gpu_constructs.preflight.cluster.kueue import flavor_tolerations, kueue_objects
from gpu_constructs.preflight.model.cluster import Cluster
from gpu_constructs.preflight.model.pod import Pod


def flavored(pod: Pod, cluster: Cluster) -> Pod:
    """Return a pod with the tolerations that Kueue may add: which flavor it chooses is known at run time only."""
    flavors = kueue_objects(cluster, "ResourceFlavor")
    added = tuple(each for flavor in flavors for each in flavor_tolerations(flavor))
    if not added:
        return pod
    return replace(pod, tolerations=(*pod.tolerations, *added), likeness=f"{pod.likeness} {added}")
