"""A shared file system of FSx for Lustre, with configurable throughput."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, get_args, runtime_checkable

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.delivery import apply_chart
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.installing.subnets import refuse_unless_vpc, subnet_zone
from gpu_constructs.storage.csi_drivers import csi_driver, refuse_unless_short, volume_name
from gpu_constructs.storage.s3_mount import refuse_unless_bucket, refuse_unless_prefix
from gpu_facts import storage as facts
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.named_arguments import named_arguments, named_call
from gpu_facts.refusals import (
    is_token,
    refuse_unless_bool,
    refuse_unless_instance,
    refuse_unless_key,
    refuse_unless_whole_number,
)
from gpu_facts.storage import LUSTRE_MIN_GIB

# Sources: https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateDataRepositoryAssociation.html,
# https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html (2026-11)
_PATH = re.compile(r"/|(/[^/\0\r\n]+)+")
_MOST_CHARACTERS = 4096
_MOST_CHUNK_MIB = 512_000
_MOST_LINKS = 8
_EVERY_CHANGE = ["NEW", "CHANGED", "DELETED"]
MbPerSecondPerTib = Literal[125, 250, 500, 1000]


@named_arguments
class LustreRepository(Construct):
    """A link between a bucket and a directory of a file system. `LustreFileSystem.add_data_repository` creates it.

    Args:
        file_system_id: Id of the file system.
        bucket: The bucket.
        path: Directory of the file system.
        prefix: Prefix of the objects' names, up to a ``/``.
        exports: Whether to write changes in the directory to the bucket.
        chunk_mib: Size of the pieces of a file on each disk, in MiB.
        beside: The other links of the file system.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The path or the prefix is invalid, another link has it, or the file system has the max number of
            links.

    Attributes:
        path: Directory of the file system.
        source: Linked objects, as ``s3://bucket/prefix``.
        resource: The data repository association.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        file_system_id: str,
        bucket: s3.IBucket,
        path: str,
        prefix: str,
        exports: bool,
        chunk_mib: int,
        beside: Sequence[LustreRepository] = (),
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        refuse_unless_bucket(who, bucket)
        refuse_unless_prefix(who, prefix)
        _refuse_unless_path(who, path)
        _refuse_other_region(who, self, bucket)
        refuse_unless_bool(who, "exports", exports)
        refuse_unless_whole_number(who, "chunk_mib", chunk_mib, least=1, most=_MOST_CHUNK_MIB)
        self.path = path
        self.source = f"s3://{bucket.bucket_name}/{prefix}"
        _refuse_unless_apart(who, self, beside)
        self.resource = fsx.CfnDataRepositoryAssociation(
            self,
            "Resource",
            file_system_id=file_system_id,
            file_system_path=path,
            data_repository_path=self.source,
            # Without it, FSx doesn't import existing files.
            batch_import_meta_data_on_create=True,
            imported_file_chunk_size=chunk_mib,
            s3={
                "autoImportPolicy": {"events": _EVERY_CHANGE},
                **({"autoExportPolicy": {"events": _EVERY_CHANGE}} if exports else {}),
            },
        )


def _refuse_other_region(who: object, scope: Construct, bucket: s3.IBucket) -> None:
    own, theirs = cdk.Stack.of(scope).region, bucket.env.region
    if not is_token(own) and not is_token(theirs) and own != theirs:
        raise ValueError(
            f"{who}: bucket must be in the file system's region {own!r}, got one in {theirs!r}; copy it, or mount it "
            "with S3Volume"
        )


def _refuse_unless_path(who: object, path: object) -> None:
    if not isinstance(path, str):
        raise TypeError(f"{who}: path must be a string, got {path!r}; write one such as '/corpus'")
    if not _PATH.fullmatch(path) or len(path) > _MOST_CHARACTERS:
        raise ValueError(
            f"{who}: path must be a directory of the file system, got {path!r}; write '/corpus', or '/' for all"
        )


