"""A mount renders Mountpoint's options, and every cache has a size limit."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gpu_constructs.storage import S3Mount
from gpu_constructs.storage.s3_volume import key_actions, mount_statements

BUCKET = "arn:aws:s3:::data"


def actions(mount: S3Mount) -> set[str]:
    made = mount_statements(bucket_arn=BUCKET, prefix="", mount=mount)
    return {action for each in made for action in each["Action"]}


def test_mounts_are_read_only_by_default() -> None:
    assert S3Mount().options == ["read-only", "allow-other"]
    assert actions(S3Mount()) == {"s3:ListBucket", "s3:GetObject"}


def test_a_cache_has_a_bound() -> None:
    assert S3Mount().attributes == {}
    assert S3Mount(cache_gib=1).attributes == {"cache": "emptyDir", "cacheEmptyDirSizeLimit": "1Gi"}


@pytest.mark.parametrize("ttl", ["minimal", "indefinite", 1, 86_400])
def test_names_are_kept_for_as_long_as_is_said(ttl: Any) -> None:
    assert f"metadata-ttl {ttl}" in S3Mount(metadata_ttl=ttl).options


def test_files_have_an_owner() -> None:
    assert S3Mount(uid=1000, gid=0).options[-2:] == ["uid=1000", "gid=0"]


def test_what_is_written_may_be_written() -> None:
    written = S3Mount(read_only=False)

    assert written.options == ["allow-other"]
    assert actions(written) - actions(S3Mount()) == {"s3:PutObject", "s3:AbortMultipartUpload"}
    assert key_actions(written) == ["kms:Decrypt", "kms:GenerateDataKey"]


def test_what_is_deleted_may_be_deleted() -> None:
    deleted = S3Mount(read_only=False, allow_delete=True, allow_overwrite=True)

    assert deleted.options == ["allow-overwrite", "allow-delete", "allow-other"]
    assert "s3:DeleteObject" in actions(deleted)
    assert "s3:DeleteObject" not in actions(S3Mount(read_only=False, allow_overwrite=True))


def test_a_reader_may_only_decrypt() -> None:
    assert key_actions(S3Mount()) == ["kms:Decrypt"]


def test_a_prefix_bounds_what_is_listed_and_read() -> None:
    listed, read = mount_statements(bucket_arn=BUCKET, prefix="a/b/", mount=S3Mount())

    assert listed["Condition"] == {"StringLike": {"s3:prefix": "a/b/*"}}
    assert read["Resource"] == f"{BUCKET}/a/b/*"


@pytest.mark.parametrize(
    ("says", "error", "message"),
    [
        ({"cache_gib": 0}, ValueError, "cache_gib must be at least 1, got 0"),
        ({"cache_gib": True}, TypeError, "cache_gib must be a whole number, got True"),
        ({"cache_gib": 0.5}, TypeError, "cache_gib must be a whole number, got 0.5"),
        ({"metadata_ttl": 0}, ValueError, "metadata_ttl must be at least 1, got 0; write 'minimal' to read each time"),
        ({"metadata_ttl": "never"}, ValueError, "metadata_ttl must be seconds or one of minimal, indefinite, got"),
        ({"metadata_ttl": True}, TypeError, "metadata_ttl must be a whole number, got True"),
        ({"read_only": "yes"}, TypeError, "read_only must be True or False, got 'yes'"),
        ({"allow_delete": True}, ValueError, "read_only must be False with allow_delete, got True"),
        ({"allow_overwrite": True}, ValueError, "read_only must be False with allow_overwrite, got True"),
        ({"uid": -1}, ValueError, "uid must be at least 0, got -1"),
        ({"gid": "staff"}, TypeError, "gid must be a whole number, got 'staff'"),
        ({"uid": 1, "allow_other": False}, ValueError, "allow_other must be True with uid or gid, got False"),
    ],
)
def test_refuses(says: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(f"s3 mount: {message}")):
        S3Mount(**says)


def test_root_needs_no_access_for_other_users() -> None:
    assert S3Mount(uid=0, allow_other=False).options == ["read-only", "uid=0"]
