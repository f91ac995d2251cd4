"""Permissions of the Karpenter controller: the six policies of the pinned version, divided as upstream divides them.

A single policy with a long cluster name would exceed IAM's limit of 6,144 characters.
Source: https://github.com/aws/karpenter-provider-aws/blob/v1.14.1/website/content/en/preview/getting-started/getting-started-with-karpenter/cloudformation.yaml
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_facts.labels import CLUSTER_TAG, KARPENTER_AWS_DOMAIN, KARPENTER_DOMAIN, NODE_POOL, REGION
from gpu_facts.named_arguments import named_arguments

Statements = list[dict[str, Any]]
# Converts tag conditions to a StringEquals block. The keys contain the cluster's name, which may be a token.
StringEquals = Callable[[str, Mapping[str, object]], object]


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class KarpenterScope:
    """Resources to which the policies are restricted.

    Attributes:
        cluster_name: Name of the cluster.
        partition: AWS partition.
        region: Region.
        account: Account id.
        node_role_arn: The only role that Karpenter may pass to nodes.
        queue_arn: Queue of interruption events.
        string_equals: Function that creates a ``StringEquals`` block. Its first argument is unique among the calls.
    """

    cluster_name: str
    partition: str
    region: str
    account: str
    node_role_arn: str
    queue_arn: str
    string_equals: StringEquals

    @property
    def owned(self) -> str:
        """Key of the tag on all resources of the cluster."""
        return f"{CLUSTER_TAG}{self.cluster_name}"

    @property
    def cluster_arn(self) -> str:
        """ARN of the cluster."""
        return f"arn:{self.partition}:eks:{self.region}:{self.account}:cluster/{self.cluster_name}"

    def ec2(self, *kinds: str, account: str = "*") -> list[str]:
        """Return ARNs of all EC2 resources of some kinds."""
        return [f"arn:{self.partition}:ec2:{self.region}:{account}:{kind}/*" for kind in kinds]

    @property
    def instance_profiles(self) -> str:
        """ARN of all instance profiles of the account."""
        return f"arn:{self.partition}:iam::{self.account}:instance-profile/*"


def karpenter_policies(
    scope: KarpenterScope, *, isolated: bool = False, reboots: bool = False
) -> dict[str, Statements]:
    """Return the statements of each policy, by the policy's name, without actions that the controller never calls."""
    every = {
        "NodeLifecyclePolicy": _node_lifecycle(scope, reboots=reboots),
        "IAMIntegrationPolicy": _iam_integration(scope),
        "EKSIntegrationPolicy": _eks_integration(scope),
        "InterruptionPolicy": _interruption(scope),
        "ZonalShiftPolicy": _zonal_shift(scope),
        "ResourceDiscoveryPolicy": _resource_discovery(scope),
    }
    left_out = _OUT_OF_REACH if isolated else ()
    return {name: [each for each in said if each["Sid"] not in left_out] for name, said in every.items()}


def _allow(sid: str, action: str | list[str], resource: str | list[str], **condition: object) -> dict[str, Any]:
    """Return one statement."""
    statement: dict[str, Any] = {"Sid": sid, "Effect": "Allow", "Resource": resource, "Action": action}
    return statement | ({"Condition": condition} if condition else {})


def _node_lifecycle(scope: KarpenterScope, *, reboots: bool = False) -> Statements:
    """Launch, tag and terminate instances, each only with the cluster's tags."""
    created = scope.ec2("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")
    shared = scope.ec2("security-group", "subnet", "capacity-reservation", "placement-group")
    request: dict[str, object] = {
        f"aws:RequestTag/{scope.owned}": "owned",
        "aws:RequestTag/eks:eks-cluster-name": scope.cluster_name,
    }
    any_requested_pool = {f"aws:RequestTag/{NODE_POOL}": "*"}
    of_cluster = scope.string_equals("OfCluster", {f"aws:ResourceTag/{scope.owned}": "owned"})
    of_any_pool = {f"aws:ResourceTag/{NODE_POOL}": "*"}
    creating = {"ec2:CreateAction": ["RunInstances", "CreateFleet", "CreateLaunchTemplate"]}
    tag_keys = {"aws:TagKeys": ["eks:eks-cluster-name", f"{KARPENTER_DOMAIN}/nodeclaim", "Name"]}
    return [
        _allow(
            "AllowScopedEC2InstanceAccessActions",
            ["ec2:RunInstances", "ec2:CreateFleet"],
            scope.ec2("image", "snapshot", account="") + shared,
        ),
        _allow(
            "AllowScopedEC2LaunchTemplateAccessActions",
            ["ec2:RunInstances", "ec2:CreateFleet"],
            scope.ec2("launch-template")[0],
            StringEquals=of_cluster,
            StringLike=of_any_pool,
        ),
        _allow(
            "AllowScopedEC2InstanceActionsWithTags",
            ["ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate"],
            created,
            StringEquals=scope.string_equals("Requested", request),
            StringLike=any_requested_pool,
        ),
        _allow(
            "AllowScopedResourceCreationTagging",
            "ec2:CreateTags",
            created,
            StringEquals=scope.string_equals("Creating", request | creating),
            StringLike=any_requested_pool,
        ),
        _allow(
            "AllowScopedResourceTagging",
            "ec2:CreateTags",
            scope.ec2("instance")[0],
            **{
                "StringEquals": of_cluster,
                "StringLike": of_any_pool,
                "StringEqualsIfExists": {"aws:RequestTag/eks:eks-cluster-name": scope.cluster_name},
                "ForAllValues:StringEquals": tag_keys,
            },
        ),
        _allow(
            "AllowScopedDeletion",
            # Source of the third: karpenter-provider-aws v1.15.1 charts/karpenter/values.yaml (rebootForRepair)
            ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate", *(["ec2:RebootInstances"] if reboots else [])],
            scope.ec2("instance", "launch-template"),
            StringEquals=of_cluster,
            StringLike=of_any_pool,
        ),
    ]


