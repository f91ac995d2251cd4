"""Your own KMS key for the volumes of nodes."""

from __future__ import annotations

from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from gpu_facts.refusals import has_token

_AUTO_SCALING = "role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
_VOLUME_USE = ("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*")
_GRANT = "kms:CreateGrant"


def grant_volume_key(key: kms.IKey) -> None:
    """Allow services that start nodes to use a key for volumes. Without it, instances end after their launch.

    Auto Scaling starts the nodes of groups with its service-linked role, which exists after an account's first Auto
    Scaling group. Karpenter and EKS Auto Mode get the same access as everyone has to AWS' own key for EBS: through EC2,
    in this account.
    Sources: https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html,
    https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html (kms:ViaService)

    Args:
        key: Key of this app. Pass its ARN in ``Disk(kms_key_arn=key.key_arn)``.

    Raises:
        TypeError: ``key`` isn't a key.
        ValueError: The key was imported, so the app can't change its policy.
    """
    if not hasattr(key, "add_to_resource_policy"):
        raise TypeError(f"grant_volume_key: key must be a kms.IKey, got {key!r}; pass the construct, not its ARN")
    scope = cast("Construct", key)
    for statement in _volume_key_statements(cdk.Stack.of(scope)):
        if not key.add_to_resource_policy(statement).statement_added:
            raise ValueError(
                f"grant_volume_key: key must be created in this app, got the imported {scope.node.path!r}; allow "
                f"{_AUTO_SCALING!r} to use it in its own policy"
            )


def _ec2(region: str) -> str | list[str]:
    """Return EC2 in the form of the condition. No source states whether the China regions use another domain."""
    name = f"ec2.{region}.amazonaws.com"
    return [name, f"{name}.cn"] if region.startswith("cn-") or has_token(region) else name


def _volume_key_statements(stack: cdk.Stack) -> list[iam.PolicyStatement]:
    arn = f"arn:{stack.partition}:iam::{stack.account}:{_AUTO_SCALING}"
    auto_scaling = [cast("iam.IPrincipal", iam.ArnPrincipal(arn))]
    through_ec2 = {"kms:CallerAccount": stack.account, "kms:ViaService": _ec2(stack.region)}
    return [
        iam.PolicyStatement(sid="AutoScalingUses", actions=list(_VOLUME_USE), principals=auto_scaling, resources=["*"]),
        iam.PolicyStatement(
            sid="AutoScalingAttaches",
            actions=[_GRANT],
            principals=auto_scaling,
            resources=["*"],
            conditions={"Bool": {"kms:GrantIsForAWSResource": True}},
        ),
        iam.PolicyStatement(
            sid="AccountUsesThroughEc2",
            actions=[*_VOLUME_USE, _GRANT],
            principals=[cast("iam.IPrincipal", iam.AnyPrincipal())],
            resources=["*"],
            conditions={"StringEquals": through_ec2},
        ),
    ]
