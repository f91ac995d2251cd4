"""EKS add-ons of the CSI drivers for EBS, FSx and S3, with their roles, and names of volumes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.installing import eks_resources, registry
from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.eks_resources import set_logical_id
from gpu_constructs.installing.pod_identity import keep_role, trust
from gpu_constructs.installing.registry import CsiDriver, PathOf
from gpu_constructs.pools.kubelet import DRIVER_NAMES, StorageDriver
from gpu_facts.charts import EBS_CSI_DRIVER, FSX_CSI_DRIVER, S3_CSI_DRIVER
from gpu_facts.kubernetes import KUBE_SYSTEM, QUALIFIED_NAME
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import words
from gpu_facts.storage import TAINT_REMOVED_SINCE, keeps_its_taint

# Max length of a label value.
_MAX_LABEL = 63
# Source: https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html (2026-08)
EBS_SERVICE_ACCOUNT = "ebs-csi-controller-sa"
# With AmazonEBSCSIDriverPolicyV2 the driver couldn't manage volumes without its tag, for example volumes that you
# created by hand. AWS' reference and the driver's own docs name different ARNs (2026-11). One of them fails the
# deployment.
EBS_POLICY = "service-role/AmazonEBSCSIDriverPolicy"
# Service account of its controller. The service account of its DaemonSet needs no role.
# Source: kubernetes-sigs/aws-fsx-csi-driver v1.9.0 charts/aws-fsx-csi-driver/values.yaml
_FSX_SERVICE_ACCOUNT = "fsx-csi-controller-sa"
# Service account of its DaemonSet, which mounts. The controller has another one, and calls no AWS API.
# Source: awslabs/mountpoint-s3-csi-driver 2.7.0 charts/aws-mountpoint-s3-csi-driver/values.yaml
_S3_SERVICE_ACCOUNT = "s3-csi-driver-sa"
# Source: https://github.com/awslabs/mountpoint-s3-csi-driver/issues/504 (2025-06)
_WITHOUT_POD_IDENTITY = ("v0.", "v1.")


def _refuse_unless_version(who: object, version: object) -> None:
    """Reject a value that is neither the version of an add-on nor `None`.

    Raises:
        TypeError: ``version`` isn't a string.
    """
    if version is not None and (not isinstance(version, str) or not version):
        raise TypeError(f"{who}: version must be a string, got {version!r}; write one such as 'v1.63.1-eksbuild.1'")


def _csi_addon(
    scope: Construct,
    *,
    cluster: ClusterRef,
    name: str,
    service_account: str,
    version: str | None,
    managed_policy_arns: Sequence[str] = (),
    values: Mapping[str, Any] | None = None,
) -> CsiDriver:
    """Install a driver's add-on into a cluster, and register the driver for the constructs that need it."""
    role = iam.CfnRole(
        scope,
        "Role",
        assume_role_policy_document=trust(
            scope, cluster_name=cluster.name_token, namespace=KUBE_SYSTEM, service_account=service_account
        ),
        managed_policy_arns=list(managed_policy_arns) or None,
    )
    keep_role(role, cluster, namespace=KUBE_SYSTEM, service_account=service_account)
    addon = eks_resources.CfnAddon(
        scope,
        "Resource",
        addon_name=name,
        addon_version=version,
        cluster_name=cluster.name_token,
        configuration_values=json.dumps(values) if values else None,
        pod_identity_associations=[{"roleArn": role.attr_arn, "serviceAccount": service_account}],
        # The template takes precedence over manual changes in the cluster.
        resolve_conflicts="OVERWRITE",
    )
    set_logical_id(addon, cluster, "Addon", name)
    cluster.software.addons[name] = values or {}
    # EKS rejects associations without the Pod Identity agent, and the pods need nodes.
    cluster.wait_for_foundation(cast("Construct", addon))
    driver = CsiDriver(addon=addon, role=role)
    cluster.csi_drivers[name] = driver
    return driver


@named_arguments
class EbsCsiDriver(Construct):
    """The EKS add-on ``aws-ebs-csi-driver``, with a role for its controller.

    A `GpuCluster` has it. Another cluster of this app gets it with the first `EbsStorageClass`. Create it for an
    imported cluster without the driver, which then needs the add-on ``eks-pod-identity-agent``. Auto Mode has its own
    driver.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/ebs-csi.html (2026-08)

    Args:
        cluster: Cluster to install into.
        version: Version of the add-on, e.g. ``v1.63.1-eksbuild.1``. Default: the default of EKS.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster already has the driver from this library, or uses Auto Mode.

    Attributes:
        driver: The add-on, and its role.
    """

    def __init__(self, scope: Construct, id: str, *, cluster: AnyCluster, version: str | None = None) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster)
        _refuse_unless_version(who, version)
        if ref.auto_mode:
            raise ValueError(
                f"{who}: cluster must not use Auto Mode, which has its own driver, got {ref.path!r}; remove the driver"
            )
        ref.claim(who, registry.EBS_CSI_DRIVER, why="both would manage the same volumes")
        policy = iam.ManagedPolicy.from_aws_managed_policy_name(EBS_POLICY)
        self.driver = _csi_addon(
            self,
            cluster=ref,
            name=EBS_CSI_DRIVER,
            service_account=EBS_SERVICE_ACCOUNT,
            version=version,
            managed_policy_arns=[policy.managed_policy_arn],
        )


