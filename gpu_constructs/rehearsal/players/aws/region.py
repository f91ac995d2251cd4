"""One region of one account, as services of AWS see it when they ask each other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

import boto3
from botocore.config import Config

from gpu_constructs.rehearsal.players.aws.principals import INSIDE_KEY, SERVICE_KEY
from gpu_constructs.rehearsal.players.credentials import Credentials

# One answer is the answer: what fails here is no accident of a network.
_ONCE = Config(retries={"total_max_attempts": 1, "mode": "standard"}, parameter_validation=True)

# Clients may be used by several threads at once, but only one may make one.
# Source: https://boto3.amazonaws.com/v1/documentation/api/latest/guide/clients.html#multithreading-or-multiprocessing-with-clients
_MAKING = Lock()
_SESSION = boto3.Session()


@dataclass(frozen=True, kw_only=True)
class Region:
    """Where everything happens.

    Attributes:
        name: ``us-east-1``.
        account: Twelve digits.
        endpoint: Address that answers for every service.
    """

    name: str
    account: str
    endpoint: str

    def arn(self, service: str, resource: str) -> str:
        """Return the ARN of something here."""
        return f"arn:aws:{service}:{self.name}:{self.account}:{resource}"

    def service(self, name: str) -> Any:
        """Return a client by which a service asks moto; what it asks is not told, not judged, and not played here."""
        return self.client(name, Credentials(role="", access_key=SERVICE_KEY))

    def itself(self, name: str) -> Any:
        """Return a client by which a service asks all that is here; what it asks is not told and not judged."""
        return self.client(name, Credentials(role="", access_key=INSIDE_KEY))

    def client(self, name: str, credentials: Credentials) -> Any:
        """Return a client with somebody's credentials, always the same one: to make one takes longer than to use it."""
        with _MAKING:
            return _client(name, self.endpoint, self.name, credentials)


@cache
def _client(name: str, endpoint: str, region: str, credentials: Credentials) -> Any:
    return _SESSION.client(
        name,
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id=credentials.access_key,
        aws_secret_access_key=credentials.secret_key,
        aws_session_token=credentials.token,
        config=_ONCE,
    )
