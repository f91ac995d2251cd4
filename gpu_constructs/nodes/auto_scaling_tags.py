"""Tags on the Auto Scaling group that EKS makes for a managed node group."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.nodes.desired_size import size_handler
from gpu_facts.labels import TAGS_RESOURCE
from gpu_facts.named_arguments import named_arguments


@named_arguments
class ManagedGroupTags(Construct):
    """Puts tags on the Auto Scaling group behind a managed node group, whose own tags never get there.

    One resource a group, whose function and policy are those of the cluster. Tags that leave the template leave the
    group.

    Source: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_CreateOrUpdateTags.html

    Args:
        group: Managed node group.
        cluster: Its cluster.
        tags: The tags.
    """

    def __init__(
        self, scope: Construct, id: str, *, group: eks.CfnNodegroup, cluster: ClusterRef, tags: Mapping[str, str]
    ) -> None:
        super().__init__(scope, id)
        handler = size_handler(scope, cluster)
        resource = cdk.CfnResource(
            self,
            "Resource",
            type=TAGS_RESOURCE,
            properties={
                "ServiceToken": handler.arn,
                "Cluster": cluster.name_token,
                "Name": group.attr_nodegroup_name,
                "Tags": dict(tags),
            },
        )
        resource.node.add_dependency(handler.tagging)
