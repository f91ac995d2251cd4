"""Whose calls AWS answers: credentials that every player passes on as AWS would."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """Access to AWS as one role.

    Attributes:
        role: ARN of the role; empty for the administrator, who deploys.
        access_key: By it AWS knows whose call it is.
        secret_key: Signs; not checked.
        token: Session token; not checked.
    """

    role: str
    access_key: str
    secret_key: str = "rehearsal"
    token: str = "rehearsal"

    def environment(self, *, endpoint: str, region: str) -> dict[str, str]:
        """Return the environment variables by which the AWS SDKs of every language find AWS and these credentials.

        Args:
            endpoint: Address that plays all services.
            region: Region of the stack.
        """
        return {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_SESSION_TOKEN": self.token,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
