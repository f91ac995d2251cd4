"""The log groups of a cluster and their key."""

from __future__ import annotations

from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from gpu_constructs.installing.kubectl_programs import CALLER, FUNCTION

_LOG_USE = ("kms:Decrypt", "kms:Describe*", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*")
_LOG_SID = "CloudWatchLogs"
# Log retention times that CloudWatch supports, in days.
# Source: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html (2026-09)
_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653)


def grant_log_key(key: kms.IKey, stack: cdk.Stack) -> None:
    """Allow CloudWatch to encrypt logs of this account with a key. The policy of an imported key can't be changed here.

    Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html
    """
    logs = iam.ServicePrincipal(f"logs.{stack.region}.amazonaws.com")
    arn = f"arn:{stack.partition}:logs:{stack.region}:{stack.account}:*"
    key.add_to_resource_policy(
        iam.PolicyStatement(
            sid=_LOG_SID,
            actions=list(_LOG_USE),
            principals=[cast("iam.IPrincipal", logs)],
            resources=["*"],
            conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": arn}},
        )
    )


def granted_key_arn(key: kms.IKey | None, scope: Construct) -> str | None:
    """Return the ARN of a key with which CloudWatch may encrypt, or ``None`` without a key."""
    if key is None:
        return None
    grant_log_key(key, cdk.Stack.of(scope))
    return key.key_arn


def refuse_unless_log_days(who: object, days: object) -> None:
    """Reject a retention time that CloudWatch doesn't support.

    Raises:
        ValueError: CloudWatch doesn't support ``days``.
    """
    if isinstance(days, bool) or days not in _DAYS:
        raise ValueError(f"{who}: log_days must be one of {', '.join(map(str, _DAYS))}, got {days!r}; choose one")


def own_log_groups(scope: Construct, cluster: eks.Cluster, *, name: str, days: int, key: kms.IKey | None) -> None:
    """Create the log groups of the control plane and of the kubectl function. They are deleted with the stack.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html
    """
    here = Construct(scope, "Logs")
    arn = granted_key_arn(key, scope)
    control_plane = logs.CfnLogGroup(
        here,
        "ControlPlane",
        log_group_name=f"/aws/eks/{name}/cluster",
        retention_in_days=days,
        kms_key_id=arn,
    )
    # EKS creates the group if it is missing, and then CloudFormation can't create it.
    cast("Construct", cluster.node.default_child).node.add_dependency(control_plane)
    if cluster.kubectl_provider is not None:
        group = logs.CfnLogGroup(here, "Kubectl", retention_in_days=days, kms_key_id=arn)
        _set_kubectl_log_group(group, cast("Construct", cluster.kubectl_provider))


def _set_kubectl_log_group(group: logs.CfnLogGroup, provider: Construct) -> None:
    for path in ((FUNCTION,), CALLER):
        found = provider
        for id in path:
            found = cast("Construct", found.node.find_child(id))
        function = cast("lambda_.CfnFunction", found.node.default_child)
        function.logging_config = lambda_.CfnFunction.LoggingConfigProperty(log_group=group.ref)
