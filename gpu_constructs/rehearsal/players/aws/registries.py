"""Registries of images and charts, as far as somebody logs in to them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from gpu_constructs.rehearsal.players.aws.api.operations import plays
from gpu_constructs.rehearsal.players.aws.api.requests import Request

_VALID = timedelta(hours=12)


class Registries:
    """The registries of an account, and the public one."""

    @plays("ecr-public", "GetAuthorizationToken")
    def log_in_to_public(self, request: Request) -> Mapping[str, Any]:
        """Return a token of the public registry.

        Source: https://docs.aws.amazon.com/AmazonECRPublic/latest/APIReference/API_GetAuthorizationToken.html
        """
        return {"authorizationData": _token()}

    @plays("ecr", "GetAuthorizationToken")
    def log_in(self, request: Request) -> Mapping[str, Any]:
        """Return a token of a registry of an account.

        Source: https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_GetAuthorizationToken.html
        """
        return {"authorizationData": [_token()]}


def _token() -> dict[str, Any]:
    token = base64.b64encode(b"AWS:rehearsal").decode()
    return {"authorizationToken": token, "expiresAt": datetime.now(timezone.utc) + _VALID}