def _refuse_unless_apart(who: object, link: LustreRepository, beside: Sequence[LustreRepository]) -> None:
    if len(beside) >= _MOST_LINKS:
        raise ValueError(
            f"{who}: file system must have at most {_MOST_LINKS} data repositories, got {len(beside) + 1}; link a "
            "prefix that contains several of them"
        )
    for each in beside:
        if _holds(link.path, each.path) or _holds(each.path, link.path):
            raise ValueError(
                f"{who}: path must not overlap the path of another link, {each.path!r}, got {link.path!r}; use another "
                "directory"
            )
        if link.source.startswith(each.source) or each.source.startswith(link.source):
            raise ValueError(
                f"{who}: objects must be linked to one directory, got objects of {link.path!r} that are also in "
                f"{each.path!r}; link prefixes that don't overlap, or mount the directory that has both"
            )


def _holds(path: str, other: str) -> bool:
    """Whether a directory is another one, or contains it."""
    return f"{other}/".startswith(f"{path.rstrip('/')}/")


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class PersistentLustre:
    """A file system that keeps its data if servers fail, in one zone: ``PERSISTENT_2`` on SSD.

    You pay for each GB and hour, whether you read it or not. A GB costs more with a higher throughput.

    Source: https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-fsx-lustre.html (2026-11)

    Attributes:
        size_gib: Size in GiB: 1200, 2400 or a multiple of 2400. You can increase it later, never decrease it.
        mb_s_per_tib: Throughput, in MB/s for each TiB of its size: 125, 250, 500 or 1000. You can change it later.
        compress: Whether to compress written data with LZ4.
        backup_days: Days for which FSx keeps a daily backup, at most 90, or 0 for none.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: FSx doesn't support such a file system.
    """

    size_gib: int = LUSTRE_MIN_GIB
    mb_s_per_tib: MbPerSecondPerTib = 125
    compress: bool = False
    backup_days: int = 0

    def __post_init__(self) -> None:
        _refuse_unless_size(self.size_gib)
        known = get_args(MbPerSecondPerTib)
        if isinstance(self.mb_s_per_tib, bool) or self.mb_s_per_tib not in known:
            raise ValueError(
                f"lustre: mb_s_per_tib must be one of {', '.join(map(str, known))}, got {self.mb_s_per_tib!r}; choose "
                "one"
            )
        refuse_unless_bool("lustre", "compress", self.compress)
        refuse_unless_whole_number(
            "lustre", "backup_days", self.backup_days, least=0, most=facts.LUSTRE_MAX_BACKUP_DAYS
        )

    def configuration(self) -> dict[str, object]:
        """Return the ``LustreConfiguration``."""
        return {
            "deploymentType": "PERSISTENT_2",
            "perUnitStorageThroughput": self.mb_s_per_tib,
            "automaticBackupRetentionDays": self.backup_days,
            "dataCompressionType": _compression(self.compress),
        }


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ScratchLustre:
    """A file system for data that you can create again, because a server failure loses it.

    It is of type ``SCRATCH_2``, at 200 MB/s for each TiB.

    Source: https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-fsx-lustre.html (2026-11)

    Attributes:
        size_gib: Size in GiB: 1200, 2400 or a multiple of 2400. You can increase it later, never decrease it.
        compress: Whether to compress written data with LZ4.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: FSx doesn't support such a file system.
    """

    size_gib: int = LUSTRE_MIN_GIB
    compress: bool = False

    def __post_init__(self) -> None:
        _refuse_unless_size(self.size_gib)
        refuse_unless_bool("lustre", "compress", self.compress)

    def configuration(self) -> dict[str, object]:
        """Return the ``LustreConfiguration``."""
        return {"deploymentType": "SCRATCH_2", "dataCompressionType": _compression(self.compress)}


LustreStorage: TypeAlias = PersistentLustre | ScratchLustre


def _refuse_unless_size(size: object) -> None:
    refuse_unless_whole_number("lustre", "size_gib", size, least=LUSTRE_MIN_GIB)
    if isinstance(size, int) and not facts.is_lustre_size(size):
        raise ValueError(f"lustre: size_gib must be {facts.lustre_sizes()}, got {size}; round it up")


def _compression(compress: bool) -> str:
    return "LZ4" if compress else "NONE"


@runtime_checkable
class PlacedPool(Protocol):
    """A pool whose subnets are known."""

    @property
    def subnets(self) -> Sequence[ec2.ISubnet]:
        """Subnets of its nodes."""


