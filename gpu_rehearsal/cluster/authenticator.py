"""Tokens of ``aws eks get-token``: a signed call of STS, made for one cluster, that tells whose key signed it.

Source: https://github.com/kubernetes-sigs/aws-iam-authenticator/blob/master/pkg/token/token.go
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit

from gpu_rehearsal.cluster.client import Client, Object
from gpu_rehearsal.cluster.process import wait_until
from gpu_rehearsal.credentials import Cloud
from gpu_rehearsal.processes import Handler, Server

PREFIX = "k8s-aws-v1."
# Longer than that no token lasts, whatever it says.
_LONGEST = timedelta(minutes=15)
_NEEDED = ("X-Amz-Credential", "X-Amz-Date", "X-Amz-SignedHeaders", "X-Amz-Signature")
_CLUSTER_HEADER = "x-k8s-aws-id"


class BadToken(Exception):
    """Why a token lets nobody in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """A token whose form is right.

    Attributes:
        url: The call that it signs.
        query: What that asks, in the order of names.
        access_key: Whose key signed.
    """

    url: SplitResult
    query: dict[str, str]
    access_key: str

    def check(self, cluster: str, secret_key: str) -> None:
        """Check that it was signed for a cluster.

        Raises:
            BadToken: It was signed for another, or with another key.
        """
        if not hmac.compare_digest(self._signature(cluster, secret_key), self.query["X-Amz-Signature"]):
            raise BadToken(f"the token of {self.access_key} was not signed for cluster {cluster}")

    def _signature(self, cluster: str, secret_key: str) -> str:
        """Sign it again.

        Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
        """
        asked = sorted((key, value) for key, value in self.query.items() if key != "X-Amz-Signature")
        query = "&".join(f"{quote(key, safe='-_.~')}={quote(value, safe='-_.~')}" for key, value in asked)
        headers = {"host": self.url.netloc, _CLUSTER_HEADER: cluster}
        signed = self.query["X-Amz-SignedHeaders"]
        lines = "".join(f"{name}:{headers.get(name, '')}\n" for name in signed.split(";"))
        body = hashlib.sha256(b"").hexdigest()
        request = f"GET\n{self.url.path or '/'}\n{query}\n{lines}\n{signed}\n{body}"
        scope = self.query["X-Amz-Credential"].partition("/")[2]
        digest = hashlib.sha256(request.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{self.query['X-Amz-Date']}\n{scope}\n{digest}"
        key = f"AWS4{secret_key}".encode()
        for part in (*scope.split("/"), text):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return key.hex()


def read_token(written: str, *, now: datetime) -> Token:
    """Read a token.

    Raises:
        BadToken: It is none, or too old.
    """
    url = urlsplit(_decoded(written))
    query = dict(parse_qsl(url.query))
    missing = [each for each in _NEEDED if each not in query]
    if query.get("Action") != "GetCallerIdentity" or missing:
        raise BadToken(f"the token signs no call of GetCallerIdentity: {missing or query.get('Action')}")
    if _CLUSTER_HEADER not in query["X-Amz-SignedHeaders"].split(";"):
        raise BadToken(f"the token is for no cluster: it does not sign {_CLUSTER_HEADER}")
    made = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    if not -_LONGEST < now - made < _LONGEST:
        raise BadToken(f"the token of {made} is not of now")
    return Token(url=url, query=query, access_key=query["X-Amz-Credential"].partition("/")[0])


def _decoded(written: str) -> str:
    if not written.startswith(PREFIX):
        raise BadToken(f"the token does not begin with {PREFIX}")
    encoded = written.removeprefix(PREFIX)
    try:
        return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise BadToken(f"the token is no base64: {error}") from error


_READ_ALL = "eks-admin-view"
# Cluster roles that mean what the policies do; the first four are Kubernetes' own.
_ROLES = {
    "AmazonEKSClusterAdminPolicy": "cluster-admin",
    "AmazonEKSAdminPolicy": "admin",
    "AmazonEKSEditPolicy": "edit",
    "AmazonEKSViewPolicy": "view",
    "AmazonEKSAdminViewPolicy": _READ_ALL,
}
_RBAC = "rbac.authorization.k8s.io"


class AccessPolicies:
    """The policies that users of one cluster have."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._bound: set[str] = set()

    def groups(self, associated: Iterable[Object]) -> list[str]:
        """Return the groups whose rights are those of some policies, once the server knows them.

        Args:
            associated: Policies with their scopes, as ListAssociatedAccessPolicies tells.

        Raises:
            LookupError: What a policy or scope means is not known.
        """
        return [self._group(each["policyArn"].rpartition("/")[2], each["accessScope"]) for each in associated]

    def _group(self, policy: str, scope: Object) -> str:
        if policy not in _ROLES:
            raise LookupError(f"access policy {policy} is not known")
        namespaces = [""] if scope["type"] == "cluster" else list(scope["namespaces"])
        patterns = [each for each in namespaces if "*" in each]
        if patterns:
            raise LookupError(f"access scope of {policy}: patterns of namespaces are not known, got {patterns}")
        group = ":".join(["eks-access-policy", policy, *filter(None, namespaces)])
        if group not in self._bound:
            for each in namespaces:
                self._bind(group, _ROLES[policy], each)
            self._bound.add(group)
        return group

    def _bind(self, group: str, role: str, namespace: str) -> None:
        if role == _READ_ALL:
            self._client.apply(_read_all())
        kind = "RoleBinding" if namespace else "ClusterRoleBinding"
        self._client.apply(
            {
                "apiVersion": f"{_RBAC}/v1",
                "kind": kind,
                "metadata": {"name": group} | ({"namespace": namespace} if namespace else {}),
                "subjects": [{"kind": "Group", "name": group, "apiGroup": _RBAC}],
                "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": _RBAC},
            }
        )
        wait_until(lambda: self._knows(group, namespace), f"the rights of {group}")

    def _knows(self, group: str, namespace: str) -> bool:
        """Whether the server's authorizer has heard of a binding; every policy lets read pods."""
        asked = {"verb": "get", "resource": "pods", "namespace": namespace}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": "probe", "groups": [group], "resourceAttributes": asked},
        }
        return bool(self._client.create(review)["status"]["allowed"])


