"""A bucket that pods mount, and the permissions of its driver."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import aws_cdk as cdk
import jsii
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from gpu_constructs.identity.workload_identity import WorkloadIdentity
from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.delivery import apply_chart
from gpu_constructs.installing.own_stack import owning_stack
from gpu_constructs.installing.pod_identity import policy_document
from gpu_constructs.installing.registry import CsiDriver, PathOf
from gpu_constructs.storage.csi_drivers import s3_csi_driver
from gpu_constructs.storage.s3_mount import S3Mount, refuse_unless_bucket, refuse_unless_prefix, resolve_bucket_region
from gpu_constructs.storage.volume_names import refuse_unless_short, volume_name
from gpu_facts.iam_policies import MAX_ATTACHED, MAX_INLINE, MAX_MANAGED, policy_size
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.light import regex
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_instance

_ID = "S3Permissions"
# An ARN of a bucket has at most 83 characters, and one of a key 90.
# Sources: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html,
# https://docs.aws.amazon.com/kms/latest/developerguide/concepts.html#key-id-key-ARN (2026-11)
_LONGEST_ARN = 90
_LONGEST_PARTITION = "aws-us-gov"
_PARTITION = regex(r"\$\{Token\[AWS\.Partition\.\d+\]\}")
# A volume and its key take 640 at most, so that 16 stacks or more can have one.
_MAX_OF_A_STACK = 640
_INLINE = "Policy"
_Statements = list[dict[str, Any]]


def mount_statements(*, bucket_arn: str, prefix: str, mount: S3Mount) -> list[dict[str, Any]]:
    """Return the least that Mountpoint needs of a bucket, without ids: one policy may hold those of several volumes.

    Source: https://github.com/awslabs/mountpoint-s3/blob/main/doc/CONFIGURATION.md#iam-permissions (2026-08)
    """
    under_prefix = {"Condition": {"StringLike": {"s3:prefix": f"{prefix}*"}}} if prefix else {}
    objects = ["s3:GetObject"]
    if not mount.read_only:
        objects += ["s3:AbortMultipartUpload", "s3:PutObject"]
    if mount.allow_delete:
        objects.append("s3:DeleteObject")
    return [
        {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": bucket_arn, **under_prefix},
        {"Effect": "Allow", "Action": objects, "Resource": f"{bucket_arn}/{prefix}*"},
    ]


def key_actions(mount: S3Mount) -> list[str]:
    """Return what Mountpoint needs of the key that encrypts a bucket."""
    return ["kms:Decrypt"] if mount.read_only else ["kms:Decrypt", "kms:GenerateDataKey"]


def grant_bucket_access(
    identity: WorkloadIdentity, bucket: s3.IBucket, statements: Sequence[dict[str, Any]], keys: Sequence[str]
) -> None:
    """Let the pods of an identity do to a bucket what some statements allow, and use its key where the CDK knows it."""
    for each in statements:
        statement = iam.PolicyStatement.from_json(each)
        identity.grant_principal.add_to_principal_policy(statement)
        # A role of another account needs it in both places; what grants do for that drops conditions.
        if identity.target_role is not None:
            bucket.add_to_resource_policy(statement.copy(principals=[identity.grant_principal]))
    if bucket.encryption_key is not None:
        bucket.encryption_key.grant(identity, *keys)


def grant_bucket_read(identity: WorkloadIdentity, bucket: s3.IBucket, prefix: str) -> None:
    """Let the pods of an identity list and read what is under a prefix of a bucket."""
    read_only = S3Mount()
    statements = mount_statements(bucket_arn=bucket.bucket_arn, prefix=prefix, mount=read_only)
    grant_bucket_access(identity, bucket, statements, key_actions(read_only))


def driver_permissions(construct: Construct, cluster: ClusterRef, driver: CsiDriver) -> DriverPermissions:
    """Return the policies of the volumes of one stack: the stack of the cluster must not depend on their buckets."""
    shared = cluster.shared(owning_stack(construct))
    found = shared.node.try_find_child(_ID)
    return found if isinstance(found, DriverPermissions) else DriverPermissions(shared, _ID, driver=driver)


@named_arguments
class DriverPermissions(Construct):
    """Policies of a driver's role, with the statements of all volumes of a stack.

    A role has 10,240 characters of inline policies, which is 26 volumes with one policy each, and 10 managed policies.
    So a stack with one or two volumes has an inline policy, and any other stack has managed policies. The name of a
    volume decides which of these has its statements, so that another volume moves none. If one grows too large, the
    last one gets a successor, which takes statements of all others. Each policy depends on its successor, so that a
    deployment adds statements there before it removes them here.

    Args:
        driver: The driver.
    """

    def __init__(self, scope: Construct, id: str, *, driver: CsiDriver) -> None:
        super().__init__(scope, id)
        self._driver = driver
        self._inline: iam.CfnRolePolicy | None = None
        self._managed: list[iam.CfnManagedPolicy] = []
        self._volumes: dict[str, _Statements] = {}
        driver.permissions.append(self)

    def allow(self, who: object, volume: str, statements: _Statements) -> None:
        """Add the statements of a volume.

        Args:
            who: The construct of the volume.
            volume: Value that differs from that of any other volume of the cluster.
            statements: What the driver may do for it.

        Raises:
            ValueError: IAM doesn't allow the role so many statements.
        """
        self._volumes[volume] = statements
        if not self._managed and _size(self.document()) <= _MAX_OF_A_STACK:
            self._inline = self._inline or self._make_inline()
        else:
            if self._inline is not None:
                self.node.try_remove_child(_INLINE)
                self._inline = None
            while not self._managed or any(_size(self.document(each)) > MAX_MANAGED for each in self._numbers):
                self._add_managed()
                self._refuse_too_many(who)
        self._refuse_too_many(who)

    def _refuse_too_many(self, who: object) -> None:
        stacks: list[DriverPermissions] = self._driver.permissions
        managed = sum(len(each._managed) for each in stacks)
        inline = sum(_size(each.document()) for each in stacks if each._inline is not None)
        if managed > MAX_ATTACHED or inline > MAX_INLINE:
            volumes = sum(len(each._volumes) for each in stacks)
            raise ValueError(
                f"{who}: identity must be given, got None with permissions of {volumes} volumes in {len(stacks)} "
                f"stacks that don't fit in the {MAX_ATTACHED} managed policies of {MAX_MANAGED:,} characters and the "
                f"{MAX_INLINE:,} characters of inline policies that IAM allows the role of the driver; pass "
                "identity=WorkloadIdentity(...), which mounts the volume with a role of its own, or define the volumes "
                "in fewer stacks"
            )

    def _make_inline(self) -> iam.CfnRolePolicy:
        return iam.CfnRolePolicy(
            self,
            _INLINE,
            role_name=self._driver.role.ref,
            policy_name=cdk.Names.unique_resource_name(self, max_length=128),
            policy_document=cdk.Lazy.any(_Document(self, None)),
        )

    def _add_managed(self) -> None:
        number = len(self._managed)
        made = iam.CfnManagedPolicy(
            self,
            f"Policy{number + 1}",
            roles=[self._driver.role.ref],
            policy_document=cdk.Lazy.any(_Document(self, number)),
        )
        if self._managed:
            self._managed[-1].node.add_dependency(made)
        self._managed.append(made)

    @property
    def _numbers(self) -> range:
        return range(len(self._managed))

    def document(self, number: int | None = None) -> dict[str, Any]:
        """Return the document of one of the managed policies, or with all statements."""
        own = (
            each
            for volume, each in self._volumes.items()
            if number is None or _place(volume, len(self._managed)) == number
        )
        return policy_document(_merged(statement for each in own for statement in each))


def _size(document: Mapping[str, Any]) -> int:
    text = json.dumps(document, separators=(",", ":"))
    return policy_size(_PARTITION.sub(_LONGEST_PARTITION, text), open_characters=_LONGEST_ARN)


@jsii.implements(cdk.IStableAnyProducer)
class _Document:
    """A policy document that is known when every volume has been defined."""

    def __init__(self, permissions: DriverPermissions, number: int | None) -> None:
        self._permissions, self._number = permissions, number

    def produce(self) -> Any:
        """Return the document."""
        return self._permissions.document(self._number)


def _place(volume: str, policies: int) -> int:
    """Return the number of the policy with the statements of a volume: one policy more takes from all others."""
    return max(range(policies), key=lambda number: hashlib.sha256(f"{number}/{volume}".encode()).digest())


def _merged(statements: Iterable[Mapping[str, Any]]) -> _Statements:
    """Return fewer statements that allow exactly the same: with all prefixes of a bucket, and with all resources."""
    prefixes: dict[tuple[tuple[str, ...], str], dict[str | None, None]] = {}
    for each in statements:
        prefix = each.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
        prefixes.setdefault((tuple(each["Action"]), each["Resource"]), {})[prefix] = None
    resources: dict[tuple[tuple[str, ...], tuple[str | None, ...]], list[str]] = {}
    for (actions, resource), found in prefixes.items():
        # A statement without a prefix allows what others for the same bucket allow with one.
        resources.setdefault((actions, () if None in found else tuple(found)), []).append(resource)
    return [
        {
            "Effect": "Allow",
            "Action": list(actions),
            "Resource": _single(each),
            **({"Condition": {"StringLike": {"s3:prefix": _single(limits)}}} if limits else {}),
        }
        for (actions, limits), each in resources.items()
    ]


def _single(values: Sequence[Any]) -> Any:
    return values[0] if len(values) == 1 else list(values)


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
        lies_in = resolve_bucket_region(self, who, bucket, region)
        refuse_unless_short(who, name, namespace)
        ref.claim(who, f"volume {namespace}/{name}", why="they are one object of the cluster")

        self.name, self.namespace = name, namespace
        driver = s3_csi_driver(ref)
        # Not above: it loads cdk8s, which takes a second.
        from gpu_constructs.storage.manifests import s3_volume_chart

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
            grant_bucket_access(identity, bucket, statements, key_actions(mount))
            self.resource.node.add_dependency(identity)
        else:
            self._grant_driver_access(ref, bucket, statements, mount)

    def _grant_driver_access(
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
