"""A bucket behind a directory of a file system."""

from __future__ import annotations

import re
from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_s3 as s3
from constructs import Construct

from gpu_constructs.installing.registry import PathOf
from gpu_constructs.storage.s3_mount import refuse_unless_bucket, refuse_unless_prefix
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import is_token, refuse_unless_bool, refuse_unless_whole_number

# Sources: https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateDataRepositoryAssociation.html,
# https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html (2026-11)
_PATH = re.compile(r"/|(/[^/\0\r\n]+)+")
_MOST_CHARACTERS = 4096
_MOST_CHUNK_MIB = 512_000
_MOST_LINKS = 8
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
