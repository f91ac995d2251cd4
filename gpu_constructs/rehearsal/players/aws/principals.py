"""Whose key it is: access keys by role, and what STS calls their holder."""

from __future__ import annotations

import hashlib

from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal
from gpu_constructs.rehearsal.players.credentials import Credentials

# Temporary keys begin with ASIA, those of a user with AKIA; each has 20 characters.
# Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html#identifiers-unique-ids
ADMINISTRATOR_KEY = "AKIAADMINISTRATOR000"
# By these moto is asked alone, and all that is played, without being judged or written down.
SERVICE_KEY = "AKIAAWSITSELF0000000"
INSIDE_KEY = "AKIAAWSINSIDE0000000"


class Principals:
    """Who may sign a call: the administrator, AWS itself, and every role that got credentials.

    Args:
        account: Account of all of them.

    Attributes:
        account: The same.
        administrator: ARN of the role that deploys.
    """

    def __init__(self, account: str) -> None:
        self.account = account
        # The role that deploys: CloudFormation's, in an account where CDK was bootstrapped.
        self.administrator = f"arn:aws:iam::{account}:role/administrator"
        self._roles = {ADMINISTRATOR_KEY: "", SERVICE_KEY: "", INSIDE_KEY: ""}
        self._tags: dict[str, dict[str, str]] = {}

    def credentials(self, role: str = "", *, tags: dict[str, str] | None = None) -> Credentials:
        """Return the one access key of a role, or of a role in a session that carries tags.

        Args:
            role: ARN of the role; empty for the administrator.
            tags: Session tags, as EKS Pod Identity sets them.
        """
        key = _key_of(role, tags or {}) if role else ADMINISTRATOR_KEY
        self._roles[key] = role
        self._tags[key] = dict(tags or {})
        return Credentials(role=role, access_key=key)

    def role_of(self, access_key: str) -> str:
        """Return the role that holds a key; empty for the administrator.

        Raises:
            AwsRefusal: Nobody has this key.
        """
        if access_key not in self._roles:
            raise AwsRefusal("InvalidClientTokenId", "The security token included in the request is invalid.")
        return self._roles[access_key]

    def tags_of(self, access_key: str) -> dict[str, str]:
        """Return the session tags that go with a key."""
        return self._tags.get(access_key, {})


def _key_of(role: str, tags: dict[str, str]) -> str:
    said = "\n".join((role, *(f"{key}={value}" for key, value in sorted(tags.items()))))
    return "ASIA" + hashlib.sha256(said.encode()).hexdigest()[:16].upper()
