"""Scheduled scaling of the nodes of a Capacity Block."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from gpu_constructs.nodes.group_arguments import CLOSED_MAX
from gpu_constructs.pools.capacity import CapacityBlock
from gpu_facts.named_arguments import named_arguments


def _trust(account: str) -> dict[str, Any]:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "scheduler.amazonaws.com"},
        "Action": "sts:AssumeRole",
        "Condition": {"StringEquals": {"aws:SourceAccount": account}},
    }
    return {"Version": "2012-10-17", "Statement": [statement]}


@named_arguments
class CapacityBlockSchedule(Construct):
    """Scales up a node group when its Capacity Block starts, and drains it before the block ends.

    Source: https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html

    Args:
        group: Managed node group that uses the block.
        cluster_name: Name of its cluster.
        block: The block.
    """

    def __init__(
        self, scope: Construct, id: str, *, group: eks.CfnNodegroup, cluster_name: str, block: CapacityBlock
    ) -> None:
        super().__init__(scope, id)
        stack = cdk.Stack.of(self)
        role = iam.CfnRole(
            self,
            "Role",
            assume_role_policy_document=_trust(stack.account),
            policies=[
                {
                    "policyName": "ScaleGroup",
                    "policyDocument": {
                        "Version": "2012-10-17",
                        "Statement": [
                            {"Effect": "Allow", "Action": "eks:UpdateNodegroupConfig", "Resource": group.attr_arn}
                        ],
                    },
                }
            ],
        )
        target = {
            "arn": f"arn:{stack.partition}:scheduler:::aws-sdk:eks:updateNodegroupConfig",
            "roleArn": role.attr_arn,
        }
        name = group.attr_nodegroup_name
        for step, moment, nodes in block.steps:
            # EKS rejects a max size of 0. With a larger max size than this, cluster autoscaler would start nodes again
            # while the block is drained.
            sizes = {"MinSize": 0, "MaxSize": max(nodes, CLOSED_MAX), "DesiredSize": nodes}
            asked: dict[str, Any] = {"ClusterName": cluster_name, "NodegroupName": name, "ScalingConfig": sizes}
            scheduler.CfnSchedule(
                self,
                step,
                schedule_expression=f"at({_utc(moment)})",
                schedule_expression_timezone="UTC",
                flexible_time_window={"mode": "OFF"},
                target=target | {"input": json.dumps(asked)},
            )


def _utc(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