@named_arguments
class FsxCsiDriver(Construct):
    """The EKS add-on ``aws-fsx-csi-driver``, with a role that has no permissions.

    The driver needs no permissions to mount existing file systems. A cluster of this app gets it with the first
    `LustreFileSystem`. Create it before that to set its version, or for an imported cluster without the driver. It
    needs the add-on ``eks-pod-identity-agent``, which a `GpuCluster` has.

    To create a file system for each claim, the role would need more permissions. This library never grants them,
    because no stack would delete these file systems. For existing file systems the driver doesn't need its region
    either. It tries the metadata service, then the Kubernetes API, and starts.

    Sources: https://docs.aws.amazon.com/eks/latest/userguide/fsx-csi.html,
    https://github.com/kubernetes-sigs/aws-fsx-csi-driver/blob/v1.9.0/docs/install.md (2026-11-22)

    Args:
        cluster: Cluster to install into.
        version: Version of the add-on, e.g. ``v1.9.0-eksbuild.1``. Default: the default of EKS.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster already has the driver from this library.

    Attributes:
        driver: The add-on, and its role.
    """

    def __init__(self, scope: Construct, id: str, *, cluster: AnyCluster, version: str | None = None) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster)
        _refuse_unless_version(who, version)
        ref.claim(who, registry.FSX_CSI_DRIVER, why="both would manage the same volumes")
        self.driver = _csi_addon(
            self, cluster=ref, name=FSX_CSI_DRIVER, service_account=_FSX_SERVICE_ACCOUNT, version=version
        )


@named_arguments
class S3CsiDriver(Construct):
    """The EKS add-on ``aws-mountpoint-s3-csi-driver``. Its role has no permissions until an `S3Volume` grants access.

    A cluster of this app gets it with the first `S3Volume`. Create it before that to set its version, or for an
    imported cluster without the driver. It needs the add-on ``eks-pod-identity-agent``, which a `GpuCluster` has.

    Sources: https://docs.aws.amazon.com/eks/latest/userguide/s3-csi.html,
    https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs/INSTALL.md (2026-08)

    Args:
        cluster: Cluster to install into.
        version: Version of the add-on, ``v2.0.0-eksbuild.1`` or newer. Default: the default of EKS.
        controller_tolerates: Keys of taints that its controller tolerates, for a cluster in which all nodes have
            taints. Driver v2.0.0 rejects this setting: https://github.com/aws/containers-roadmap/issues/2676. Default:
            none, as in the add-on.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster already has the driver from this library, the version doesn't support Pod Identity, or a
            key is invalid.

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
        _refuse_unless_version(who, version)
        if version is not None and version.startswith(_WITHOUT_POD_IDENTITY):
            raise ValueError(f"{who}: version must be v2 or newer to support Pod Identity, got {version!r}; raise it")
        keys = words(who, "controller_tolerates", controller_tolerates)
        for key in keys:
            if not QUALIFIED_NAME.fullmatch(key):
                raise ValueError(
                    f"{who}: controller_tolerates must contain keys of taints, got {key!r}; write ones such as "
                    "'CriticalAddonsOnly'"
                )
        ref.claim(who, registry.S3_CSI_DRIVER, why="both would manage the same volumes")
        # GPU nodes are tainted. The DaemonSet's pods tolerate every taint by default only in newer versions.
        values: dict[str, Any] = {"node": {"tolerateAllTaints": True}}
        if keys:
            values["controller"] = {"tolerations": [{"key": key, "operator": "Exists"} for key in keys]}
        self.driver = _csi_addon(
            self, cluster=ref, name=S3_CSI_DRIVER, service_account=_S3_SERVICE_ACCOUNT, version=version, values=values
        )


_DRIVERS: Mapping[StorageDriver, tuple[str, Callable[..., Construct]]] = {
    "ebs": (EBS_CSI_DRIVER, EbsCsiDriver),
    "fsx": (FSX_CSI_DRIVER, FsxCsiDriver),
    "s3": (S3_CSI_DRIVER, S3CsiDriver),
}


def csi_driver(cluster: ClusterRef, kind: StorageDriver) -> CsiDriver | None:
    """Return a driver of a cluster, or install it into a cluster of this app. An imported one may have its own."""
    name, construct = _DRIVERS[kind]
    if cluster.auto_mode is not None and name not in cluster.csi_drivers:
        construct(cluster.shared(cluster.stack), construct.__name__, cluster=cluster.cluster)
    return cluster.csi_drivers.get(name)


def install_drivers(who: object, cluster: ClusterRef, drivers: Iterable[StorageDriver]) -> None:
    """Install drivers into a cluster of this app. An imported cluster may have its own.

    Raises:
        ValueError: A driver exists, and its version is too old to remove its startup taint.
    """
    for each in drivers:
        made = csi_driver(cluster, each)
        version = made.addon.addon_version if made is not None else None
        if keeps_its_taint(DRIVER_NAMES[each], version):
            first, second = TAINT_REMOVED_SINCE[DRIVER_NAMES[each]]
            raise ValueError(
                f"{who}: storage_drivers must have drivers that remove their startup taint, got {each!r} of version "
                f"{version}; use v{first}.{second} or later, or leave it out"
            )


def volume_name(name: str, namespace: str) -> str:
    """Return the name of a claim's volume. It is unique, because names of namespaces and claims have no dot."""
    return f"{namespace}.{name}"


def refuse_unless_short(who: object, name: str, namespace: str) -> None:
    """Reject a name and namespace whose volume name is too long for a label: drivers label their pods with it.

    Raises:
        ValueError: They are too long together.
    """
    if len(volume_name(name, namespace)) > _MAX_LABEL:
        raise ValueError(
            f"{who}: name must be at most {_MAX_LABEL - len(volume_name('', namespace))} characters in namespace "
            f"{namespace!r}, got {name!r}; shorten it"
        )
