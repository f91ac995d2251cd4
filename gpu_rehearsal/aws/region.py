"""One region of one account: access keys of roles, the record of calls, and clients of services."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cache
from threading import Lock
from typing import Any

import boto3
from botocore.config import Config
from moto.ec2.models import ec2_backends

from gpu_rehearsal.aws.api import AwsRefusal
from gpu_rehearsal.credentials import Credentials, Source


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call, in the order in which they came.

    Attributes:
        principal: ARN of the role that called; empty for the administrator.
        service: Prefix of the action, ``ec2``.
        action: ``ec2:RunInstances``.
        resources: ARNs that were judged; empty for the administrator.
        allowed: Whether the principal's policies allow it.
        statements: Statements that allowed it, each ``<policy>#<its Sid or number>``, or the one that denies it.
        error: Code of the error that the caller got; empty when it went well.
        message: What the caller was told with it.
    """

    principal: str
    service: str
    action: str
    resources: tuple[str, ...] = ()
    allowed: bool = True
    statements: tuple[str, ...] = ()
    error: str = ""
    message: str = ""

    def refused(self, code: str, message: str) -> Call:
        """Return the call as one that is not allowed."""
        return replace(self, allowed=False, error=code, message=message)

    def with_statements(self, *statements: str) -> Call:
        """Return the call as one that statements allow."""
        return replace(self, statements=tuple(dict.fromkeys(filter(None, statements))))

    @property
    def statement(self) -> str:
        """The statements as one text."""
        return ", ".join(self.statements)


# Temporary keys begin with ASIA, those of a user with AKIA; each has 20 characters.
# Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html#identifiers-unique-ids
ADMINISTRATOR_KEY = "AKIAADMINISTRATOR000"
# By these moto is asked alone, and all that is played, without being judged or written down.
SERVICE_KEY = "AKIAAWSITSELF0000000"
INSIDE_KEY = "AKIAAWSINSIDE0000000"


class Principals:
    """Who may sign a call: the administrator, AWS itself, and every role that got credentials.

    Attributes:
        administrator: ARN of the role that deploys.
    """

    def __init__(self, account: str) -> None:
        self.account = account
        # The role that deploys: CloudFormation's, in an account where CDK was bootstrapped.
        self.administrator = f"arn:aws:iam::{account}:role/administrator"
        self._roles = {ADMINISTRATOR_KEY: "", SERVICE_KEY: "", INSIDE_KEY: ""}
        self._tags: dict[str, dict[str, str]] = {}
        self._sources: dict[str, Source] = {}
        self._rejections: dict[str, str] = {}

    def credentials(
        self, role: str = "", *, tags: dict[str, str] | None = None, source: Source | None = None
    ) -> Credentials:
        """Return the one access key of a role, or of a role in a session that carries tags.

        Args:
            role: ARN of the role; empty for the administrator.
            tags: Session tags, as EKS Pod Identity sets them.
            source: Where its calls come from; ``None`` for somewhere that reaches everything.
        """
        key = _derive_access_key(role, tags or {}, source) if role else ADMINISTRATOR_KEY
        self._roles[key] = role
        self._tags[key] = dict(tags or {})
        if source is not None:
            self._sources[key] = source
        return Credentials(role=role, access_key=key)

    def resolve_role(self, access_key: str) -> str:
        """Return the role that holds a key; empty for the administrator.

        Raises:
            AwsRefusal: Nobody has this key.
        """
        if access_key not in self._roles:
            raise AwsRefusal("InvalidClientTokenId", "The security token included in the request is invalid.")
        return self._roles[access_key]

    def session_tags(self, access_key: str) -> dict[str, str]:
        """Return the session tags that go with a key."""
        return self._tags.get(access_key, {})

    def rejected(self, why: str) -> Credentials:
        """Return an access key whose calls are all rejected, as those of an SDK that gets no credentials fail."""
        key = _derive_access_key(why, {}, None)
        self._rejections[key] = why
        return Credentials(role="", access_key=key)

    def rejection_reason(self, access_key: str) -> str:
        """Return why all calls of a key are rejected; empty if they aren't."""
        return self._rejections.get(access_key, "")

    def call_source(self, access_key: str) -> Source | None:
        """Return where the calls of a key come from, ``None`` where that isn't known."""
        return self._sources.get(access_key)


def _derive_access_key(role: str, tags: dict[str, str], source: Source | None) -> str:
    said = "\n".join((role, str(source or ""), *(f"{key}={value}" for key, value in sorted(tags.items()))))
    return "ASIA" + hashlib.sha256(said.encode()).hexdigest()[:16].upper()


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


def moto_ec2(region: Region) -> Any:
    """Return moto's EC2 of a region."""
    return ec2_backends[region.account][region.name]


def tags_kept(region: Region, identity: str) -> dict[str, str]:
    """Return the tags of something of EC2's, by its id."""
    return dict(moto_ec2(region).tags.get(identity, {}))
