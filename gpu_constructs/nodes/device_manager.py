"""Who advertises the GPUs of a pool's nodes."""

from __future__ import annotations

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.pools.node_shape import NodeShape


def serve_gpus(cluster: ClusterRef, shape: NodeShape) -> None:
    """Tell what manages the GPUs of the nodes how these share them, where that is a device plugin of the cluster."""
    if shape.managed_by in ("device-plugin", "gpu-operator"):
        cluster.use_sharing(shape.sharing)
