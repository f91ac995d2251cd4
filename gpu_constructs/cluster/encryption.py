"""KMS keys of logs and volumes, and the log groups of a cluster."""

from __future__ import annotations

from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from gpu_constructs.installing.lambda_functions import CALLER, FUNCTION
from gpu_facts.refusals import has_token

_AUTO_SCALING = "role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
_VOLUME_USE = ("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*")
_GRANT = "kms:CreateGrant"
_LOG_USE = ("kms:Decrypt", "kms:Describe*", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*")
_LOG_SID = "CloudWatchLogs"
# Log retention times that CloudWatch supports, in days.
# Source: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html (2026-09)
_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653)


def _grant_log_key(key: kms.IKey, stack: cdk.Stack) -> None:
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
    _grant_log_key(key, cdk.Stack.of(scope))
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
