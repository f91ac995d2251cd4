"""What mounting a bucket takes."""

from __future__ import annotations

from typing import Any

from gpu_constructs.storage.s3_mount import S3Mount


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
