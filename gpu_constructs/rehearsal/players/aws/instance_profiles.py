"""Instance profiles under a path: moto lists all of an account, whatever path is asked for.

Source: https://docs.aws.amazon.com/IAM/latest/APIReference/API_ListInstanceProfiles.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_constructs.rehearsal.players.aws.api.operations import plays
from gpu_constructs.rehearsal.players.aws.api.requests import Request
from gpu_constructs.rehearsal.players.aws.region import Region


class InstanceProfiles:
    """The instance profiles of an account.

    Args:
        region: Whose account has them.
    """

    def __init__(self, region: Region) -> None:
        self._region = region

    @plays("iam", "ListInstanceProfiles")
    def list(self, request: Request) -> Mapping[str, Any]:
        """Return those whose path begins as is asked, all at once."""
        prefix = str(request.parameters.get("PathPrefix") or "/")
        known = self._region.service("iam").list_instance_profiles()["InstanceProfiles"]
        return {"InstanceProfiles": [each for each in known if each["Path"].startswith(prefix)], "IsTruncated": False}
