"""Policies that AWS manages, known to an account once something attaches them: moto would load all of them always."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from moto.iam.aws_managed_policies import aws_managed_policies_data
from moto.iam.models import AWSManagedPolicy, iam_backends

from gpu_constructs.rehearsal.players.aws.api.operations import plays
from gpu_constructs.rehearsal.players.aws.api.requests import Request
from gpu_constructs.rehearsal.players.aws.region import Region

_AWS = "arn:aws:iam::aws:policy/"


class ManagedPolicies:
    """The policies that AWS manages.

    Args:
        region: Whose account gets to know them.
    """

    def __init__(self, region: Region) -> None:
        self._region = region

    @plays("iam", "AttachRolePolicy")
    def attach(self, request: Request) -> None:
        """Make a policy known, and have moto attach it."""
        arn = str(request.parameters["PolicyArn"])
        kept = iam_backends[self._region.account]["aws"].managed_policies
        name = arn.rpartition("/")[2]
        if arn.startswith(_AWS) and arn not in kept and name in _published():
            policy = AWSManagedPolicy.from_data(name, self._region.account, self._region.name, _published()[name])
            if policy.arn == arn:
                kept[arn] = policy


@cache
def _published() -> Mapping[str, dict[str, Any]]:
    """Return moto's record of all of them, by name."""
    return dict(json.loads(aws_managed_policies_data))
