"""Tolerations that the API server adds to a pod, and Kueue to those of a job that it starts.

Sources: kubernetes/kubernetes v1.36.2 plugin/pkg/admission/{extendedresourcetoleration,defaulttolerationseconds}/
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpu_preflight.cluster.kueue import flavor_tolerations, flavors_of
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import Pod
from gpu_preflight.model.pod_size import is_extended
from gpu_preflight.model.taints import Taint, Toleration
from gpu_preflight.model.workload import Workload

# Of every pod that says nothing of them: it stays five minutes on a node that is gone.
_FOR_A_WHILE = tuple(Taint(f"node.kubernetes.io/{name}", "", "NoExecute") for name in ("not-ready", "unreachable"))
_SECONDS = 300


def tolerating(pod: Pod) -> Pod:
    """Return a pod with the tolerations that it is given."""
    added = (*_of_resources(pod), *_of_seconds(pod))
    return replace(pod, tolerations=(*pod.tolerations, *added)) if added else pod


def flavored(pod: Pod, workload: Workload, cluster: Cluster) -> Pod:
    """Return a pod with the tolerations that Kueue may add: which flavor it chooses is known at run time only."""
    added = tuple(each for flavor in flavors_of(workload, cluster) for each in flavor_tolerations(flavor))
    if not added:
        return pod
    return replace(pod, tolerations=(*pod.tolerations, *added), likeness=f"{pod.likeness} {added}")


def _of_resources(pod: Pod) -> Iterator[Toleration]:
    """Yield one for each extended resource that its containers ask for: a claim is no request."""
    names = {name for each in pod.every_container for name in each.names if is_extended(name)}
    for name in sorted(names):
        added = Toleration(name, "Exists", effect="NoSchedule")
        if added not in pod.tolerations:
            yield added


def _of_seconds(pod: Pod) -> Iterator[Toleration]:
    """Yield one for each taint of a node that is gone of which the pod says nothing, whatever value it names."""
    for taint in _FOR_A_WHILE:
        if not any(_speaks_of(each, taint) for each in pod.tolerations):
            yield Toleration(taint.key, "Exists", effect=taint.effect, seconds=_SECONDS)


def _speaks_of(given: Toleration, taint: Taint) -> bool:
    return (not given.key or given.key == taint.key) and (not given.effect or given.effect == taint.effect)
