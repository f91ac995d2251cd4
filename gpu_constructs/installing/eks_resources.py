"""CloudFormation's EKS resources. They are in ``aws_eks_v2`` since aws-cdk-lib 2.268, before only in ``aws_eks``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import aws_eks_v2

if TYPE_CHECKING or hasattr(aws_eks_v2, "CfnCluster"):
    from aws_cdk.aws_eks_v2 import (
        CfnAccessEntry,
        CfnAddon,
        CfnCluster,
        CfnNodegroup,
        CfnPodIdentityAssociation,
    )
else:
    from aws_cdk.aws_eks import CfnAccessEntry, CfnAddon, CfnCluster, CfnNodegroup, CfnPodIdentityAssociation

__all__ = ["CfnAccessEntry", "CfnAddon", "CfnCluster", "CfnNodegroup", "CfnPodIdentityAssociation"]
