"""Priority classes.

Source: kubernetes/kubernetes v1.36.2 plugin/pkg/admission/priority/admission.go
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.kubernetes import CLUSTER_CRITICAL, NODE_CRITICAL
from gpu_preflight.admission.missing import missing
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import Pod
from gpu_preflight.model.reason import Reason
from gpu_preflight.reading.unknown import known_text

_BUILT_IN = (CLUSTER_CRITICAL, NODE_CRITICAL)


def without_priority_class(pod: Pod, cluster: Cluster) -> Iterator[Reason]:
    """Yield why a pod is refused whose class nobody defines."""
    name = known_text(pod.priority_class)
    if name and name not in _BUILT_IN:
        known = [each.name for each in cluster.of_kind("PriorityClass")]
        yield from missing(
            f"priorityClassName {name} is no PriorityClass of the cluster", name, known, cluster, "GPU370"
        )
