"""Tags on the Auto Scaling group that EKS makes for a managed node group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import custom_resources as cr
from constructs import Construct

from gpu_constructs.named_arguments import named_arguments


@named_arguments
class ManagedGroupTags(Construct):
    """Puts tags on the Auto Scaling group behind a managed node group, whose own tags never get there.

    Two calls through CDK's `AwsCustomResource`: one finds the group's name, one tags it. Tags that leave the template
    leave the group.

    Source: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_CreateOrUpdateTags.html

    Args:
        group: Managed node group.
        cluster_name: Name of its cluster.
        tags: The tags.
    """

    def __init__(
        self, scope: Construct, id: str, *, group: eks.CfnNodegroup, cluster_name: str, tags: Mapping[str, str]
    ) -> None:
        super().__init__(scope, id)
        stack = cdk.Stack.of(self)
        describe = cr.AwsSdkCall(
            service="EKS",
            action="describeNodegroup",
            parameters={"clusterName": cluster_name, "nodegroupName": group.attr_nodegroup_name},
            output_paths=["nodegroup.resources.autoScalingGroups.0.name"],
            # A group that is replaced has another Auto Scaling group.
            physical_resource_id=cr.PhysicalResourceId.of(group.attr_arn),
        )
        find = cr.AwsCustomResource(
            self,
            "Find",
            on_update=describe,
            install_latest_aws_sdk=False,
            policy=cr.AwsCustomResourcePolicy.from_statements(
                [_allow(["eks:DescribeNodegroup"], group.attr_arn)],
            ),
        )
        name = find.get_response_field("nodegroup.resources.autoScalingGroups.0.name")
        groups = f"arn:{stack.partition}:autoscaling:{stack.region}:{stack.account}:autoScalingGroup:*"
        for key, value in tags.items():
            one = {"ResourceId": name, "ResourceType": "auto-scaling-group", "Key": key}
            tag = cr.AwsSdkCall(
                service="AutoScaling",
                action="createOrUpdateTags",
                parameters={"Tags": [one | {"Value": value, "PropagateAtLaunch": False}]},
                physical_resource_id=cr.PhysicalResourceId.of(f"{key}@{name}"),
            )
            untag = cr.AwsSdkCall(
                service="AutoScaling",
                action="deleteTags",
                parameters={"Tags": [one]},
                # The group may be gone already.
                ignore_error_codes_matching="ValidationError",
            )
            cr.AwsCustomResource(
                self,
                key.rpartition("/")[2],
                on_update=tag,
                on_delete=untag,
                install_latest_aws_sdk=False,
                policy=cr.AwsCustomResourcePolicy.from_statements(
                    [
                        _allow(
                            ["autoscaling:CreateOrUpdateTags", "autoscaling:DeleteTags"],
                            f"{groups}:autoScalingGroupName/eks-*",
                            {"StringEquals": {"aws:ResourceTag/eks:cluster-name": cluster_name}},
                        )
                    ]
                ),
            )


def _allow(actions: list[str], resource: str, conditions: Mapping[str, object] | None = None) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=actions, resources=[resource], conditions=cast("dict[str, object]", conditions))
