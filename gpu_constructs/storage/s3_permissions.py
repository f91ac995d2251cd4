"""What reading and mounting a bucket takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from gpu_constructs.identity.workload_identity import WorkloadIdentity
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


def let_pods(
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


def let_pods_read(identity: WorkloadIdentity, bucket: s3.IBucket, prefix: str) -> None:
    """Let the pods of an identity list and read what is under a prefix of a bucket."""
    read_only = S3Mount()
    statements = mount_statements(bucket_arn=bucket.bucket_arn, prefix=prefix, mount=read_only)
    let_pods(identity, bucket, statements, key_actions(read_only))