# Actions of IAM and the price list, which have no endpoint in a VPC.
# Source: karpenter-provider-aws v1.14.1 pkg/controllers/controllers.go, pkg/controllers/nodeclass/controller.go
_OUT_OF_REACH = (
    "AllowScopedInstanceProfileCreationActions",
    "AllowScopedInstanceProfileTagActions",
    "AllowScopedInstanceProfileActions",
    "AllowPricingReadActions",
    "AllowUnscopedInstanceProfileListAction",
    "AllowInstanceProfileReadActions",
)


def pass_role(arn: str) -> dict[str, Any]:
    """Allow passing a role to instances."""
    return _allow(
        "AllowPassingInstanceRole",
        "iam:PassRole",
        arn,
        StringEquals={"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]},
    )


def _iam_integration(scope: KarpenterScope) -> Statements:
    """Allow passing the node role, and managing the instance profiles with it."""
    resource = {f"aws:ResourceTag/{scope.owned}": "owned", f"aws:ResourceTag/{REGION}": scope.region}
    request = {
        f"aws:RequestTag/{scope.owned}": "owned",
        "aws:RequestTag/eks:eks-cluster-name": scope.cluster_name,
        f"aws:RequestTag/{REGION}": scope.region,
    }
    of_any_class = {f"aws:ResourceTag/{KARPENTER_AWS_DOMAIN}/ec2nodeclass": "*"}
    any_requested_class = {f"aws:RequestTag/{KARPENTER_AWS_DOMAIN}/ec2nodeclass": "*"}
    return [
        pass_role(scope.node_role_arn),
        _allow(
            "AllowScopedInstanceProfileCreationActions",
            ["iam:CreateInstanceProfile"],
            scope.instance_profiles,
            StringEquals=scope.string_equals("ProfileCreation", request),
            StringLike=any_requested_class,
        ),
        _allow(
            "AllowScopedInstanceProfileTagActions",
            ["iam:TagInstanceProfile"],
            scope.instance_profiles,
            StringEquals=scope.string_equals("ProfileTags", resource | request),
            StringLike=of_any_class | any_requested_class,
        ),
        _allow(
            "AllowScopedInstanceProfileActions",
            ["iam:AddRoleToInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile"],
            scope.instance_profiles,
            StringEquals=scope.string_equals("Profiles", resource),
            StringLike=of_any_class,
        ),
    ]


def _eks_integration(scope: KarpenterScope) -> Statements:
    """Allow reading the address of the API server."""
    return [_allow("AllowAPIServerEndpointDiscovery", "eks:DescribeCluster", scope.cluster_arn)]


def _interruption(scope: KarpenterScope) -> Statements:
    """Read interruption events."""
    actions = ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"]
    return [_allow("AllowInterruptionQueueActions", actions, scope.queue_arn)]


def _zonal_shift(scope: KarpenterScope) -> Statements:
    """Allow reading zonal shifts."""
    return [
        _allow(
            "AllowZonalShiftStatusReadOnly",
            ["arc-zonal-shift:GetManagedResource"],
            "*",
            StringEquals={"arc-zonal-shift:ResourceIdentifier": scope.cluster_arn},
        )
    ]


def _resource_discovery(scope: KarpenterScope) -> Statements:
    """Allow reading data of EC2, SSM, pricing and IAM."""
    describe = (
        "CapacityReservations",
        "Images",
        "Instances",
        "InstanceStatus",
        "InstanceTypeOfferings",
        "InstanceTypes",
        "LaunchTemplates",
        "PlacementGroups",
        "SecurityGroups",
        "SpotPriceHistory",
        "Subnets",
    )
    return [
        _allow(
            "AllowRegionalReadActions",
            [f"ec2:Describe{what}" for what in describe],
            "*",
            StringEquals={"aws:RequestedRegion": scope.region},
        ),
        _allow(
            "AllowSSMReadActions",
            "ssm:GetParameter",
            f"arn:{scope.partition}:ssm:{scope.region}::parameter/aws/service/*",
        ),
        _allow("AllowPricingReadActions", "pricing:GetProducts", "*"),
        _allow("AllowUnscopedInstanceProfileListAction", "iam:ListInstanceProfiles", "*"),
        _allow("AllowInstanceProfileReadActions", "iam:GetInstanceProfile", scope.instance_profiles),
    ]