def _read_all() -> Object:
    read = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
    return {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": _READ_ALL}, "rules": [read]}


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


class Authenticator(Server):
    """The webhook of one cluster.

    Attributes:
        client: An administrator of the cluster, who is there only after it.
        logins: Who came, in order.
    """

    def __init__(self, cloud: Cloud, *, cluster: str) -> None:
        self._cloud, self._cluster = cloud, cluster
        self._policies: AccessPolicies | None = None
        self._client: Client | None = None
        self._lock = threading.Lock()
        self.logins: list[Login] = []
        super().__init__(_Webhook)

    @property
    def client(self) -> Client | None:
        """An administrator of the cluster."""
        return self._client

    @client.setter
    def client(self, client: Client) -> None:
        self._client, self._policies = client, AccessPolicies(client)

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
            signed = read_token(written, now=datetime.now(timezone.utc))
            role = self._resolve_role(signed.access_key)
            signed.check(self._cluster, self._cloud.credentials(role).secret_key)
            return self._entry_login(role)
        except (BadToken, LookupError) as error:
            return Login(role=role, refused=str(error))

    def _resolve_role(self, access_key: str) -> str:
        try:
            return self._cloud.resolve_role(access_key)
        except Exception as error:
            raise BadToken(str(error)) from error

    def _entry_login(self, role: str) -> Login:
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


class _Webhook(Handler):
    """Answers a TokenReview of the API server."""

    server: Authenticator

    def do_POST(self) -> None:
        """Say whose a token is."""
        review = json.loads(self.body())
        self.send(200, json.dumps(review | {"status": _status(self.server.login(review["spec"]["token"]))}).encode())


def _status(login: Login) -> Object:
    if login.refused:
        return {"authenticated": False, "error": login.refused}
    user = {"username": login.username, "groups": list(login.groups), "extra": {"arn": [login.role]}}
    return {"authenticated": True, "user": user}
