"""The driver that mounts file systems of FSx for Lustre."""

from __future__ import annotations

from constructs import Construct

from gpu_constructs.installing import claims
from gpu_constructs.installing.claims import PathOf
from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.shared import CsiDriver
from gpu_constructs.storage.csi_addon import csi_addon, refuse_unless_version
from gpu_facts.charts import FSX_CSI_DRIVER
from gpu_facts.named_arguments import named_arguments

# Of its controller; the service account of its DaemonSet needs no role.
# Source: kubernetes-sigs/aws-fsx-csi-driver v1.9.0 charts/aws-fsx-csi-driver/values.yaml
_SERVICE_ACCOUNT = "fsx-csi-controller-sa"


@named_arguments
class FsxCsiDriver(Construct):
    """The EKS add-on ``aws-fsx-csi-driver``, with a role that may nothing: to mount what exists takes no permission.

    A cluster of this app gets it with the first `LustreFileSystem`. Make it before to state its version, or for an
    imported cluster that has none; it needs the add-on ``eks-pod-identity-agent``, which a `GpuCluster` has. To make a
    file system for each claim the role would need more, and gets it nowhere here: what a claim makes, no stack deletes.
    Nor does it need its region for what exists: it asks the metadata service, then the Kubernetes API, and starts.

    Sources: https://docs.aws.amazon.com/eks/latest/userguide/fsx-csi.html,
    https://github.com/kubernetes-sigs/aws-fsx-csi-driver/blob/v1.9.0/docs/install.md (2026-11-22)

    Args:
        cluster: Cluster to install into.
        version: Version of the add-on, e.g. ``v1.9.0-eksbuild.1``. Default: EKS' own.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has the driver from this library.

    Attributes:
        driver: The add-on, and its role.
    """

    def __init__(self, scope: Construct, id: str, *, cluster: AnyCluster, version: str | None = None) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster)
        refuse_unless_version(who, version)
        ref.claim(who, claims.FSX_CSI_DRIVER, why="both serve the same volumes")
        self.driver = csi_addon(
            self, cluster=ref, name=FSX_CSI_DRIVER, service_account=_SERVICE_ACCOUNT, version=version
        )


def fsx_csi_driver(cluster: ClusterRef) -> CsiDriver | None:
    """Return the driver of a cluster, which one of this app gets once; an imported one may have its own."""
    made_here = cluster.auto_mode is not None
    if made_here and FSX_CSI_DRIVER not in cluster.csi_drivers:
        FsxCsiDriver(cluster.shared(cluster.stack), "FsxCsiDriver", cluster=cluster.cluster)
    return cluster.csi_drivers.get(FSX_CSI_DRIVER)
