"""The driver that mounts buckets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from constructs import Construct

from gpu_constructs.installing import claims
from gpu_constructs.installing.claims import PathOf
from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.shared import CsiDriver
from gpu_constructs.storage.csi_addon import csi_addon, refuse_unless_version
from gpu_facts.charts import S3_CSI_DRIVER
from gpu_facts.kubernetes import QUALIFIED_NAME
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import words

# The service account of its DaemonSet, as which it mounts; the controller has another and asks AWS for nothing.
# Source: awslabs/mountpoint-s3-csi-driver 2.7.0 charts/aws-mountpoint-s3-csi-driver/values.yaml
_SERVICE_ACCOUNT = "s3-csi-driver-sa"
# Source: https://github.com/awslabs/mountpoint-s3-csi-driver/issues/504 (2025-06)
_WITHOUT_POD_IDENTITY = ("v0.", "v1.")


@named_arguments
class S3CsiDriver(Construct):
    """The EKS add-on ``aws-mountpoint-s3-csi-driver``, with a role that may nothing until an `S3Volume` says what.

    A cluster of this app gets it with the first `S3Volume`. Make it before to state its version, or for an imported
    cluster that has none; it needs the add-on ``eks-pod-identity-agent``, which a `GpuCluster` has.

    Sources: https://docs.aws.amazon.com/eks/latest/userguide/s3-csi.html,
    https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs/INSTALL.md (2026-08)

    Args:
        cluster: Cluster to install into.
        version: Version of the add-on, ``v2.0.0-eksbuild.1`` or newer. Default: EKS' own.
        controller_tolerates: Keys of taints that its controller tolerates, for a cluster whose nodes all have some. The
            first versions with a controller refuse it. Default: none, as the controller has none.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has the driver from this library, the version knows no Pod Identity, or a key is none.

    Attributes:
        driver: The add-on, and its role.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        version: str | None = None,
        controller_tolerates: Sequence[str] = (),
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster)
        refuse_unless_version(who, version)
        if version is not None and version.startswith(_WITHOUT_POD_IDENTITY):
            raise ValueError(f"{who}: version must be v2 or newer, which takes a role by Pod Identity, got {version!r}")
        keys = words(who, "controller_tolerates", controller_tolerates)
        for key in keys:
            if not QUALIFIED_NAME.fullmatch(key):
                raise ValueError(
                    f"{who}: controller_tolerates must hold keys of taints such as 'CriticalAddonsOnly', got {key!r}"
                )
        ref.claim(who, claims.S3_CSI_DRIVER, why="both serve the same volumes")
        # GPU nodes are tainted. Nodes' pods tolerate every taint by default in newer versions only.
        values: dict[str, Any] = {"node": {"tolerateAllTaints": True}}
        if keys:
            values["controller"] = {"tolerations": [{"key": key, "operator": "Exists"} for key in keys]}
        self.driver = csi_addon(
            self, cluster=ref, name=S3_CSI_DRIVER, service_account=_SERVICE_ACCOUNT, version=version, values=values
        )


def s3_csi_driver(cluster: ClusterRef) -> CsiDriver | None:
    """Return the driver of a cluster, which one of this app gets once; an imported one may have its own."""
    made_here = cluster.auto_mode is not None
    if made_here and S3_CSI_DRIVER not in cluster.csi_drivers:
        S3CsiDriver(cluster.shared(cluster.stack), "S3CsiDriver", cluster=cluster.cluster)
    return cluster.csi_drivers.get(S3_CSI_DRIVER)
