"""A bucket behind a directory of a file system."""

from __future__ import annotations

import re
from collections.abc import Sequence

from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_s3 as s3
from constructs import Construct

from gpu_constructs.installing.claims import PathOf
from gpu_constructs.named_arguments import named_arguments
from gpu_constructs.refusals import refuse_unless_bool, refuse_unless_whole_number
from gpu_constructs.storage.s3_names import refuse_unless_bucket, refuse_unless_prefix

# Source: https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateDataRepositoryAssociation.html (2026-11)
_PATH = re.compile(r"(/[^/\0\r\n]+)+")
_MOST_CHARACTERS = 4096
_MOST_CHUNK_MIB = 512_000
_EVERY_CHANGE = ["NEW", "CHANGED", "DELETED"]


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
        beside: Directories of the other links.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The path or the prefix is none, or lies in that of another link.

    Attributes:
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
        beside: Sequence[str] = (),
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        refuse_unless_bucket(who, bucket)
        refuse_unless_prefix(who, prefix)
        _refuse_unless_path(who, path, beside)
        refuse_unless_bool(who, "exports", exports)
        refuse_unless_whole_number(who, "chunk_mib", chunk_mib, least=1)
        if chunk_mib > _MOST_CHUNK_MIB:
            raise ValueError(f"{who}: chunk_mib must be at most {_MOST_CHUNK_MIB}, got {chunk_mib}")
        self.resource = fsx.CfnDataRepositoryAssociation(
            self,
            "Resource",
            file_system_id=file_system_id,
            file_system_path=path,
            data_repository_path=f"s3://{bucket.bucket_name}/{prefix}",
            # Otherwise files that are there already are not seen.
            batch_import_meta_data_on_create=True,
            imported_file_chunk_size=chunk_mib,
            s3={
                "autoImportPolicy": {"events": _EVERY_CHANGE},
                **({"autoExportPolicy": {"events": _EVERY_CHANGE}} if exports else {}),
            },
        )


def _refuse_unless_path(who: object, path: object, beside: Sequence[str]) -> None:
    if not isinstance(path, str):
        raise TypeError(f"{who}: path must be a string, got {path!r}")
    if not _PATH.fullmatch(path) or len(path) > _MOST_CHARACTERS:
        raise ValueError(f"{who}: path must be a directory such as '/corpus', got {path!r}")
    for each in beside:
        if f"{path}/".startswith(f"{each}/") or f"{each}/".startswith(f"{path}/"):
            raise ValueError(f"{who}: path must lie apart from that of the other link, {each!r}, got {path!r}")
