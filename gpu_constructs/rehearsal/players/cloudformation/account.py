"""What CloudFormation asks of AWS: one address, and clients that act as somebody."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import botocore.session

from gpu_constructs.rehearsal.players.credentials import Credentials

Invoke = Callable[[str, bytes], bytes]


class Account(Protocol):
    """AWS as it is played elsewhere.

    Attributes:
        endpoint: Address that answers for every service.
        region: Region of the stack.
        account: Twelve digits.
    """

    endpoint: str
    region: str
    account: str

    @property
    def functions(self) -> Invoke | None:
        """What answers Invoke of Lambda: takes the name of a function and its payload."""

    @functions.setter
    def functions(self, invoke: Invoke) -> None: ...

    def client(self, service: str, *, role: str = "") -> Any:
        """Return a client of the SDK that acts as a role, or as the administrator."""

    def credentials(self, role: str = "") -> Credentials:
        """Return what the calls of a role are known by."""


@cache
def partition_of(region: str) -> str:
    """Return the partition of a region, e.g. ``aws``."""
    return str(botocore.session.get_session().get_partition_for_region(region))
