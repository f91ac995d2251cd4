"""What EC2 sells in a region: moto's record of what one account was told.

moto lists the types of all regions in each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_constructs.rehearsal.players.aws.api.operations import plays
from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal
from gpu_constructs.rehearsal.players.aws.api.requests import Request
from gpu_constructs.rehearsal.players.aws.kept import kept_by_moto
from gpu_constructs.rehearsal.players.aws.region import Region


class Catalogue:
    """The types of a region.

    Args:
        region: Which.
    """

    def __init__(self, region: Region) -> None:
        self._region = region

    @plays("ec2", "DescribeInstanceTypes")
    def types(self, request: Request) -> Mapping[str, Any]:
        """Return the types that are asked for.

        Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypes.html
        """
        kept, asked = kept_by_moto(self._region), request.parameters.get("InstanceTypes") or []
        offered = {one["InstanceType"] for one in kept.describe_instance_type_offerings("region")}
        unknown = sorted(set(asked) - offered)
        if unknown:
            message = f"The following supplied instance types do not exist: [{', '.join(unknown)}]"
            raise AwsRefusal("InvalidInstanceType", message)
        found = kept.describe_instance_types(asked, _filters(request))
        return {"InstanceTypes": [one for one in found if one["InstanceType"] in offered]}

    @plays("ec2", "DescribeInstanceTypeOfferings")
    def offerings(self, request: Request) -> Mapping[str, Any]:
        """Return where they are sold.

        Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypeOfferings.html
        """
        kind = request.parameters.get("LocationType", "region")
        return {
            "InstanceTypeOfferings": kept_by_moto(self._region).describe_instance_type_offerings(
                kind, _filters(request)
            )
        }


def _filters(request: Request) -> dict[str, list[str]]:
    return {one["Name"]: list(one["Values"]) for one in request.parameters.get("Filters", ())}
