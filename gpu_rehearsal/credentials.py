"""Types that simulators share: credentials, an interface of AWS, certificates, and errors of functions."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from trustme import CA


class Cloud(Protocol):
    """AWS at one address.

    Attributes:
        endpoint: The address.
        region: Region of the cluster.
    """

    endpoint: str
    region: str

    @property
    def administrator(self) -> str:
        """ARN of the administrator in access entries."""

    def client(self, service: str, *, role: str = "", credentials: Credentials | None = None) -> Any:
        """Return the boto3 client of a service, as a role, as the owner of credentials or as the administrator."""

    def credentials(self, role: str = "") -> Credentials:
        """Return credentials of a role, without a check of its trust policy."""

    def assume(self, role: str, *, service: str, source: Source | None = None) -> Credentials:
        """Return credentials of a role for a service. `source` is where its calls start.

        Raises:
            ServiceException: Its trust policy doesn't allow it.
        """

    def pod_credentials(
        self, cluster: str, *, namespace: str, service_account: str, pod: str, node_role: str, source: Source
    ) -> Credentials | None:
        """Return the credentials that EKS Pod Identity gives a pod; ``None`` if its service account has no role.

        Raises:
            ServiceException: The role doesn't trust it, or the node may not request them.
        """

    def rejected(self, why: str) -> Credentials:
        """Return credentials of a pod whose request was rejected: its calls fail with the reason."""

    def unreachable(self, source: Source, cluster: str, *services: str) -> str:
        """Return why a source doesn't reach the API server of a cluster, or some AWS APIs; empty if it does."""

    def unreachable_kubelet(self, node: Source, cluster: str) -> str:
        """Return why the API server of a cluster doesn't reach the kubelet of a node; empty if it does."""

    def resolve_role(self, access_key: str) -> str:
        """Return the ARN of the role that has an access key; empty for the administrator.

        Raises:
            Exception: No principal has that key. The message is AWS' own.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Where a connection starts.

    Attributes:
        name: Its name in reports: an instance or a function.
        subnet: Its subnet; empty outside the VPCs of the account, for example for a function without a VPC.
        groups: Its security groups.
        address: Its public address; empty without one.
    """

    name: str
    subnet: str = ""
    groups: tuple[str, ...] = ()
    address: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """Access to AWS as one role.

    Attributes:
        role: ARN of the role; empty for the administrator, who deploys.
        access_key: Identifies the caller.
        secret_key: Signs calls; the signature isn't checked.
        token: Session token; it isn't checked.
    """

    role: str
    access_key: str
    secret_key: str = "rehearsal"
    token: str = "rehearsal"

    def environment(self, *, endpoint: str, region: str) -> dict[str, str]:
        """Return the environment variables that configure the AWS SDKs of every language."""
        return {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_SESSION_TOKEN": self.token,
            "AWS_EC2_METADATA_DISABLED": "true",
        }


class FunctionError(Exception):
    """A function ended without a response.

    Lambda still responds to Invoke, with the header ``X-Amz-Function-Error`` and the error as payload.
    Source: https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html (2026-11)

    Attributes:
        payload: JSON with ``errorType`` and ``errorMessage``.
        kind: Value of the header.
    """

    kind = "Unhandled"

    def __init__(self, payload: bytes) -> None:
        super().__init__(payload.decode())
        self.payload = payload


class Authority:
    """A certificate authority of one play.

    Attributes:
        certificate: File with its certificate alone.
        bundle: File with it and all certificates that this machine trusts.
    """

    def __init__(self, folder: Path) -> None:
        self._ca = CA()
        self.certificate, self.bundle = folder / "authority.pem", folder / "trusted.pem"
        self._ca.cert_pem.write_to_path(str(self.certificate))
        trusted = ssl.get_default_verify_paths().cafile
        self.bundle.write_bytes(
            (Path(trusted).read_bytes() + b"\n" if trusted else b"") + self.certificate.read_bytes()
        )

    def context(self, host: str) -> ssl.SSLContext:
        """Return a TLS context with a certificate for a host."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._ca.issue_cert(host).configure_cert(context)
        return context

    def environment(self) -> dict[str, str]:
        """Return the variables that make programs in Go, Python and Node trust it."""
        return {"SSL_CERT_FILE": str(self.bundle), "NODE_EXTRA_CA_CERTS": str(self.certificate)}
