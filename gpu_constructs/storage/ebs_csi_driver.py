"""The driver that makes EBS volumes."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.installing import claims
from gpu_constructs.installing.claims import PathOf
from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.shared import CsiDriver
from gpu_constructs.storage.csi_addon import csi_addon, refuse_unless_version
from gpu_facts.charts import EBS_CSI_DRIVER
from gpu_facts.named_arguments import named_arguments

# Source: https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html (2026-08)
SERVICE_ACCOUNT = "ebs-csi-controller-sa"
# AmazonEBSCSIDriverPolicyV2 would leave volumes without the driver's tag alone, those made by hand among them. AWS'
# reference and the driver's own docs call it by different ARNs (2026-11), one of which fails the deployment.
POLICY = "service-role/AmazonEBSCSIDriverPolicy"


@named_arguments
class EbsCsiDriver(Construct):
    """The EKS add-on ``aws-ebs-csi-driver``, with a role for its controller.

    A `GpuCluster` has it, and a cluster of this app gets it with the first `EbsStorageClass`. Make it for an imported
    cluster that has none; that needs the add-on ``eks-pod-identity-agent``. Auto Mode has a driver of its own.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/ebs-csi.html (2026-08)

    Args:
        cluster: Cluster to install into.
        version: Version of the add-on, e.g. ``v1.63.1-eksbuild.1``. Default: EKS' own.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has the driver from this library, or is in Auto Mode.

    Attributes:
        driver: The add-on, and its role.
    """

    def __init__(self, scope: Construct, id: str, *, cluster: AnyCluster, version: str | None = None) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster)
        refuse_unless_version(who, version)
        if ref.auto_mode:
            raise ValueError(f"{who}: cluster must not be in Auto Mode, which has its own driver, got {ref.path!r}")
        ref.claim(who, claims.EBS_CSI_DRIVER, why="both serve the same volumes")
        policy = iam.ManagedPolicy.from_aws_managed_policy_name(POLICY)
        self.driver = csi_addon(
            self,
            cluster=ref,
            name=EBS_CSI_DRIVER,
            service_account=SERVICE_ACCOUNT,
            version=version,
            managed_policy_arns=[policy.managed_policy_arn],
        )


def ebs_csi_driver(cluster: ClusterRef) -> CsiDriver | None:
    """Return the driver of a cluster, which one of this app gets once; an imported one may have its own."""
    made_here = cluster.auto_mode is not None
    if made_here and EBS_CSI_DRIVER not in cluster.csi_drivers:
        EbsCsiDriver(cluster.shared(cluster.stack), "EbsCsiDriver", cluster=cluster.cluster)
    return cluster.csi_drivers.get(EBS_CSI_DRIVER)
