"""One region of one account: principals, recorded calls, clients, and the small services (IAM, STS, Lambda, ECR)."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import cache
from threading import Lock
from typing import Any, NoReturn
from urllib.parse import unquote

import boto3
from botocore.config import Config
from moto.ec2.models import ec2_backends
from moto.iam.aws_managed_policies import aws_managed_policies_data
from moto.iam.models import AWSManagedPolicy, iam_backends

from gpu_rehearsal.aws.api import AwsError, NotSimulated, Request, simulates
from gpu_rehearsal.aws.policies import (
    AccessRequest,
    Decision,
    UnknownPermission,
    decide,
    decide_for_principal,
    request_tags,
    role_statements,
    trust_statements,
)
from gpu_rehearsal.credentials import Credentials, FunctionError, Source


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One recorded call.

    Attributes:
        principal: ARN of the calling role; empty for the administrator.
        service: Prefix of the action, e.g. ``ec2``.
        action: The action, e.g. ``ec2:RunInstances``.
        resources: ARNs whose permissions were checked; empty for the administrator.
        allowed: Whether the principal's policies allow it.
        statements: The statements that allow it, or the one that denies it, each as ``<policy>#<Sid or number>``.
        error: Code of the returned error; empty for success.
        message: Message of the returned error.
    """

    principal: str
    service: str
    action: str
    resources: tuple[str, ...] = ()
    allowed: bool = True
    statements: tuple[str, ...] = ()
    error: str = ""
    message: str = ""

    def denied(self, code: str, message: str) -> Call:
        """Return the call as a denied one."""
        return replace(self, allowed=False, error=code, message=message)

    def with_statements(self, *statements: str) -> Call:
        """Return the call with the statements that allow it."""
        return replace(self, statements=tuple(dict.fromkeys(filter(None, statements))))

    @property
    def statement(self) -> str:
        """The statements as one text."""
        return ", ".join(self.statements)


# Temporary keys begin with ASIA, keys of users with AKIA. Each has 20 characters.
# Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html#identifiers-unique-ids
_ADMINISTRATOR_KEY = "AKIAADMINISTRATOR000"
# With the first key, a simulator calls moto; with the second one, all simulators. Neither call is checked or recorded.
SERVICE_KEY = "AKIAAWSITSELF0000000"
INSIDE_KEY = "AKIAAWSINSIDE0000000"


class Principals:
    """The principals that can sign calls: the administrator, AWS itself, and every role with credentials.

    Attributes:
        administrator: ARN of the role that deploys.
    """

    def __init__(self, account: str) -> None:
        self.account = account
        # The deploying role: the role of CloudFormation in an account with a CDK bootstrap.
        self.administrator = f"arn:aws:iam::{account}:role/administrator"
        self._roles = {_ADMINISTRATOR_KEY: "", SERVICE_KEY: "", INSIDE_KEY: ""}
        self._tags: dict[str, dict[str, str]] = {}
        self._sources: dict[str, Source] = {}
        self._rejections: dict[str, str] = {}

    def credentials(
        self, role: str = "", *, tags: dict[str, str] | None = None, source: Source | None = None
    ) -> Credentials:
        """Return the access key of a role, or of a role's session with tags.

        Args:
            role: ARN of the role; empty for the administrator.
            tags: Session tags, as EKS Pod Identity sets them.
            source: Where its calls start; ``None`` if they reach everything.
        """
        key = _derive_access_key(role, tags or {}, source) if role else _ADMINISTRATOR_KEY
        self._roles[key] = role
        self._tags[key] = dict(tags or {})
        if source is not None:
            self._sources[key] = source
        return Credentials(role=role, access_key=key)

    def resolve_role(self, access_key: str) -> str:
        """Return the role of an access key; empty for the administrator.

        Raises:
            AwsError: The key is unknown.
        """
        if access_key not in self._roles:
            raise AwsError("InvalidClientTokenId", "The security token included in the request is invalid.")
        return self._roles[access_key]

    def session_tags(self, access_key: str) -> dict[str, str]:
        """Return the session tags of a key."""
        return self._tags.get(access_key, {})

    def rejected(self, why: str) -> Credentials:
        """Return an access key whose calls all fail, like calls of an SDK without credentials."""
        key = _derive_access_key(why, {}, None)
        self._rejections[key] = why
        return Credentials(role="", access_key=key)

    def rejection_reason(self, access_key: str) -> str:
        """Return why all calls of a key are rejected; empty if they aren't."""
        return self._rejections.get(access_key, "")

    def call_source(self, access_key: str) -> Source | None:
        """Return where the calls of a key start; ``None`` if unknown."""
        return self._sources.get(access_key)


def _derive_access_key(role: str, tags: dict[str, str], source: Source | None) -> str:
    identity = "\n".join((role, str(source or ""), *(f"{key}={value}" for key, value in sorted(tags.items()))))
    return "ASIA" + hashlib.sha256(identity.encode()).hexdigest()[:16].upper()


# Without retries: a failure here isn't a network error.
_CLIENT_CONFIG = Config(retries={"total_max_attempts": 1, "mode": "standard"}, parameter_validation=True)

