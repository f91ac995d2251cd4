"""A key of yours for the volumes of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from gpu_constructs.refusals import words

_AUTO_SCALING = "role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
_USE = ("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*")


def grant_volume_key(key: kms.IKey, *, role_arns: Sequence[str] = ()) -> None:
    """Let Auto Scaling encrypt the volumes of nodes with a key; without it an instance ends right after its launch.

    The account must have Auto Scaling's service-linked role, which comes with its first Auto Scaling group.
    Source: https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html

    Args:
        key: Key made in this app; then name its ARN in ``Disk(kms_key_arn=key.key_arn)``.
        role_arns: Further roles that start nodes, such as ``karpenter.controller_role_arn``.

    Raises:
        TypeError: ``role_arns`` is no list.
        ValueError: The key was imported, and its policy is not ours to change.
    """
    scope = cast("Construct", key)
    stack = cdk.Stack.of(scope)
    auto_scaling = f"arn:{stack.partition}:iam::{stack.account}:{_AUTO_SCALING}"
    arns = (auto_scaling, *words("grant_volume_key", "role_arns", role_arns))
    principals: list[iam.IPrincipal] = [cast("iam.IPrincipal", iam.ArnPrincipal(arn)) for arn in arns]
    use = iam.PolicyStatement(sid="UseForVolumes", actions=list(_USE), principals=principals, resources=["*"])
    attach = iam.PolicyStatement(
        sid="AttachVolumes",
        actions=["kms:CreateGrant"],
        principals=principals,
        resources=["*"],
        conditions={"Bool": {"kms:GrantIsForAWSResource": True}},
    )
    for statement in (use, attach):
        if not key.add_to_resource_policy(statement).statement_added:
            raise ValueError(
                f"grant_volume_key: key must be one made in this app, got the imported {scope.node.path!r}; let "
                f"{_AUTO_SCALING!r} use it in its own policy"
            )
