"""A driver for storage, as those find it who need it."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam


@dataclass(frozen=True, kw_only=True, slots=True)
class CsiDriver:
    """A driver of a cluster.

    Attributes:
        addon: The add-on that brings it.
        role: What it may do.
    """

    addon: eks.CfnAddon
    role: iam.CfnRole