# Several threads may use a client at once, but only one thread may create clients.
# Source: https://boto3.amazonaws.com/v1/documentation/api/latest/guide/clients.html#multithreading-or-multiprocessing-with-clients
_CLIENT_LOCK = Lock()
_SESSION = boto3.Session()


@dataclass(frozen=True, kw_only=True)
class Region:
    """One region of one account, at the address of the server.

    Attributes:
        name: Name, e.g. ``us-east-1``.
        account: Twelve digits.
        endpoint: Address that answers for every service.
    """

    name: str
    account: str
    endpoint: str

    def arn(self, service: str, resource: str) -> str:
        """Return the ARN of a resource in this region."""
        return f"arn:aws:{service}:{self.name}:{self.account}:{resource}"

    def moto_client(self, name: str) -> Any:
        """Return a client that calls moto directly. Its calls are neither checked nor recorded."""
        return self.client(name, Credentials(role="", access_key=SERVICE_KEY))

    def simulated_client(self, name: str) -> Any:
        """Return a client that calls all simulators. Its calls are neither checked nor recorded."""
        return self.client(name, Credentials(role="", access_key=INSIDE_KEY))

    def client(self, name: str, credentials: Credentials) -> Any:
        """Return a client with some credentials. Clients are cached, because their creation is slow."""
        with _CLIENT_LOCK:
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
        config=_CLIENT_CONFIG,
    )


def moto_ec2(region: Region) -> Any:
    """Return moto's EC2 of a region."""
    return ec2_backends[region.account][region.name]


def existing_tags(region: Region, identity: str) -> dict[str, str]:
    """Return the tags of an EC2 resource, by its id."""
    return dict(moto_ec2(region).tags.get(identity, {}))


Invoke = Callable[[str, bytes], bytes]
_VALID = timedelta(hours=12)
_AWS = "arn:aws:iam::aws:policy/"


class OtherServices:
    """The simulated parts of Lambda, CloudFormation and ECR.

    Attributes:
        invoke: Runs a function, called with its name and payload.
        resources: Functions that return the physical id of a logical id, by name and by ARN of the stack.
    """

    def __init__(self) -> None:
        self.invoke: Invoke | None = None
        self.resources: dict[str, Callable[[str], str]] = {}

    @simulates("lambda", "Invoke")
    def run(self, request: Request) -> Mapping[str, Any]:
        """Run a function, and return its response.

        Source: https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html
        """
        name = function_name(request.parameters["FunctionName"])
        if self.invoke is None:
            raise NotSimulated(f"the function {name}")
        answered: dict[str, Any] = {"StatusCode": 200, "ExecutedVersion": "$LATEST"}
        try:
            return answered | {"Payload": self.invoke(name, request.parameters.get("Payload") or b"{}")}
        except FunctionError as error:
            return answered | {"FunctionError": error.kind, "Payload": error.payload}
        except LookupError as error:
            raise AwsError("ResourceNotFoundException", str(error)) from error

    @simulates("cloudformation", "DescribeStackResource")
    def stack_resource(self, request: Request) -> Mapping[str, Any]:
        """Return the resource that a stack had before the running operation. A creation has none.

        Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_DescribeStackResource.html
        """
        stack, name = (str(request.parameters[each]) for each in ("StackName", "LogicalResourceId"))
        find = self.resources.get(stack)
        if not (found := find(name) if find else ""):
            raise AwsError("ValidationError", f"Resource {name} does not exist for stack {stack}")
        return {"StackResourceDetail": {"LogicalResourceId": name, "PhysicalResourceId": found}}

    @simulates("ecr-public", "GetAuthorizationToken")
    def log_in_to_public(self, request: Request) -> Mapping[str, Any]:
        """Return a token of the public registry.

        Source: https://docs.aws.amazon.com/AmazonECRPublic/latest/APIReference/API_GetAuthorizationToken.html
        """
        return {"authorizationData": _token()}

    @simulates("ecr", "GetAuthorizationToken")
    def log_in_to_private(self, request: Request) -> Mapping[str, Any]:
        """Return a token of a private registry.

        Source: https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_GetAuthorizationToken.html
        """
        return {"authorizationData": [_token()]}


def function_name(reference: str) -> str:
    """Return the name from a name, a partial ARN or an ARN of a function.

    Source: https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html (2026-11)
    """
    parts = unquote(reference).split(":")
    return parts[parts.index("function") + 1] if "function" in parts else parts[-1]


def _token() -> dict[str, Any]:
    token = base64.b64encode(b"AWS:rehearsal").decode()
    return {"authorizationToken": token, "expiresAt": datetime.now(timezone.utc) + _VALID}


