"""metrics-server: what pods use of CPU and memory, without which nothing scales by it."""

from __future__ import annotations

from typing import cast

from constructs import Construct

from gpu_constructs.installing import eks_resources
from gpu_constructs.installing.claims import PathOf
from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.logical_ids import set_logical_id
from gpu_facts.charts import METRICS_SERVER
from gpu_facts.named_arguments import named_arguments

_ONE = "metrics server"


@named_arguments
class MetricsServer(Construct):
    """The EKS add-on ``metrics-server``.

    A cluster of this app gets it with the first `VerticalPodAutoscaler` or `CpuUtilization`. Make it yourself before
    them to state its version, or for an imported cluster that has none: two collide over one API.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/community-addons.html

    Args:
        cluster: Cluster to install into.
        version: Version of the add-on, e.g. ``v0.8.0-eksbuild.2``. Default: EKS' own.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has it from this library.

    Attributes:
        resource: The add-on.
    """

    def __init__(self, scope: Construct, id: str, *, cluster: AnyCluster, version: str | None = None) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster)
        if version is not None and (not isinstance(version, str) or not version):
            raise TypeError(f"{who}: version must be one such as 'v0.8.0-eksbuild.2', got {version!r}")
        ref.claim(who, _ONE, why="both provide the API of resource metrics")
        self.resource = eks_resources.CfnAddon(
            self,
            "Resource",
            addon_name=METRICS_SERVER,
            addon_version=version,
            cluster_name=ref.name_token,
            # The template is what counts, not what somebody edited in the cluster.
            resolve_conflicts="OVERWRITE",
        )
        ref.software.addons[METRICS_SERVER] = {}
        # Its pods need nodes.
        set_logical_id(self.resource, ref, "Addon", METRICS_SERVER)
        ref.wait_for_foundation(cast("Construct", self.resource))


def bring_metrics_server(cluster: ClusterRef) -> None:
    """Install it, once, into a cluster of this app; an imported one may have its own, which nobody can see."""
    made_here = cluster.auto_mode is not None
    if made_here and cluster.holder(_ONE) is None:
        MetricsServer(cluster.shared(cluster.stack), "MetricsServer", cluster=cluster.cluster)
