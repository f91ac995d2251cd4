"""The interface to the simulated AWS that CloudFormation needs, and the parameter of a bootstrapped account."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import botocore.session

from gpu_rehearsal.players.credentials import Credentials, Source

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

    @property
    def stack_resources(self) -> dict[str, Callable[[str], str]]:
        """What returns the physical id of a resource by its logical id, by name and ARN of the stack."""

    def client(self, service: str, *, role: str = "") -> Any:
        """Return a client of the SDK that acts as a role, or as the administrator."""

    def assume(self, role: str, *, service: str, source: Source | None = None) -> Credentials:
        """Return credentials of a role for a service that its trust policy allows."""

    def unreachable(self, source: Source, cluster: str, *services: str) -> str:
        """Return why a source doesn't reach the API server of a cluster, or some AWS APIs; empty if it does."""


@cache
def partition_of(region: str) -> str:
    """Return the partition of a region, e.g. ``aws``."""
    return str(botocore.session.get_session().get_partition_for_region(region))


def bootstrap(aws: Account, *, qualifier: str = "hnb659fds", version: int = 30) -> None:
    """Store the version of the bootstrap stack; the assets' bucket and the roles of a deployment are not played.

    Source: https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-env.html (2026-11)

    Args:
        aws: Account and region to bootstrap.
        qualifier: The CDK's own, or that of an app which says another.
        version: Of the bootstrap template.
    """
    name = f"/cdk-bootstrap/{qualifier}/version"
    aws.client("ssm").put_parameter(Name=name, Type="String", Value=str(version), Overwrite=True)