class Roles:
    """The simulated parts of STS and IAM."""

    def __init__(self, region: Region, principals: Principals, write: Callable[[Call], None]) -> None:
        self._region, self._principals, self._write = region, principals, write

    def assume(
        self,
        role: str,
        *,
        kind: str,
        principal: str,
        tags: Mapping[str, str] | None = None,
        source: Mapping[str, str] | None = None,
        calls_from: Source | None = None,
    ) -> Credentials:
        """Return credentials of a role for a principal that its trust policy allows.

        Args:
            role: ARN of the role.
            kind: ``Service`` or ``AWS``.
            principal: A service such as ``pods.eks.amazonaws.com``, or the ARN of another role.
            tags: Tags of the session.
            source: Condition keys ``aws:SourceArn`` and ``aws:SourceAccount`` of a service.
            calls_from: Where calls with the credentials start.

        Raises:
            AwsError: The trust policy doesn't allow it.
        """
        context = request_tags(tags or {}) | {key: (value,) for key, value in (source or {}).items()}
        call = Call(principal=principal, service="sts", action="sts:AssumeRole", resources=(role,))
        used = []
        for action in ("sts:AssumeRole", "sts:TagSession") if tags else ("sts:AssumeRole",):
            decision = self._decide(call, role, AccessRequest(action=action, context=context), kind, principal)
            if not decision.allowed:
                session = f" with session tags {dict(tags)}" if tags else ""
                message = f"User: {principal} is not authorized to perform: {action} on resource: {role}"
                why = f"no statement of its trust policy allows it{session}"
                self._refuse(replace(call, action=action), "AccessDenied", f"{message} because {why}")
            used.append(decision.statement)
        self._write(call.with_statements(*used))
        return self._principals.credentials(role, tags=dict(tags or {}), source=calls_from)

    def check(self, role: str, action: str, resource: str) -> None:
        """Check and record a call of a role that is part of another call.

        Raises:
            AwsError: The role's policies don't allow it.
        """
        call = Call(principal=role, service=action.partition(":")[0], action=action, resources=(resource,))
        try:
            decision = decide(
                role_statements(self._region.account, role), AccessRequest(action=action, resource=resource)
            )
        except UnknownPermission as error:
            self._refuse(call, "NotSimulated", f"the permission of {action}: {error}")
        if not decision.allowed:
            message = f"User: {self._session(role)} is not authorized to perform: {action} on resource: {resource}"
            self._refuse(call, "AccessDeniedException", message)
        self._write(call.with_statements(decision.statement))

    def _decide(self, call: Call, role: str, access_request: AccessRequest, kind: str, principal: str) -> Decision:
        try:
            return decide_for_principal(
                trust_statements(self._region.account, role), access_request, kind=kind, principal=principal
            )
        except UnknownPermission as error:
            self._refuse(call, "NotSimulated", f"the trust of {role}: {error}")

    @simulates("sts", "AssumeRole")
    def assume_role(self, request: Request) -> Mapping[str, Any]:
        """Return credentials of a role to a caller with another role.

        Source: https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
        """
        role, caller = str(request.parameters["RoleArn"]), self._principals.resolve_role(request.access_key)
        tags = {tag["Key"]: tag["Value"] for tag in request.parameters.get("Tags", ())}
        credentials = self.assume(role, kind="AWS", principal=caller or self._principals.administrator, tags=tags)
        given = {
            "AccessKeyId": credentials.access_key,
            "SecretAccessKey": credentials.secret_key,
            "SessionToken": credentials.token,
            "Expiration": datetime.now(timezone.utc) + timedelta(hours=1),
        }
        user = {"AssumedRoleId": f"AROA:{request.parameters['RoleSessionName']}", "Arn": self._session(role)}
        return {"Credentials": given, "AssumedRoleUser": user}

    @simulates("sts", "GetCallerIdentity")
    def identity(self, request: Request) -> Mapping[str, Any]:
        """Return the caller's identity.

        Source: https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
        """
        role = self._principals.resolve_role(request.access_key) or self._principals.administrator
        return {"UserId": "AROA:rehearsal", "Account": self._region.account, "Arn": self._session(role)}

    def _session(self, role: str) -> str:
        return f"arn:aws:sts::{self._region.account}:assumed-role/{role.rpartition('/')[2]}/rehearsal"

    def _refuse(self, call: Call, code: str, message: str) -> NoReturn:
        self._write(call.denied(code, message))
        raise AwsError(code, message)

    @simulates("iam", "ListInstanceProfiles")
    def instance_profiles(self, request: Request) -> Mapping[str, Any]:
        """Return the instance profiles whose path has the requested prefix, in one page."""
        prefix = str(request.parameters.get("PathPrefix") or "/")
        known = self._region.moto_client("iam").list_instance_profiles()["InstanceProfiles"]
        return {"InstanceProfiles": [each for each in known if each["Path"].startswith(prefix)], "IsTruncated": False}

    @simulates("iam", "AttachRolePolicy")
    def attach(self, request: Request) -> None:
        """Register an AWS managed policy, so that moto can attach it."""
        arn = str(request.parameters["PolicyArn"])
        known = iam_backends[self._region.account]["aws"].managed_policies
        name = arn.rpartition("/")[2]
        if arn.startswith(_AWS) and arn not in known and name in _published():
            policy = AWSManagedPolicy.from_data(name, self._region.account, self._region.name, _published()[name])
            if policy.arn == arn:
                known[arn] = policy


@cache
def _published() -> Mapping[str, dict[str, Any]]:
    """Return moto's data of AWS managed policies, by name."""
    return dict(json.loads(aws_managed_policies_data))
