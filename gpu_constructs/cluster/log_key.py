"""A key of yours for the logs of a cluster and its network."""

from __future__ import annotations

from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

_USE = ("kms:Decrypt", "kms:Describe*", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*")
_SID = "CloudWatchLogs"


def grant_log_key(key: kms.IKey, stack: cdk.Stack) -> None:
    """Let CloudWatch encrypt logs of this account with a key; the policy of an imported one is not ours to change.

    Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html
    """
    logs = iam.ServicePrincipal(f"logs.{stack.region}.amazonaws.com")
    arn = f"arn:{stack.partition}:logs:{stack.region}:{stack.account}:*"
    key.add_to_resource_policy(
        iam.PolicyStatement(
            sid=_SID,
            actions=list(_USE),
            principals=[cast("iam.IPrincipal", logs)],
            resources=["*"],
            conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": arn}},
        )
    )


def arn_of(key: kms.IKey | None, scope: Construct) -> str | None:
    """Return the ARN of a key with which CloudWatch may encrypt; ``None`` without a key."""
    if key is None:
        return None
    grant_log_key(key, cdk.Stack.of(scope))
    return key.key_arn
