"""A cluster has one device manager for its plain GPU nodes: two would advertise every GPU twice."""

from __future__ import annotations

from gpu_constructs.cluster_ref import ClusterRef


def claim_device_manager(who: object, cluster: ClusterRef) -> None:
    """Make the construct at the path ``who`` the cluster's device manager.

    Raises:
        ValueError: The cluster has one.
    """
    shared = cluster.shared(cluster.stack)
    if shared.device_manager is not None:
        raise ValueError(
            f"{who}: cluster must have one device manager, got a second one beside {shared.device_manager!r}; "
            "two advertise every GPU twice, remove one"
        )
    shared.device_manager = str(who)
