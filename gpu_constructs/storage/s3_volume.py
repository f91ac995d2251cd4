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
from gpu_constructs.installing.context import owning_stack
from gpu_constructs.installing.delivery import apply_chart
from gpu_constructs.installing.pod_identity import policy_document
from gpu_constructs.installing.registry import CsiDriver, PathOf
from gpu_constructs.storage.csi_drivers import csi_driver, refuse_unless_short, volume_name
from gpu_constructs.storage.s3_mount import S3Mount, refuse_unless_bucket, refuse_unless_prefix, resolve_bucket_region
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
# A volume and its key need 640 characters at most, so that 16 stacks or more can have one.
_MAX_OF_A_STACK = 640
_INLINE = "Policy"
_Statements = list[dict[str, Any]]


def mount_statements(*, bucket_arn: str, prefix: str, mount: S3Mount) -> list[dict[str, Any]]:
    """Return the minimal permissions of Mountpoint for a bucket, without ids: one policy may contain several volumes.

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
    """Return the permissions of Mountpoint for the key that encrypts a bucket."""
    return ["kms:Decrypt"] if mount.read_only else ["kms:Decrypt", "kms:GenerateDataKey"]


def _grant_bucket_access(
    identity: WorkloadIdentity, bucket: s3.IBucket, statements: Sequence[dict[str, Any]], keys: Sequence[str]
) -> None:
    """Grant the pods of an identity statements for a bucket, and the use of its key if the CDK has the key."""
    for each in statements:
        statement = iam.PolicyStatement.from_json(each)
        identity.grant_principal.add_to_principal_policy(statement)
        # A role of another account needs permissions in both places. The CDK's grants would drop conditions there.
        if identity.target_role is not None:
            bucket.add_to_resource_policy(statement.copy(principals=[identity.grant_principal]))
    if bucket.encryption_key is not None:
        bucket.encryption_key.grant(identity, *keys)


def grant_bucket_read(identity: WorkloadIdentity, bucket: s3.IBucket, prefix: str) -> None:
    """Grant the pods of an identity to list and read objects under a prefix of a bucket."""
    read_only = S3Mount()
    statements = mount_statements(bucket_arn=bucket.bucket_arn, prefix=prefix, mount=read_only)
    _grant_bucket_access(identity, bucket, statements, key_actions(read_only))


def driver_permissions(construct: Construct, cluster: ClusterRef, driver: CsiDriver) -> DriverPermissions:
    """Return the policies for the volumes of one stack. The stack of the cluster must not depend on their buckets."""
    shared = cluster.shared(owning_stack(construct))
    found = shared.node.try_find_child(_ID)
    return found if isinstance(found, DriverPermissions) else DriverPermissions(shared, _ID, driver=driver)


@named_arguments
class DriverPermissions(Construct):
    """Policies of a driver's role, with the statements of all volumes of a stack.

    A role allows 10,240 characters of inline policies, i.e. 26 volumes with one policy each, and 10 managed policies.
    So a stack with one or two volumes has an inline policy, and any other stack has managed policies. The name of a
    volume selects the policy with its statements, so that a new volume moves no statements. If a policy grows too
    large, the last one gets a successor, which receives statements from all others. Each policy depends on its
    successor, so that a deployment adds statements there before it removes them here.

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
            volume: Value that is unique to the volume in the cluster.
            statements: Permissions of the driver for it.

        Raises:
            ValueError: The statements exceed the limits of IAM for the role.
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
                "identity=WorkloadIdentity(...) to mount the volume with a separate role, or define the volumes in "
                "fewer stacks"
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
    """A policy document that is complete when every volume has been defined."""

    def __init__(self, permissions: DriverPermissions, number: int | None) -> None:
        self._permissions, self._number = permissions, number

    def produce(self) -> Any:
        """Return the document."""
        return self._permissions.document(self._number)


