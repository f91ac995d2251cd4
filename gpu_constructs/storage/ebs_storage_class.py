"""A class of EBS volumes that pods claim."""

from __future__ import annotations

from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.delivery import apply_chart
from gpu_constructs.installing.pod_identity import policy_document
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.pools.disk import Gp3
from gpu_constructs.storage.csi_drivers import csi_driver
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_bool, refuse_unless_key


@named_arguments
class EbsStorageClass(Construct):
    """A StorageClass of encrypted EBS volumes. EBS creates a volume when a pod needs it, in the zone of the pod's node.

    It installs `EbsCsiDriver` if a cluster of this app doesn't have it. A volume stays in its zone, and so do the pods
    that claim it.

    Kubernetes never changes the volume, the key and `retain` of a class. If you change one of them, the deployment
    fails and rolls back, unless you change ``name`` in the same deployment.

    Sources: https://docs.aws.amazon.com/eks/latest/userguide/ebs-csi.html,
    https://docs.aws.amazon.com/eks/latest/userguide/create-storage-class.html (2026-08)

    Args:
        cluster: Cluster of the pods. It needs a kubectl provider.
        name: Name of the class, which claims state as ``storageClassName``.
        volume: Type of each volume.
        key: Your own KMS key that encrypts the volumes. The construct grants its use to the driver's role. The key
            policy must delegate to IAM, as for a key that you create with the CDK. For Auto Mode, also call
            `grant_volume_key`. Default: the account's key for EBS.
        is_default: Make the class the default for claims without a class. EKS itself sets no default class.
        retain: Keep a volume when its claim is deleted. It costs until you delete it.
        auto_mode: Whether an imported cluster uses Auto Mode. Default: the cluster's own setting, or no for an imported
            one.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster already has a class of this name, or a default class, from this library. Or
            ``auto_mode`` differs from the cluster.

    Attributes:
        name: Name of the class.
        resource: The object in the cluster.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        name: str,
        volume: Gp3 = Gp3(),  # noqa: B008 - frozen value
        key: kms.IKey | None = None,
        is_default: bool = False,
        retain: bool = False,
        auto_mode: bool | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_object_name(who, "name", name)
        if not isinstance(volume, Gp3):
            raise TypeError(f"{who}: volume must be a Gp3, got {volume!r}; write Gp3(...)")
        refuse_unless_key(who, "key", key)
        refuse_unless_bool(who, "is_default", is_default)
        refuse_unless_bool(who, "retain", retain)
        in_auto_mode = _in_auto_mode(who, ref, auto_mode)
        ref.claim(who, f"StorageClass {name!r}", why="they are one object of the cluster")
        if is_default:
            ref.claim(who, "default StorageClass", why="Kubernetes uses the newest of several")

        self.name = name
        driver = None if in_auto_mode else csi_driver(ref, "ebs")
        # Imported here because cdk8s-plus takes a quarter of a second to load.
        from gpu_constructs.storage.manifests import storage_class_chart

        chart = storage_class_chart(
            name=name,
            volume=volume,
            key_arn=key.key_arn if key is not None else None,
            is_default=is_default,
            retain=retain,
            auto_mode=in_auto_mode,
        )
        self.resource = apply_chart(self, "Resource", cluster=ref, chart=chart)
        if driver is not None:
            self.resource.node.add_dependency(driver.addon)
        if key is not None:
            role = _role_of_auto_mode(ref) if in_auto_mode else driver.role.ref if driver is not None else None
            self._grant_key_use(key, role)

    def _grant_key_use(self, key: kms.IKey, role_name: str | None) -> None:
        """Grant the driver use of a key, if its role is known."""
        if role_name is None:
            cdk.Annotations.of(self).add_warning_v2(
                "gpu-constructs:volumeKey",
                f"{self.node.path}: the library can't grant the driver of an imported cluster use of the key; create "
                "its EbsCsiDriver in this app, or allow its role to use the key",
            )
            return
        policy = iam.CfnRolePolicy(
            self,
            "UseKey",
            role_name=role_name,
            policy_name=cdk.Names.unique_resource_name(self, max_length=128),
            policy_document=policy_document(_use_of_key(key.key_arn)),
        )
        self.resource.node.add_dependency(policy)


def _use_of_key(key_arn: str) -> list[dict[str, Any]]:
    """Return the minimal permissions with which a driver can encrypt volumes with a key.

    Source: https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html (2026-08)
    """
    use = ("Decrypt", "DescribeKey", "GenerateDataKeyWithoutPlaintext", "ReEncryptFrom", "ReEncryptTo")
    return [
        {"Sid": "Encrypt", "Effect": "Allow", "Action": [f"kms:{each}" for each in use], "Resource": key_arn},
        {
            "Sid": "Attach",
            "Effect": "Allow",
            "Action": "kms:CreateGrant",
            "Resource": key_arn,
            "Condition": {"Bool": {"kms:GrantIsForAWSResource": "true"}},
        },
    ]


def _in_auto_mode(who: object, cluster: ClusterRef, given: object) -> bool:
    if given is not None:
        refuse_unless_bool(who, "auto_mode", given)
    if cluster.auto_mode is not None and given not in (None, cluster.auto_mode):
        raise ValueError(
            f"{who}: auto_mode must be the cluster's setting {cluster.auto_mode}, got {given}; leave it out"
        )
    return bool(given if cluster.auto_mode is None else cluster.auto_mode)


def _role_of_auto_mode(cluster: ClusterRef) -> str | None:
    """Return the role with which Auto Mode creates volumes, for a cluster that this app creates."""
    return cast("eks.Cluster", cluster.cluster).role.role_name if cluster.auto_mode is not None else None
