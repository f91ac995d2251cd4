"""Size limits of IAM policies, and the permissions of AWS managed policies.

Source of the sizes:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html#reference_iam-quotas-entity-length (2026-11)
"""

from __future__ import annotations

import re
from typing import Final

from gpu_facts.light import regex

# Max characters without white space, of all inline policies of a role together, and of one managed policy.
MAX_INLINE: Final = 10_240
MAX_MANAGED: Final = 6_144
# Max managed policies of one role, unless AWS raises the quota of the account.
MAX_ATTACHED: Final = 10
_OPEN = regex(r"\$\{[^{}]*\}")


def policy_size(text: str, *, open_characters: int = 0) -> int:
    """Return the length of a policy without white space. Each value of a deployment counts ``open_characters``."""
    return len(re.sub(r"\s", "", _OPEN.sub("x" * open_characters, text)))


# Actions that AWS managed policies allow, or patterns that include them.
# Source: https://docs.aws.amazon.com/aws-managed-policy/latest/reference/ (2026-11-24)
ACTIONS_OF_AWS = {
    "AmazonEKSWorkerNodePolicy": (
        *("ec2:DescribeInstances", "ec2:DescribeInstanceTypes", "ec2:DescribeRouteTables"),
        *(
            "ec2:DescribeSecurityGroups",
            "ec2:DescribeSubnets",
            "ec2:DescribeVolumes",
            "ec2:DescribeVolumesModifications",
        ),
        *("ec2:DescribeVpcs", "eks:DescribeCluster", "eks-auth:AssumeRoleForPodIdentity"),
    ),
    "AmazonEKSWorkerNodeMinimalPolicy": ("eks-auth:AssumeRoleForPodIdentity",),
    "AmazonEKS_CNI_Policy": (
        *("ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses", "ec2:*NetworkInterface*"),
        *("ec2:CreateTags", "ec2:DescribeInstances", "ec2:DescribeInstanceTypes", "ec2:DescribeSubnets"),
        "ec2:DescribeTags",
    ),
    "AmazonEC2ContainerRegistryReadOnly": ("ecr:*",),
    "AmazonEC2ContainerRegistryPullOnly": ("ecr:*",),
    "AmazonElasticContainerRegistryPublicReadOnly": ("ecr-public:*", "sts:GetServiceBearerToken"),
    "AmazonSSMManagedInstanceCore": ("ssm:*", "ssmmessages:*", "ec2messages:*"),
    "CloudWatchAgentServerPolicy": (
        *("cloudwatch:*", "logs:*", "xray:*", "ssm:GetParameter", "ec2:DescribeTags", "ec2:DescribeVolumes"),
    ),
    "AmazonEBSCSIDriverPolicy": (
        *("ec2:*Volume*", "ec2:*Snapshot*", "ec2:CreateTags", "ec2:DeleteTags", "ec2:DescribeAvailabilityZones"),
        *("ec2:DescribeInstances", "ec2:DescribeTags"),
    ),
    "AWSLambdaBasicExecutionRole": ("logs:*",),
    "AWSLambdaVPCAccessExecutionRole": (
        *("logs:*", "ec2:*NetworkInterface*", "ec2:DescribeSubnets"),
        *("ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses"),
    ),
}