def _place(volume: str, policies: int) -> int:
    """Return the number of the policy with the statements of a volume. An additional policy takes from all others."""
    return max(range(policies), key=lambda number: hashlib.sha256(f"{number}/{volume}".encode()).digest())


def _merged(statements: Iterable[Mapping[str, Any]]) -> _Statements:
    """Merge statements without a change of permissions: with all prefixes of a bucket, and with all resources."""
    prefixes: dict[tuple[tuple[str, ...], str], dict[str | None, None]] = {}
    for each in statements:
        prefix = each.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
        prefixes.setdefault((tuple(each["Action"]), each["Resource"]), {})[prefix] = None
    resources: dict[tuple[tuple[str, ...], tuple[str | None, ...]], list[str]] = {}
    for (actions, resource), found in prefixes.items():
        # A statement without a prefix includes the permissions of statements for the same bucket with one.
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
    """A bucket or a prefix of it as a volume. Any number of pods of a namespace can mount it.

    It installs `S3CsiDriver` if a cluster of this app doesn't have it. It creates and deletes no objects in the bucket.

    For each volume, the driver starts a pod in namespace ``mount-s3`` on the node, after your pod is scheduled. Neither
    the scheduler nor an autoscaler counts that pod or the cache. On a full node, your pod stays in ContainerCreating,
    so request less than the whole node. The driver can reserve room, but that is experimental and isn't used:
    https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs/HEADROOM_FOR_MPPOD.md

    The driver's role has room for more than 200 volumes of one stack, or for one volume in each of 16 stacks. Beyond
    that, pass ``identity``. Directory buckets (S3 Express) aren't supported.

    Kubernetes never changes the bucket of a volume, the size of its cache, and whether it has an `identity`. If you
    change one of them, the deployment fails and rolls back, unless you change ``name`` in the same deployment. Changes
    of other mount options affect only pods that start later.

    Source: https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs/CONFIGURATION.md (2026-08)

    Args:
        cluster: Cluster of the pods. It needs a kubectl provider.
        name: Name of the claim, which pods mount.
        bucket: The bucket. If your own KMS key encrypts it and the CDK has the key, the driver also gets access to the
            key.
        namespace: Existing namespace of the pods.
        prefix: Prefix of the objects' names, up to a ``/``. Default: the whole bucket.
        mount: Mount options.
        identity: Identity that reads it, of the same namespace. Then every pod mounts it as its own service account,
            with the permissions of this account. Default: the driver, for every pod that mounts the claim.
        region: Region of the bucket. Default: the region of the bucket construct, which for an imported bucket may be
            the stack's.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A name, the prefix or the region is invalid, or the region doesn't allow the bucket's name. Or the
            cluster already has a volume of this name from this library, or the identity is of another namespace. Or the
            permissions of volumes without identity exceed the limits of IAM.

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
        driver = csi_driver(ref, "s3")
        # Imported here because cdk8s-plus takes a quarter of a second to load.
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
            _grant_bucket_access(identity, bucket, statements, key_actions(mount))
            self.resource.node.add_dependency(identity)
        else:
            self._grant_driver_access(ref, bucket, statements, mount)

    def _grant_driver_access(
        self, ref: ClusterRef, bucket: s3.IBucket, statements: list[dict[str, Any]], mount: S3Mount
    ) -> None:
        driver = csi_driver(ref, "s3")
        if driver is None:
            cdk.Annotations.of(self).add_warning_v2(
                "gpu-constructs:bucketUnread",
                f"{self.node.path}: the library can't grant the driver of an imported cluster access to the bucket; "
                "create its S3CsiDriver in this app, pass an identity, or allow the driver's role to read the bucket",
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
        raise TypeError(f"{who}: identity must be a WorkloadIdentity, got {identity!r}; create WorkloadIdentity(...)")
    if identity.namespace != namespace:
        raise ValueError(
            f"{who}: identity must be of the volume's namespace {namespace!r}, got {identity.node.path!r} of "
            f"{identity.namespace!r}; create one in that namespace, because pods mount only claims of their namespace"
        )
