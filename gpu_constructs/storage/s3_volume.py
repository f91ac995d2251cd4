"""A bucket that pods mount."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from constructs import Construct

from gpu_constructs.identity.workload_identity import WorkloadIdentity
from gpu_constructs.installing.claims import PathOf
from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.delivery import apply_chart
from gpu_constructs.storage.driver_permissions import driver_permissions
from gpu_constructs.storage.s3_csi_driver import s3_csi_driver
from gpu_constructs.storage.s3_mount import S3Mount
from gpu_constructs.storage.s3_names import refuse_unless_bucket, refuse_unless_prefix, region_of
from gpu_constructs.storage.s3_permissions import key_actions, let_pods, mount_statements
from gpu_constructs.storage.volume_names import refuse_unless_short, volume_name
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_instance


@named_arguments
class S3Volume(Construct):
    """A bucket, or what it has under a prefix, as a volume that any number of pods of a namespace mount.

    Brings `S3CsiDriver` into a cluster of this app that has none. Nothing in the bucket is made or deleted with it.

    Kubernetes never changes the bucket of a volume, the size of its cache, and whether it has an `identity`. If you
    change one of them, the deployment fails and rolls back, unless you change ``name`` in the same deployment. Other
    options of the mount reach pods that start later.

    Source: https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs/CONFIGURATION.md (2026-08)

    Args:
        cluster: Cluster of the pods; needs a kubectl provider.
        name: Name of the claim, which pods mount.
        bucket: The bucket; a key of yours that encrypts it may be used, too, where the CDK knows it.
        namespace: Existing namespace, the pods' own.
        prefix: What the names of its objects begin with, up to a ``/``. Default: all of the bucket.
        mount: How pods see it.
        identity: Who reads it, of the same namespace: then every pod mounts it as its own service account, and may what
            that may. Default: the driver, for every pod that mounts the claim.
        region: Region of the bucket. Default: what the bucket knows, which of an imported one may be the stack's.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A name, the prefix or the region is none, no bucket of the region can be called so, the cluster has
            a volume of the name from this library, the identity is of another namespace, or IAM doesn't allow the
            driver permissions for as many volumes without one.

    Attributes:
        name: Name of the claim.
        namespace: Its namespace.
        resource: The objects in the cluster.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        name: str,
        bucket: s3.IBucket,
        namespace: str = "default",
        prefix: str = "",
        mount: S3Mount = S3Mount(),  # noqa: B008 - frozen value
        identity: WorkloadIdentity | None = None,
        region: str | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_object_name(who, "name", name)
        refuse_unless_object_name(who, "namespace", namespace)
        refuse_unless_bucket(who, bucket)
        refuse_unless_prefix(who, prefix)
        refuse_unless_instance(who, "mount", mount, S3Mount, "S3Mount(...)")
        _refuse_unless_identity(who, identity, namespace)
        lies_in = region_of(self, who, bucket, region)
        refuse_unless_short(who, name, namespace)
        ref.claim(who, f"volume {namespace}/{name}", why="they are one object of the cluster")

        self.name, self.namespace = name, namespace
        driver = s3_csi_driver(ref)
        # Not above: it loads cdk8s, which takes a second.
        from gpu_constructs.storage.s3_volume_manifest import s3_volume_chart

        chart = s3_volume_chart(
            name=name,
            namespace=namespace,
            volume=volume_name(name, namespace),
            bucket_name=bucket.bucket_name,
            region=lies_in,
            prefix=prefix,
            mount=mount,
            by_pod=identity is not None,
        )
        self.resource = apply_chart(self, "Resource", cluster=ref, chart=chart)
        if driver is not None:
            self.resource.node.add_dependency(driver.addon)
        statements = mount_statements(bucket_arn=bucket.bucket_arn, prefix=prefix, mount=mount)
        if identity is not None:
            let_pods(identity, bucket, statements, key_actions(mount))
            self.resource.node.add_dependency(identity)
        else:
            self._let_driver(ref, bucket, statements, mount)

    def _let_driver(
        self, ref: ClusterRef, bucket: s3.IBucket, statements: list[dict[str, Any]], mount: S3Mount
    ) -> None:
        driver = s3_csi_driver(ref)
        if driver is None:
            cdk.Annotations.of(self).add_warning_v2(
                "gpu-constructs:bucketUnread",
                f"{self.node.path}: the driver of an imported cluster gets no right to mount the bucket here; make its "
                "S3CsiDriver in this app, pass an identity, or let the driver's role read the bucket",
            )
            return
        key = bucket.encryption_key
        if key is not None:
            statements = [*statements, {"Effect": "Allow", "Action": key_actions(mount), "Resource": key.key_arn}]
        permissions = driver_permissions(self, ref, driver)
        permissions.allow(PathOf(self), f"{self.namespace}/{self.name}", statements)
        self.resource.node.add_dependency(permissions)


def _refuse_unless_identity(who: object, identity: object, namespace: str) -> None:
    if identity is None:
        return
    if not isinstance(identity, WorkloadIdentity):
        raise TypeError(f"{who}: identity must be a WorkloadIdentity, got {identity!r}")
    if identity.namespace != namespace:
        raise ValueError(
            f"{who}: identity must be of namespace {namespace!r}, as the volume is, got {identity.node.path!r} of "
            f"{identity.namespace!r}; pods mount claims of their own namespace"
        )
