"""Who advertises the GPUs of a pool's nodes."""

from __future__ import annotations

from gpu_constructs.cluster_ref import ClusterRef
from gpu_constructs.pools.node_shape import NodeShape


def serve_gpus(cluster: ClusterRef, shape: NodeShape) -> None:
    """Tell the cluster's device plugin how the nodes share their GPUs, where it manages them."""
    if shape.device_manager == "device-plugin":
        cluster.use_sharing(shape.sharing)