@named_arguments
class LustreFileSystem(Construct):
    """A file system of FSx for Lustre, and the claim with which pods of a namespace mount it.

    It installs `FsxCsiDriver` if a cluster of this app doesn't have it. The file system is in one zone, and its pods
    run there. From another zone it is slower, and you pay for each GB of traffic. You can increase its size and change
    its throughput in place.

    CloudFormation replaces it with an empty file system if the subnet, `key` or the class of ``storage`` changes.
    Kubernetes never changes the file system of a volume or the zone of its nodes. So a change of these, or of
    `other_zones`, fails and rolls back, unless you change ``name`` in the same deployment. FSx rejects a smaller size.

    A new file system belongs to root. Run ``chown`` in a pod as root: ``fsGroup`` and ``run_as_user`` don't change the
    owner.

    EFA to the file system, Intelligent-Tiering and a file system for each claim aren't supported. The version is 2.15.
    Auto Mode can mount it. It is unknown whether the kernels of AL2023 for Kubernetes 1.36 and of Bottlerocket can.

    Sources: https://docs.aws.amazon.com/fsx/latest/LustreGuide/what-is.html,
    https://github.com/kubernetes-sigs/aws-fsx-csi-driver/blob/v1.9.0/docs/install.md,
    https://github.com/kubernetes-sigs/aws-fsx-csi-driver/blob/v1.9.0/deploy/kubernetes/base/csidriver.yaml,
    https://github.com/kubernetes-sigs/aws-fsx-csi-driver/tree/v1.9.0/examples/kubernetes/static_provisioning (2026-11)

    Args:
        cluster: Cluster of the pods. It needs a kubectl provider.
        name: Name of the claim, which pods mount.
        storage: Type, size and throughput: `PersistentLustre` or `ScratchLustre`.
        pool: Pool whose pods mount it, in the same zone.
        subnet: Subnet of the file system. Default: the subnet of the pool, if it has only one.
        namespace: Existing namespace of the pods.
        other_zones: Whether pods may also run in other zones.
        key: Your own KMS key that encrypts it. The deploying role must be allowed to use it. Default: the account's key
            for FSx. A scratch file system doesn't support your own key.
        security_group_ids: Security groups of the nodes that mount it. The file system's own group allows TCP 988 and
            1018 to 1023 between it and these groups. Default: the cluster's own.
        vpc: VPC of the subnet, for a cluster that was imported without its VPC. Default: the cluster's.
        retain: Keep the file system, its data, and the rules between its servers when it leaves the app. It costs until
            you delete it. The rules for nodes are deleted. To mount the file system again, allow TCP 988 and 1018 to
            1023 from the nodes. The VPC can't be deleted before it.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A name is invalid, subnet and pool are in different zones, a zone or group is unknown, or the
            cluster already has a volume of this name from this library.

    Attributes:
        name: Name of the claim.
        namespace: Its namespace.
        storage: Its type, size and throughput.
        file_system: The file system.
        security_group: Security group of its network interfaces.
        resource: The objects in the cluster.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        name: str,
        storage: LustreStorage = PersistentLustre(),
        pool: PlacedPool | None = None,
        subnet: ec2.ISubnet | None = None,
        namespace: str = "default",
        other_zones: bool = False,
        key: kms.IKey | None = None,
        security_group_ids: Sequence[str] | None = None,
        vpc: ec2.IVpc | None = None,
        retain: bool = True,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_object_name(who, "name", name)
        refuse_unless_object_name(who, "namespace", namespace)
        kinds = "PersistentLustre(...) or ScratchLustre(...)"
        refuse_unless_instance(who, "storage", storage, get_args(LustreStorage), kinds)
        refuse_unless_bool(who, "other_zones", other_zones)
        refuse_unless_key(who, "key", key)
        refuse_unless_bool(who, "retain", retain)
        _refuse_key_of_scratch(who, storage, key)
        chosen = _subnet(who, subnet, pool)
        zone = None if other_zones else _zone(who, chosen)
        refuse_unless_short(who, name, namespace)
        clients = ref.security_group_ids(who, security_group_ids)
        network = _vpc(who, ref, vpc)

        self.name, self.namespace, self.storage = name, namespace, storage
        self._who, self._cluster, self._repositories = who, ref, list[LustreRepository]()
        self.security_group = ec2.SecurityGroup(self, "SecurityGroup", vpc=network, description="FSx for Lustre")
        self._open(clients)
        self.file_system = fsx.CfnFileSystem(
            self,
            "Resource",
            file_system_type="LUSTRE",
            # FSx' own default is older than the client on the nodes.
            file_system_type_version=facts.LUSTRE_VERSION,
            storage_capacity=storage.size_gib,
            storage_type="SSD",
            subnet_ids=[chosen.subnet_id],
            security_group_ids=[self.security_group.security_group_id],
            kms_key_id=key.key_arn if key is not None else None,
            lustre_configuration=storage.configuration(),
            tags=[cdk.CfnTag(key="Name", value=self.node.path)],
        )
        # FSx tests the connections between its servers before it creates the file system.
        self.file_system.node.add_dependency(self.security_group)
        self._keep(retain)
        self._zone = zone
        self.resource = self._volume("Volume", name, namespace)

    @named_call
    def add_claim(self, id: str, *, namespace: str, name: str | None = None) -> Construct:
        """Allow pods of another namespace to mount it, with a claim there.

        Args:
            id: Id of the claim in the construct tree.
            namespace: Existing namespace of the pods.
            name: Name of the claim. Default: the name of the first claim.

        Raises:
            ValueError: A name is invalid, or the cluster already has a volume of this name from this library.
        """
        called = self.name if name is None else name
        refuse_unless_object_name(self._who, "name", called)
        refuse_unless_object_name(self._who, "namespace", namespace)
        refuse_unless_short(self._who, called, namespace)
        return self._volume(id, called, namespace)

    def _volume(self, id: str, name: str, namespace: str) -> Construct:
        # A child claims it, because one construct could claim the same name twice without an error.
        scope = Construct(self, id)
        self._cluster.claim(PathOf(scope), f"volume {namespace}/{name}", why="they are one object of the cluster")
        # Imported here because cdk8s-plus takes a quarter of a second to load.
        from gpu_constructs.storage.manifests import lustre_chart

        chart = lustre_chart(
            name=name,
            namespace=namespace,
            volume=volume_name(name, namespace),
            size_gib=self.storage.size_gib,
            file_system_id=self.file_system.ref,
            dns_name=self.file_system.attr_dns_name,
            mount_name=self.file_system.attr_lustre_mount_name,
            zone=self._zone,
        )
        resource = apply_chart(scope, "Resource", cluster=self._cluster, chart=chart)
        driver = csi_driver(self._cluster, "fsx")
        if driver is not None:
            resource.node.add_dependency(driver.addon)
        return resource

    @named_call
    def add_data_repository(
        self,
        id: str,
        *,
        bucket: s3.IBucket,
        path: str,
        prefix: str = "",
        exports: bool = False,
        chunk_mib: int = 1024,
    ) -> LustreRepository:
        """Link a bucket or a prefix of it to a directory. FSx loads a file from the bucket at the first read.

        That read is as slow as S3, so read the files before a job. If your own KMS key encrypts the bucket, its policy
        must allow ``AWSServiceRoleForFSxS3Access_<id of the file system>``, which exists only after the deployment.

        Args:
            id: Id of the link in the construct tree.
            bucket: The bucket, in the same region.
            path: Directory of the file system, such as ``/corpus``.
            prefix: Prefix of the objects' names, up to a ``/``.
            exports: Whether to write changes in the directory to the bucket, and delete objects of deleted files.
            chunk_mib: Size of the pieces of a file on each disk, in MiB.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: The path is invalid, another link has it or the bucket's prefix, or the file system has the max
                number of links, or has backups.
        """
        if isinstance(self.storage, PersistentLustre) and self.storage.backup_days:
            raise ValueError(
                f"{self._who}: storage must have backup_days=0 with a data repository, got {self.storage.backup_days}; "
                "set it to 0, because FSx doesn't back up linked file systems"
            )
        found = LustreRepository(
            self,
            id,
            file_system_id=self.file_system.ref,
            bucket=bucket,
            path=path,
            prefix=prefix,
            exports=exports,
            chunk_mib=chunk_mib,
            beside=tuple(self._repositories),
        )
        self._repositories.append(found)
        return found

    def _open(self, clients: Sequence[str]) -> None:
        """Allow traffic between the file system and nodes, and between its servers, in both directions."""
        own = self.security_group.security_group_id
        for first, last in facts.LUSTRE_PORTS:
            self.security_group.add_ingress_rule(self.security_group, ec2.Port.tcp_range(first, last), "Its servers")
            for number, each in enumerate(clients, start=1):
                # The rules for nodes are separate resources, not part of the group. Otherwise a retained group would
                # refer to the cluster's group permanently, and EKS couldn't delete the cluster's group.
                for id, group, source in (("ToNodes", each, own), ("FromNodes", own, each)):
                    ec2.CfnSecurityGroupIngress(
                        self,
                        f"{id}{number}From{first}",
                        group_id=group,
                        ip_protocol="tcp",
                        from_port=first,
                        to_port=last,
                        source_security_group_id=source,
                        description="FSx for Lustre",
                    )

    def _keep(self, retain: bool) -> None:
        """Keep or delete it with its security group and the rules between its servers."""
        policy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if retain else cdk.RemovalPolicy.DESTROY
        self.file_system.apply_removal_policy(policy)
        for each in self.security_group.node.find_all():
            if isinstance(each, cdk.CfnResource):
                each.apply_removal_policy(policy)


def _refuse_key_of_scratch(who: object, storage: LustreStorage, key: object) -> None:
    # Source: https://docs.aws.amazon.com/fsx/latest/LustreGuide/encryption-at-rest.html (2026-11)
    if key is not None and not isinstance(storage, PersistentLustre):
        raise ValueError(
            f"{who}: key must be left out with ScratchLustre, which FSx encrypts with its own key, got one; use "
            "PersistentLustre"
        )


def _subnet(who: object, given: ec2.ISubnet | None, pool: object) -> ec2.ISubnet:
    if pool is not None and not isinstance(pool, PlacedPool):
        raise TypeError(f"{who}: pool must be a pool of this library, got {pool!r}; pass the result of add_pool")
    if given is not None and not hasattr(given, "subnet_id"):
        raise TypeError(
            f"{who}: subnet must be an ec2.ISubnet, got {given!r}; import one with Subnet.from_subnet_attributes"
        )
    of_pool = list(pool.subnets) if pool is not None else []
    if given is None:
        if len(of_pool) == 1:
            return of_pool[0]
        how_many = f"a pool with {len(of_pool)} subnets" if pool is not None else "None"
        raise ValueError(
            f"{who}: subnet must be given, got {how_many}; pass subnets=[one] to the pool and subnet=one here, because "
            "a file system is in one zone, and its pool should be in the same zone"
        )
    _refuse_other_zone(who, given, of_pool)
    return given


def _refuse_other_zone(who: object, subnet: ec2.ISubnet, of_pool: Sequence[ec2.ISubnet]) -> None:
    own, theirs = subnet_zone(subnet), [subnet_zone(each) for each in of_pool]
    if own is not None and theirs and None not in theirs and own not in theirs:
        raise ValueError(
            f"{who}: subnet must be in a zone of the pool, {', '.join(sorted(map(str, set(theirs))))}, got {own!r}; "
            "pass one of the pool's subnets"
        )


def _zone(who: object, subnet: ec2.ISubnet) -> str:
    """Return the zone of a subnet, as the template writes it."""
    try:
        return str(subnet.availability_zone)
    except RuntimeError as error:
        raise ValueError(
            f"{who}: subnet must have a known zone, got {subnet.node.path!r} without; import it with "
            "Subnet.from_subnet_attributes(availability_zone=...), or write other_zones=True"
        ) from error


def _vpc(who: object, cluster: ClusterRef, given: ec2.IVpc | None) -> ec2.IVpc:
    if given is None:
        return cluster.require_vpc(who, "vpc")
    refuse_unless_vpc(who, given)
    return given
