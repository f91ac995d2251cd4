"""The objects of Kueue.

Source: kubernetes-sigs/kueue v0.19.2 apis/kueue/v1beta2/
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpu_constructs.pools.pool import Pool, counts_huge_pages
from gpu_facts.labels import KUEUE_DOMAIN, NAMESPACE_NAME, POOL
from gpu_facts.resources import DISK, EFA, HUGE_PAGES

_API = f"{KUEUE_DOMAIN}/v1beta2"


def flavor(pool: Pool, topology_name: str | None) -> dict[str, Any]:
    """Return the flavor of a pool: jobs admitted to it run on its nodes, whose taints they then tolerate."""
    tolerations = [
        {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
        for taint in pool.shape.node_taints
    ]
    spec: dict[str, Any] = {"nodeLabels": {POOL: pool.name}, "tolerations": tolerations}
    if topology_name is not None:
        spec["topologyName"] = topology_name
    return {"apiVersion": _API, "kind": "ResourceFlavor", "metadata": {"name": pool.name}, "spec": spec}


def topology(name: str, levels: Sequence[str]) -> dict[str, Any]:
    """Return the levels of the network."""
    return {
        "apiVersion": _API,
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": [{"nodeLabel": level} for level in levels]},
    }


def cluster_queue(
    *, name: str, namespace: str, cohort: str, shares: Sequence[tuple[Pool, int]], weight: int
) -> dict[str, Any]:
    """Return the queue of a team with the quota of so many nodes of each pool."""
    quotas = [(pool, quota(pool, nodes)) for pool, nodes in shares]
    # Kueue asks for one list of resources, in one order, of every flavor.
    covered = list(dict.fromkeys(resource for _, found in quotas for resource in found))
    flavors = [
        {
            "name": pool.name,
            "resources": [{"name": resource, "nominalQuota": found.get(resource, "0")} for resource in covered],
        }
        for pool, found in quotas
    ]
    return {
        "apiVersion": _API,
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {
            "cohortName": cohort,
            "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: namespace}},
            "queueingStrategy": "BestEffortFIFO",
            "resourceGroups": [{"coveredResources": covered, "flavors": flavors}],
            # What was lent comes back when its owner wants it; nobody's own is taken.
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "fairSharing": {"weight": str(weight)},
        },
    }


def local_queue(name: str, namespace: str) -> dict[str, Any]:
    """Return what jobs of a namespace name."""
    return {
        "apiVersion": _API,
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterQueue": name},
    }


def quota(pool: Pool, nodes: int) -> dict[str, str]:
    """Return what so many nodes of a pool have, by resource."""
    shape = pool.shape
    found = {"cpu": str(shape.vcpus * nodes), "memory": f"{shape.memory_gib * nodes}Gi"}
    # What scratch is asked for as: Kueue never admits a job that asks for something without a quota.
    # Source: kubernetes-sigs/kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go
    found[DISK] = f"{shape.ephemeral_storage_gib * nodes}Gi"
    for resource, amount in shape.gpu_resources(shape.gpus).items():
        found[resource] = str(amount * nodes)
    if shape.efa:
        found[EFA] = str((shape.rows[0].max_efa or 0) * nodes)
        if counts_huge_pages(pool):
            pages = shape.resources()[HUGE_PAGES].removesuffix("Mi")
            found[HUGE_PAGES] = f"{int(pages) * nodes}Mi"
    return found
