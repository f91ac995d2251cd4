"""Placement groups, which moto does not know.

Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_PlacementGroup.html
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from gpu_constructs.rehearsal.players.aws.api.operations import plays
from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal
from gpu_constructs.rehearsal.players.aws.api.requests import Request
from gpu_constructs.rehearsal.players.aws.ec2.filters import matching
from gpu_constructs.rehearsal.players.aws.region import Region

_FILTERS = {"group-name": "GroupName", "state": "State", "strategy": "Strategy"}


class PlacementGroups:
    """The placement groups of a region.

    Args:
        region: Where they are.
    """

    def __init__(self, region: Region) -> None:
        self._region = region
        self._groups: dict[str, dict[str, Any]] = {}

    @plays("ec2", "CreatePlacementGroup")
    def create(self, request: Request) -> Mapping[str, Any]:
        """Make a group."""
        asked, name = request.parameters, str(request.parameters["GroupName"])
        if name in self._groups:
            raise AwsRefusal("InvalidPlacementGroup.Duplicate", f"The placement group '{name}' already exists.")
        tags = [tag for one in asked.get("TagSpecifications", ()) for tag in one["Tags"]]
        self._groups[name] = {
            "GroupName": name,
            "GroupId": "pg-" + hashlib.sha256(name.encode()).hexdigest()[:17],
            "GroupArn": self._region.arn("ec2", f"placement-group/{name}"),
            "Strategy": asked.get("Strategy", "cluster"),
            "State": "available",
            "Tags": tags,
        }
        return {"PlacementGroup": self._groups[name]}

    @plays("ec2", "DescribePlacementGroups")
    def describe(self, request: Request) -> Mapping[str, Any]:
        """Return the groups that are asked for."""
        asked = request.parameters
        names, ids = asked.get("GroupNames"), asked.get("GroupIds")
        unknown = [name for name in names or () if name not in self._groups]
        if unknown:
            raise AwsRefusal("InvalidPlacementGroup.Unknown", f"The placement group '{unknown[0]}' is unknown.")
        found = [one for one in self._groups.values() if not names or one["GroupName"] in names]
        found = [one for one in found if not ids or one["GroupId"] in ids]
        return {"PlacementGroups": matching(found, asked.get("Filters", ()), _FILTERS)}

    @plays("ec2", "DeletePlacementGroup")
    def delete(self, request: Request) -> Mapping[str, Any]:
        """Forget a group."""
        self._groups.pop(str(request.parameters["GroupName"]), None)
        return {}
