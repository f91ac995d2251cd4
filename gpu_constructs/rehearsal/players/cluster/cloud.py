"""What the machines of a cluster ask of AWS: its APIs, and whose calls they are."""

from __future__ import annotations

from typing import Any, Protocol

from gpu_constructs.rehearsal.players.credentials import Credentials


class Cloud(Protocol):
    """AWS, at one address.

    Attributes:
        endpoint: The address.
        region: Region of the cluster.
    """

    endpoint: str
    region: str

    @property
    def administrator(self) -> str:
        """ARN of the administrator, as access entries call it."""

    def client(self, service: str, *, role: str = "") -> Any:
        """Return the boto3 client of a service, as a role or the administrator."""

    def credentials(self, role: str = "", *, tags: dict[str, str] | None = None) -> Credentials:
        """Return credentials that AWS knows as a role's, in a session with some tags."""

    def role_of(self, access_key: str) -> str:
        """Return the ARN of the role whose key that is; empty for the administrator's.

        Raises:
            Exception: Nobody has that key, in the words of AWS.
        """
