"""How a bucket is seen by the pods that mount it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_bool, refuse_unless_whole_number

NamedTtl = Literal["minimal", "indefinite"]
_NAMED_TTLS = get_args(NamedTtl)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class S3Mount:
    """A bucket as a file system, by Mountpoint for Amazon S3: read in any order, written from start to end.

    It knows no rename, append, lock or change of mode; checkpoints and Safetensors' ``save_file`` need some of them.

    Sources: https://github.com/awslabs/mountpoint-s3/blob/main/doc/CONFIGURATION.md,
    https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs/CACHING.md (2026-08)

    Attributes:
        read_only: Refuse every write.
        allow_overwrite: Let a file be written anew; only where the mount is not read-only.
        allow_delete: Let files be deleted; only where the mount is not read-only.
        cache_gib: Size of a cache of what was read, in GiB, on each node and for each volume. It is on the node's own
            storage: local NVMe with ``NodeShape(raid0=True)``, else its EBS volume. Default: none.
        metadata_ttl: For how long names and sizes are not asked for again: seconds, ``minimal``, or ``indefinite`` for
            what never changes, such as weights. Default: Mountpoint's, minimal, or a minute with a cache.
        allow_other: Let users of the pod read that are not root.
        uid: Owner of the files, who may write where it is not root. Default: Mountpoint's.
        gid: Group of the files. Default: Mountpoint's.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: Mountpoint would refuse it, or nobody could use what it says.
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
                "s3 mount: allow_other must be True with uid or gid, got False; without it only root reads"
            )

    def _refuse_wrong_ttl(self) -> None:
        ttl = self.metadata_ttl
        if ttl is None or ttl in _NAMED_TTLS:
            return
        if isinstance(ttl, str):
            raise ValueError(f"s3 mount: metadata_ttl must be seconds or one of {', '.join(_NAMED_TTLS)}, got {ttl!r}")
        refuse_unless_whole_number("s3 mount", "metadata_ttl", ttl, least=1, fix="'minimal' asks each time")

    def _refuse_writes_to_what_is_read_only(self) -> None:
        for flag in ("allow_overwrite", "allow_delete"):
            if self.read_only and getattr(self, flag):
                raise ValueError(f"s3 mount: read_only must be False with {flag}, got True; nothing is written")

    @property
    def options(self) -> list[str]:
        """Mount options of the volume, beside those that say what is mounted."""
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
        """Attributes of the volume that say how it is cached."""
        if self.cache_gib is None:
            return {}
        # Without the limit the cache grows until kubelet evicts pods.
        return {"cache": "emptyDir", "cacheEmptyDirSizeLimit": f"{self.cache_gib}Gi"}
