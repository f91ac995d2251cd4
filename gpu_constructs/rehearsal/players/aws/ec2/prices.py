"""Prices, of which none is known: who asks gets an empty list, and goes on with prices of its own.

Karpenter carries a list of prices that it uses until AWS tells it others.
Source: https://github.com/aws/karpenter-provider-aws/blob/v1.14.1/pkg/providers/pricing/pricing.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_constructs.rehearsal.players.aws.api.operations import plays
from gpu_constructs.rehearsal.players.aws.api.requests import Request


class Prices:
    """What instances cost."""

    @plays("ec2", "DescribeSpotPriceHistory")
    def spot(self, _: Request) -> Mapping[str, Any]:
        """Return no price. moto would tell one and the same of every type."""
        return {"SpotPriceHistory": []}

    @plays("pricing", "GetProducts")
    def products(self, _: Request) -> Mapping[str, Any]:
        """Return no product."""
        return {"FormatVersion": "aws_v1", "PriceList": []}
