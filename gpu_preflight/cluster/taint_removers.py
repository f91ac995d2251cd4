"""Startup taints of a pool for which the input has no component that removes them."""

from __future__ import annotations

from gpu_facts.charts import CLUSTER_AUTOSCALER
from gpu_preflight.cluster.objects.storage import installs
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.startup_taints import REMOVERS, goes_by_itself
from gpu_preflight.model.taints import Taint


def unremoved_taints(pool: Pool, cluster: Cluster) -> tuple[Taint, ...]:
    """Return the startup taints that neither Kubernetes nor a component in the input removes."""
    return tuple(each for each in pool.startup_taints if not (goes_by_itself(each) or _is_removed(each, cluster)))


def _is_removed(taint: Taint, cluster: Cluster) -> bool:
    installed = any(installs(each, cluster) for each in REMOVERS.get(taint.key, ()))
    return installed or _is_taint_mentioned(taint.key, cluster)


def _is_taint_mentioned(key: str, cluster: Cluster) -> bool:
    """Whether a manifest or chart values name the taint, so that its component may remove it."""
    others = (each for each in cluster.objects if each.kind not in ("NodePool", "EC2NodeClass", "NodeClass"))
    written = (str(each.content).replace(f"--startup-taint={key}", "") for each in others)
    charts = (each for each in cluster.charts if each.name != CLUSTER_AUTOSCALER)
    return any(key in each for each in written) or any(key in str(each.values) for each in charts)
