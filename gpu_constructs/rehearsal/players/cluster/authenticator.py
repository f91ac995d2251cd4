"""Who calls the API server with a token of AWS: the webhook that EKS runs beside it.

Source: https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html and
https://kubernetes.io/docs/reference/access-authn-authz/authentication/#webhook-token-authentication
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gpu_constructs.rehearsal.players.cluster.access import token
from gpu_constructs.rehearsal.players.cluster.access.policies import AccessPolicies
from gpu_constructs.rehearsal.players.cluster.access.token import BadToken
from gpu_constructs.rehearsal.players.cluster.client import Client, Object
from gpu_constructs.rehearsal.players.cluster.cloud import Cloud
from gpu_constructs.rehearsal.players.cluster.ports import LOOPBACK

# What stands for the name of a session, which no access key tells here.
_SESSION = "rehearsal"


@dataclass(frozen=True, kw_only=True, slots=True)
class Login:
    """Somebody who came with a token of AWS.

    Attributes:
        role: ARN of the role; empty where the token does not tell.
        username: Who that is in the cluster; empty where it is nobody.
        groups: The groups of it there.
        refused: Why it is nobody.
    """

    role: str
    username: str = ""
    groups: tuple[str, ...] = ()
    refused: str = ""


class Authenticator:
    """The webhook of one cluster.

    Attributes:
        address: Where it listens.
        client: An administrator of the cluster, who is there only after it.
        logins: Who came, in order.

    Args:
        cloud: AWS.
        cluster: Name of the cluster.
    """

    def __init__(self, cloud: Cloud, *, cluster: str) -> None:
        self._cloud, self._cluster = cloud, cluster
        self._policies: AccessPolicies | None = None
        self._client: Client | None = None
        self._lock = threading.Lock()
        self.logins: list[Login] = []
        handler = type("Webhook", (_Webhook,), {"authenticator": self})
        self._server = ThreadingHTTPServer((LOOPBACK, 0), handler)
        self._server.daemon_threads = True
        self.address = f"http://{LOOPBACK}:{self._server.server_address[1]}/authenticate"

    @property
    def client(self) -> Client | None:
        """An administrator of the cluster."""
        return self._client

    @client.setter
    def client(self, client: Client) -> None:
        self._client, self._policies = client, AccessPolicies(client)

    def __enter__(self) -> Authenticator:
        threading.Thread(target=self._server.serve_forever, name="authenticator", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def login(self, written: str) -> Login:
        """Return whose a token is, and remember it."""
        # One after another: the first binds the rights of the next.
        with self._lock:
            found = self._login(written)
        self.logins.append(found)
        return found

    def _login(self, written: str) -> Login:
        role = ""
        try:
            signed = token.read(written, now=datetime.now(timezone.utc))
            role = self._role_of(signed.access_key)
            signed.check(self._cluster, self._cloud.credentials(role).secret_key)
            return self._of_entry(role)
        except (BadToken, LookupError) as error:
            return Login(role=role, refused=str(error))

    def _role_of(self, access_key: str) -> str:
        try:
            return self._cloud.role_of(access_key)
        except Exception as error:
            raise BadToken(str(error)) from error

    def _of_entry(self, role: str) -> Login:
        eks, principal = self._cloud.client("eks"), role or self._cloud.administrator
        of = {"clusterName": self._cluster, "principalArn": principal}
        try:
            entry = eks.describe_access_entry(**of)["accessEntry"]
        except eks.exceptions.ResourceNotFoundException as error:
            raise LookupError(f"{principal} has no access entry") from error
        if entry["type"] != "STANDARD":
            # Its user is named after an instance, and kubelets come by other means here.
            raise LookupError(f"the access entry of {role} is of type {entry['type']}, which is for nodes")
        if self._policies is None:
            raise LookupError("the cluster is not there yet")
        found = eks.list_associated_access_policies(**of)
        groups = [*entry.get("kubernetesGroups", ()), *self._policies.groups(found["associatedAccessPolicies"])]
        username = entry["username"].replace("{{SessionName}}", _SESSION)
        return Login(role=role, username=username, groups=tuple(groups))


class _Webhook(BaseHTTPRequestHandler):
    """Answers a TokenReview of the API server."""

    authenticator: Authenticator

    def do_POST(self) -> None:
        """Say whose a token is."""
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps(review | {"status": _status(self.authenticator.login(review["spec"]["token"]))}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _status(login: Login) -> Object:
    if login.refused:
        return {"authenticated": False, "error": login.refused}
    user = {"username": login.username, "groups": list(login.groups), "extra": {"arn": [login.role]}}
    return {"authenticated": True, "user": user}
