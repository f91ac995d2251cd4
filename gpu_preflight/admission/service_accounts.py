"""Service accounts.

Source: kubernetes/kubernetes v1.36.2 plugin/pkg/admission/serviceaccount/admission.go
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from gpu_preflight.admission.missing import missing
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import Pod
from gpu_preflight.model.reason import Reason
from gpu_preflight.reading.unknown import known_text

# A controller makes it in every namespace.
_EVERYWHERE = "default"


def accounts_of(cluster: Cluster) -> dict[str, set[str]]:
    """Return the names of the service accounts of a cluster, by namespace."""
    found: dict[str, set[str]] = {}
    for each in cluster.of_kind("ServiceAccount"):
        found.setdefault(each.namespace, set()).add(each.name)
    return found


def without_service_account(
    pod: Pod, namespace: str, cluster: Cluster, accounts: Mapping[str, Collection[str]]
) -> Iterator[Reason]:
    """Yield why a pod is refused whose account nobody makes; charts and eksctl make accounts of their own."""
    name = known_text(pod.service_account) or _EVERYWHERE
    charts = any(each.namespace == namespace for each in cluster.charts)
    if name != _EVERYWHERE and not charts:
        text = f"serviceAccountName {name} is no ServiceAccount of namespace {namespace}"
        yield from missing(text, name, accounts.get(namespace, ()), cluster, "GPU371", Answer.UNKNOWN)
