"""A cluster has one device manager for its plain GPU nodes: two would advertise every GPU twice."""

from __future__ import annotations

from typing import cast

import aws_cdk as cdk
from constructs import Construct

from gpu_constructs.cluster_ref import AnyCluster, shared_scope

_ID = "DeviceManager"


class _Claim(Construct):
    """Marks a cluster as served."""

    def __init__(self, scope: Construct, *, path: str) -> None:
        super().__init__(scope, _ID)
        self.path = path


def claim_device_manager(who: str, cluster: AnyCluster) -> None:
    """Make the construct at the path ``who`` the cluster's device manager.

    Raises:
        ValueError: The cluster has one.
    """
    owner = shared_scope(cdk.Stack.of(cluster), cluster)
    found = owner.node.try_find_child(_ID)
    if found is not None:
        raise ValueError(
            f"{who}: cluster must have one device manager, got a second one beside {cast('_Claim', found).path!r}; "
            "two advertise every GPU twice, remove one"
        )
    _Claim(owner, path=who)
