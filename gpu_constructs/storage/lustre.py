"""A file system that many nodes read and write at once, as fast as it is paid for."""

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
from gpu_constructs.storage.csi_drivers import fsx_csi_driver
from gpu_constructs.storage.s3_mount import refuse_unless_bucket, refuse_unless_prefix
from gpu_constructs.storage.volume_names import refuse_unless_short, volume_name
from gpu_facts.hardware.lustre import LEAST_GIB, MOST_BACKUP_DAYS, PORTS, VERSION, is_size, sizes
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.named_arguments import named_arguments, named_call
from gpu_facts.refusals import (
    is_token,
    refuse_unless_bool,
    refuse_unless_instance,
    refuse_unless_key,
    refuse_unless_whole_number,
)

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
    """A link between a bucket and a directory of a file system; `LustreFileSystem.add_data_repository` makes it.

    Args:
        file_system_id: Id of the file system.
        bucket: The bucket.
        path: Directory of the file system.
        prefix: What the names of its objects begin with, up to a ``/``.
        exports: Write what changes in the directory to the bucket.
        chunk_mib: Size of the pieces of a file on each disk, in MiB.
        beside: The other links of the file system.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The path or the prefix is none, another link has it, or the file system has as many as it can.

    Attributes:
        path: Directory of the file system.
        source: What is behind it, as ``s3://bucket/prefix``.
        resource: The association.
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
            # Otherwise files that are there already are not seen.
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
            f"{who}: bucket must be of the file system's region {own!r}, got one of {theirs!r}; copy it, or read it by "
            "S3Volume"
        )


def _refuse_unless_path(who: object, path: object) -> None:
    if not isinstance(path, str):
        raise TypeError(f"{who}: path must be a string, got {path!r}")
    if not _PATH.fullmatch(path) or len(path) > _MOST_CHARACTERS:
        raise ValueError(f"{who}: path must be a directory such as '/corpus', or '/' for all, got {path!r}")


def _refuse_unless_apart(who: object, link: LustreRepository, beside: Sequence[LustreRepository]) -> None:
    if len(beside) >= _MOST_LINKS:
        raise ValueError(
            f"{who}: file system must have at most {_MOST_LINKS} data repositories, got {len(beside) + 1}; link a "
            "prefix that holds several of them"
        )
    for each in beside:
        if _holds(link.path, each.path) or _holds(each.path, link.path):
            raise ValueError(
                f"{who}: path must lie apart from that of the other link, {each.path!r}, got {link.path!r}; name a "
                "directory beside it"
            )
        if link.source.startswith(each.source) or each.source.startswith(link.source):
            raise ValueError(
                f"{who}: objects must be linked to one directory, got those of {link.path!r} behind {each.path!r} too; "
                "link prefixes that lie apart, or mount the one that has both"
            )


def _holds(path: str, other: str) -> bool:
    """Whether a directory is another one, or has it in it."""
    return f"{other}/".startswith(f"{path.rstrip('/')}/")


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class PersistentLustre:
    """A file system that keeps its data while servers fail, in one zone: ``PERSISTENT_2`` on SSD.

    It is paid by the GB and the hour, read or not, and a GB costs more the faster it is.

    Source: https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-fsx-lustre.html (2026-11)

    Attributes:
        size_gib: Size in GiB: 1200, 2400 or a multiple of 2400. It may grow later, never shrink.
        mb_s_per_tib: Throughput, in MB/s for each TiB of its size; may change later.
        compress: Compress with LZ4 what is written.
        backup_days: Days for which a daily backup is kept, at most 90; 0 for none.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: FSx makes no such file system.
    """

    size_gib: int = LEAST_GIB
    mb_s_per_tib: MbPerSecondPerTib = 125
    compress: bool = False
    backup_days: int = 0

    def __post_init__(self) -> None:
        _refuse_unless_size(self.size_gib)
        known = get_args(MbPerSecondPerTib)
        if isinstance(self.mb_s_per_tib, bool) or self.mb_s_per_tib not in known:
            raise ValueError(
                f"lustre: mb_s_per_tib must be one of {', '.join(map(str, known))}, got {self.mb_s_per_tib!r}"
            )
        refuse_unless_bool("lustre", "compress", self.compress)
        refuse_unless_whole_number("lustre", "backup_days", self.backup_days, least=0, most=MOST_BACKUP_DAYS)

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
    """A file system whose data is lost with a server, for what can be made again: ``SCRATCH_2``, at 200 MB/s a TiB.

    Source: https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-fsx-lustre.html (2026-11)

    Attributes:
        size_gib: Size in GiB: 1200, 2400 or a multiple of 2400. It may grow later, never shrink.
        compress: Compress with LZ4 what is written.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: FSx makes no such file system.
    """

    size_gib: int = LEAST_GIB
    compress: bool = False

    def __post_init__(self) -> None:
        _refuse_unless_size(self.size_gib)
        refuse_unless_bool("lustre", "compress", self.compress)

    def configuration(self) -> dict[str, object]:
        """Return the ``LustreConfiguration``."""
        return {"deploymentType": "SCRATCH_2", "dataCompressionType": _compression(self.compress)}


LustreStorage: TypeAlias = PersistentLustre | ScratchLustre


def _refuse_unless_size(size: object) -> None:
    refuse_unless_whole_number("lustre", "size_gib", size, least=LEAST_GIB)
    if isinstance(size, int) and not is_size(size):
        raise ValueError(f"lustre: size_gib must be {sizes()}, got {size}")


def _compression(compress: bool) -> str:
    return "LZ4" if compress else "NONE"


@runtime_checkable
class PlacedPool(Protocol):
    """Nodes whose subnets are known."""

    @property
    def subnets(self) -> Sequence[ec2.ISubnet]:
        """Where its nodes start."""


@named_arguments
class LustreFileSystem(Construct):
    """A file system of FSx for Lustre, and the claim by which pods of a namespace mount it.

    Brings `FsxCsiDriver` into a cluster of this app that has none. The file system lies in one zone, and its pods run
    there: from another zone it is slower, and each GB is billed. Its size grows and its throughput changes in place.

    CloudFormation replaces it with an empty file system if the subnet, `key` or the class of ``storage`` change.
    Kubernetes never changes the file system of a volume and the zone of its nodes. So a change of these, or of
    `other_zones`, fails and rolls back, unless you change ``name`` in the same deployment. FSx rejects a smaller size.

    Sources: https://docs.aws.amazon.com/fsx/latest/LustreGuide/what-is.html,
    https://github.com/kubernetes-sigs/aws-fsx-csi-driver/tree/v1.9.0/examples/kubernetes/static_provisioning (2026-11)

    Args:
        cluster: Cluster of the pods; needs a kubectl provider.
        name: Name of the claim, which pods mount.
        storage: How large and fast it is, and whether it lasts.
        pool: Pool whose pods mount it, of the same zone.
        subnet: Where it lies. Default: the subnet of the pool, where that has one.
        namespace: Existing namespace, the pods' own.
        other_zones: Let pods run in other zones, too.
        key: Key of yours that encrypts it; whoever deploys has to be allowed to use it. Default: the account's key for
            FSx; a scratch file system takes none of yours.
        security_group_ids: Groups of the nodes that mount it. Default: the cluster's own.
        vpc: VPC of the subnet, for a cluster that was imported without its VPC. Default: the cluster's.
        retain: Keep it, its data, and the rules among its servers, when it is taken out of the app; it costs until
            somebody deletes it. The rules for nodes are deleted.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A name is none, subnet and pool lie in different zones, a zone or group is not known, or the cluster
            has a volume of the name from this library.

    Attributes:
        name: Name of the claim.
        namespace: Its namespace.
        storage: How large and fast it is.
        file_system: The file system.
        security_group: Who reaches it.
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
            # FSx' own default is older than what nodes speak.
            file_system_type_version=VERSION,
            storage_capacity=storage.size_gib,
            storage_type="SSD",
            subnet_ids=[chosen.subnet_id],
            security_group_ids=[self.security_group.security_group_id],
            kms_key_id=key.key_arn if key is not None else None,
            lustre_configuration=storage.configuration(),
            tags=[cdk.CfnTag(key="Name", value=self.node.path)],
        )
        # FSx looks whether its servers reach each other before it makes any.
        self.file_system.node.add_dependency(self.security_group)
        self._keep(retain)
        self._zone = zone
        self.resource = self._volume("Volume", name, namespace)

    @named_call
    def add_claim(self, id: str, *, namespace: str, name: str | None = None) -> Construct:
        """Let pods of another namespace mount it, by a claim there.

        Args:
            id: Name of the claim in the app.
            namespace: Existing namespace, the pods' own.
            name: Name of the claim. Default: that of the first claim.

        Raises:
            ValueError: A name is none, or the cluster has a volume of the name from this library.
        """
        called = self.name if name is None else name
        refuse_unless_object_name(self._who, "name", called)
        refuse_unless_object_name(self._who, "namespace", namespace)
        refuse_unless_short(self._who, called, namespace)
        return self._volume(id, called, namespace)

    def _volume(self, id: str, name: str, namespace: str) -> Construct:
        # A child, because what this construct has claimed it may claim again.
        scope = Construct(self, id)
        self._cluster.claim(PathOf(scope), f"volume {namespace}/{name}", why="they are one object of the cluster")
        # Not above: it loads cdk8s, which takes a second.
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
        driver = fsx_csi_driver(self._cluster)
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
        """Link a bucket, or what it has under a prefix, to a directory: files come from it when they are first read.

        Args:
            id: Name of the link in the app.
            bucket: The bucket, of the same region.
            path: Directory of the file system, such as ``/corpus``.
            prefix: What the names of its objects begin with, up to a ``/``.
            exports: Write what changes in the directory to the bucket, and delete there what is deleted here.
            chunk_mib: Size of the pieces of a file on each disk, in MiB.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: The path is none, another link has it or the bucket's prefix, the file system has as many links
                as it can, or has backups.
        """
        if isinstance(self.storage, PersistentLustre) and self.storage.backup_days:
            raise ValueError(
                f"{self._who}: storage must have backup_days=0 with a data repository, got "
                f"{self.storage.backup_days}; FSx makes no backups of file systems that are linked"
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
        """Let file system and nodes, and the servers of the file system, reach each other, either way."""
        own = self.security_group.security_group_id
        for first, last in PORTS:
            self.security_group.add_ingress_rule(self.security_group, ec2.Port.tcp_range(first, last), "Its servers")
            for number, each in enumerate(clients, start=1):
                # No rule for nodes is inside the group: that of a file system that is kept would then name the group
                # of the cluster for good, and EKS could not delete that one.
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
        """Keep or delete it with its security group and the rules by which its servers reach each other."""
        policy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if retain else cdk.RemovalPolicy.DESTROY
        self.file_system.apply_removal_policy(policy)
        for each in self.security_group.node.find_all():
            if isinstance(each, cdk.CfnResource):
                each.apply_removal_policy(policy)


def _refuse_key_of_scratch(who: object, storage: LustreStorage, key: object) -> None:
    # Source: https://docs.aws.amazon.com/fsx/latest/LustreGuide/encryption-at-rest.html (2026-11)
    if key is not None and not isinstance(storage, PersistentLustre):
        raise ValueError(
            f"{who}: key must be left out with ScratchLustre, which FSx encrypts with its own, got one; "
            "take PersistentLustre"
        )


def _subnet(who: object, given: ec2.ISubnet | None, pool: object) -> ec2.ISubnet:
    if pool is not None and not isinstance(pool, PlacedPool):
        raise TypeError(f"{who}: pool must be what add_pool or a pool's construct returned, got {pool!r}")
    if given is not None and not hasattr(given, "subnet_id"):
        raise TypeError(f"{who}: subnet must be an ec2.ISubnet, got {given!r}")
    of_pool = list(pool.subnets) if pool is not None else []
    if given is None:
        if len(of_pool) == 1:
            return of_pool[0]
        how_many = f"a pool with {len(of_pool)} subnets" if pool is not None else "None"
        raise ValueError(
            f"{who}: subnet must be given, got {how_many}; a file system lies in one zone, and so should its pool: "
            "pass subnets=[one] there and subnet=one here"
        )
    _refuse_other_zone(who, given, of_pool)
    return given


def _refuse_other_zone(who: object, subnet: ec2.ISubnet, of_pool: Sequence[ec2.ISubnet]) -> None:
    own, theirs = subnet_zone(subnet), [subnet_zone(each) for each in of_pool]
    if own is not None and theirs and None not in theirs and own not in theirs:
        raise ValueError(
            f"{who}: subnet must lie in a zone of the pool, {', '.join(sorted(map(str, set(theirs))))}, got {own!r}; "
            "pass one of the pool's subnets"
        )


def _zone(who: object, subnet: ec2.ISubnet) -> str:
    """Return the zone of a subnet, as the template writes it."""
    try:
        return str(subnet.availability_zone)
    except RuntimeError as error:
        raise ValueError(
            f"{who}: subnet must have a zone that is known, got {subnet.node.path!r} without; import it with "
            "Subnet.from_subnet_attributes(availability_zone=...), or write other_zones=True"
        ) from error


def _vpc(who: object, cluster: ClusterRef, given: ec2.IVpc | None) -> ec2.IVpc:
    if given is None:
        return cluster.require_vpc(who, "vpc")
    refuse_unless_vpc(who, given)
    return given
