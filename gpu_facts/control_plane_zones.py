"""Zones that EKS refuses for the subnets of a control plane, by id: a name means another zone in each account."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# Source: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html (2026-11)
REFUSED_ZONE_ID: Mapping[str, str] = MappingProxyType(
    {"us-east-1": "use1-az3", "us-west-1": "usw1-az2", "ca-central-1": "cac1-az3"}
)
# Two of the others, which offer GPUs as regions.json has it; in us-west-1 there are no more.
ACCEPTED_ZONE_IDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "us-east-1": ("use1-az4", "use1-az6"),
        "us-west-1": ("usw1-az1", "usw1-az3"),
        "ca-central-1": ("cac1-az1", "cac1-az2"),
    }
)
