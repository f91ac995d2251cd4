"""Mount options of a bucket, and valid names of buckets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from constructs import Construct

from gpu_facts.hardware.regions import refuse_unless_region
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import is_token, refuse_unless_bool, refuse_unless_whole_number

NamedTtl = Literal["minimal", "indefinite"]
_NAMED_TTLS = get_args(NamedTtl)
# In a policy '*' and '?' are wildcards, and a space ends a mount option.
_PREFIX = re.compile(r"((?![/*?])[!-~])((?![*?])[!-~])*/")
# Buckets from before 1 March 2018 in this region may have upper case and '_' in their names.
_OLD_NAMES_IN = "us-east-1"


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class S3Mount:
    """A bucket as a file system, through Mountpoint for Amazon S3. Reads may be random, and writes are sequential.

    It doesn't support rename, append, lock or chmod. Checkpoints and Safetensors' ``save_file`` need some of them.

    Sources: https://github.com/awslabs/mountpoint-s3/blob/main/doc/CONFIGURATION.md,
    https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs/CACHING.md (2026-08)

    Attributes:
        read_only: Reject every write.
        allow_overwrite: Allow a file to be overwritten. It needs ``read_only=False``.
        allow_delete: Allow files to be deleted. It needs ``read_only=False``.
        cache_gib: Size of a read cache, in GiB, on each node and for each volume. It is on the node's own storage:
            local NVMe with ``NodeShape(raid0=True)``, otherwise its EBS volume. A default EBS volume has 125 MiB/s.
            Default: none.
        metadata_ttl: Time for which names and sizes are cached: seconds, ``minimal``, or ``indefinite`` for objects
            that never change, such as weights. With ``indefinite``, a node that has the volume mounted never sees an
            object that is added later. Default: Mountpoint's, minimal, or a minute with a cache.
        allow_other: Allow users of the pod other than root to read.
        uid: Owner of the files, who may also write if it isn't root. For writes, set it to the pod's ``runAsUser``, and
            ``gid`` to its ``runAsGroup``. Default: Mountpoint's.
        gid: Group of the files. Default: Mountpoint's.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: Mountpoint would reject it, or an option has no effect.
    """

    read_only: bool = True
    allow_overwrite: bool = False
    allow_delete: bool = False
    cache_gib: int | None = None
    metadata_ttl: NamedTtl | int | None = None
    allow_other: bool = True
    uid: int | None = None
    gid: int | None = None

    def __post_init__(self) -> None:
        for flag in ("read_only", "allow_overwrite", "allow_delete", "allow_other"):
            refuse_unless_bool("s3 mount", flag, getattr(self, flag))
        if self.cache_gib is not None:
            refuse_unless_whole_number("s3 mount", "cache_gib", self.cache_gib, least=1)
        for owner in ("uid", "gid"):
            if getattr(self, owner) is not None:
                refuse_unless_whole_number("s3 mount", owner, getattr(self, owner), least=0)
        self._refuse_wrong_ttl()
        self._refuse_writes_to_what_is_read_only()
        if not self.allow_other and (self.uid or self.gid):
            raise ValueError(
                "s3 mount: allow_other must be True with uid or gid, got False; set it, because otherwise only root "
                "may read"
            )

    def _refuse_wrong_ttl(self) -> None:
        ttl = self.metadata_ttl
        if ttl is None or ttl in _NAMED_TTLS:
            return
        if isinstance(ttl, str):
            raise ValueError(
                f"s3 mount: metadata_ttl must be seconds or one of {', '.join(_NAMED_TTLS)}, got {ttl!r}; choose one"
            )
        refuse_unless_whole_number("s3 mount", "metadata_ttl", ttl, least=1, fix="write 'minimal' to read each time")

    def _refuse_writes_to_what_is_read_only(self) -> None:
        for flag in ("allow_overwrite", "allow_delete"):
            if self.read_only and getattr(self, flag):
                raise ValueError(
                    f"s3 mount: read_only must be False with {flag}, got True; write False, or remove {flag}"
                )

    @property
    def options(self) -> list[str]:
        """Mount options of the volume, except the options that select the mounted objects."""
        said = {
            "read-only": self.read_only,
            "allow-overwrite": self.allow_overwrite,
            "allow-delete": self.allow_delete,
            f"metadata-ttl {self.metadata_ttl}": self.metadata_ttl is not None,
            "allow-other": self.allow_other,
            f"uid={self.uid}": self.uid is not None,
            f"gid={self.gid}": self.gid is not None,
        }
        return [option for option, on in said.items() if on]

    @property
    def attributes(self) -> dict[str, str]:
        """Attributes of the volume that configure its cache."""
        if self.cache_gib is None:
            return {}
        # Without the limit the cache grows until the kubelet evicts pods.
        return {"cache": "emptyDir", "cacheEmptyDirSizeLimit": f"{self.cache_gib}Gi"}


def refuse_unless_bucket(who: object, bucket: object) -> None:
    """Reject a value that isn't a bucket of the CDK.

    Raises:
        TypeError: ``bucket`` isn't a bucket, for example a name.
    """
    if not hasattr(bucket, "bucket_arn"):
        raise TypeError(
            f"{who}: bucket must be an s3.IBucket, got {bucket!r}; import one with s3.Bucket.from_bucket_name"
        )


def resolve_bucket_region(scope: Construct, who: object, bucket: s3.IBucket, given: str | None) -> str:
    """Return the given region of a bucket, or the region of the bucket construct, which may be its stack's.

    Raises:
        ValueError: ``given`` isn't a region, differs from the bucket's region, or doesn't allow the bucket's name.
    """
    knows = bucket.env.region
    if given is not None:
        refuse_unless_region(who, "region", given)
        if not is_token(knows) and knows not in (given, cdk.Stack.of(scope).region):
            raise ValueError(f"{who}: region must be the region of the bucket, {knows!r}, got {given!r}; leave it out")
    found = given if given is not None else knows
    _refuse_newer_name(who, bucket.bucket_name, found)
    return found


def _refuse_newer_name(who: object, name: str, region: str) -> None:
    """Reject a bucket with a name that the region doesn't allow.

    Raises:
        ValueError: The name has upper case or ``_``, and buckets of the region never had them.

    Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html (2026-11)
    """
    if is_token(name) or is_token(region) or region == _OLD_NAMES_IN:
        return
    if re.search(r"[A-Z_]", name):
        raise ValueError(
            f"{who}: bucket must have a name of lower-case letters, digits, '-' and '.', got {name!r}; correct it, "
            f"because other names exist only in {_OLD_NAMES_IN}, from before March 2018"
        )


def refuse_unless_prefix(who: object, prefix: object) -> None:
    """Reject an invalid prefix of objects. An empty prefix is the whole bucket.

    Raises:
        TypeError: ``prefix`` isn't a string.
        ValueError: It doesn't end with ``/``, or has characters that have a special meaning in a policy.
    """
    if not isinstance(prefix, str):
        raise TypeError(f"{who}: prefix must be a string, got {prefix!r}; write one such as 'models/'")
    if prefix and not _PREFIX.fullmatch(prefix):
        raise ValueError(
            f"{who}: prefix must end with '/', not begin with it, and have no spaces, '*' or '?', got {prefix!r}"
            f"{_nearest_prefix(prefix)}"
        )


def _nearest_prefix(prefix: str) -> str:
    inner = prefix.strip("/")
    if not inner:
        return "; leave it out for the whole bucket"
    return f"; write '{inner}/'" if _PREFIX.fullmatch(f"{inner}/") else ""
