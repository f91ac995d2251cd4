"""Identities: the IAM principal behind a token of ``aws eks get-token``, and the AWS credentials of a pod.

Source: https://github.com/kubernetes-sigs/aws-iam-authenticator/blob/master/pkg/token/token.go
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit

from botocore.exceptions import ClientError
from moto.core.exceptions import ServiceException

from gpu_rehearsal.cluster.client import Client, Object
from gpu_rehearsal.cluster.instances import Node
from gpu_rehearsal.cluster.pod_status import has_host_network, is_ready, owner
from gpu_rehearsal.credentials import Cloud, Credentials
from gpu_rehearsal.processes import LOOPBACK, Handler, Server, wait_until

PREFIX = "k8s-aws-v1."
# The max lifetime of a token.
_MAX_AGE = timedelta(minutes=15)
_REQUIRED_PARAMETERS = ("X-Amz-Credential", "X-Amz-Date", "X-Amz-SignedHeaders", "X-Amz-Signature")
_CLUSTER_HEADER = "x-k8s-aws-id"


class BadToken(Exception):
    """The reason why a token doesn't authenticate."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """A well-formed token.

    Attributes:
        url: The signed call.
        query: Query parameters of the call.
        access_key: The key that signed.
    """

    url: SplitResult
    query: dict[str, str]
    access_key: str

    def check(self, cluster: str, secret_key: str) -> None:
        """Check that the token was signed for a cluster.

        Raises:
            BadToken: It was signed for another cluster, or with another key.
        """
        if not hmac.compare_digest(self._signature(cluster, secret_key), self.query["X-Amz-Signature"]):
            raise BadToken(f"the token of {self.access_key} was not signed for cluster {cluster}")

    def _signature(self, cluster: str, secret_key: str) -> str:
        """Return the expected signature.

        Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
        """
        attributes = sorted((key, value) for key, value in self.query.items() if key != "X-Amz-Signature")
        query = "&".join(f"{quote(key, safe='-_.~')}={quote(value, safe='-_.~')}" for key, value in attributes)
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
        BadToken: The token is malformed or too old.
    """
    url = urlsplit(_decoded(written))
    query = dict(parse_qsl(url.query))
    missing = [each for each in _REQUIRED_PARAMETERS if each not in query]
    if query.get("Action") != "GetCallerIdentity" or missing:
        raise BadToken(f"the token doesn't sign a call of GetCallerIdentity: {missing or query.get('Action')}")
    if _CLUSTER_HEADER not in query["X-Amz-SignedHeaders"].split(";"):
        raise BadToken(f"the token names no cluster: it doesn't sign {_CLUSTER_HEADER}")
    signed_at = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    if not -_MAX_AGE < now - signed_at < _MAX_AGE:
        raise BadToken(f"the token of {signed_at} has expired or isn't valid yet")
    return Token(url=url, query=query, access_key=query["X-Amz-Credential"].partition("/")[0])


def _decoded(written: str) -> str:
    if not written.startswith(PREFIX):
        raise BadToken(f"the token does not begin with {PREFIX}")
    encoded = written.removeprefix(PREFIX)
    try:
        return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise BadToken(f"the token isn't base64: {error}") from error


_READ_ALL = "eks-admin-view"
# Cluster roles with the same rights as the access policies. The first four are Kubernetes' own.
_ROLES = {
    "AmazonEKSClusterAdminPolicy": "cluster-admin",
    "AmazonEKSAdminPolicy": "admin",
    "AmazonEKSEditPolicy": "edit",
    "AmazonEKSViewPolicy": "view",
    "AmazonEKSAdminViewPolicy": _READ_ALL,
}
_RBAC = "rbac.authorization.k8s.io"


class AccessPolicies:
    """The access policies of the users of one cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._bound: set[str] = set()

    def groups(self, associated: Iterable[Object]) -> list[str]:
        """Return groups with the rights of some access policies, once the API server applies these rights.

        Args:
            associated: Policies with their scopes, as ListAssociatedAccessPolicies returns them.

        Raises:
            LookupError: A policy or scope isn't supported.
        """
        return [self._group(each["policyArn"].rpartition("/")[2], each["accessScope"]) for each in associated]

    def _group(self, policy: str, scope: Object) -> str:
        if policy not in _ROLES:
            raise LookupError(f"access policy {policy} isn't supported")
        namespaces = [""] if scope["type"] == "cluster" else list(scope["namespaces"])
        patterns = [each for each in namespaces if "*" in each]
        if patterns:
            raise LookupError(f"access scope of {policy}: patterns of namespaces aren't supported, got {patterns}")
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
        wait_until(lambda: self._is_bound(group, namespace), f"the rights of {group}")

    def _is_bound(self, group: str, namespace: str) -> bool:
        """Whether the API server applies a binding: every policy allows reading pods."""
        attributes = {"verb": "get", "resource": "pods", "namespace": namespace}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": "probe", "groups": [group], "resourceAttributes": attributes},
        }
        return bool(self._client.create(review)["status"]["allowed"])


def _read_all() -> Object:
    read = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
    return {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": _READ_ALL}, "rules": [read]}


# The session name of every login: the simulated access keys have none.
_SESSION_NAME = "rehearsal"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Login:
    """The result of a login with a token of AWS.

    Attributes:
        role: ARN of the role; empty if the token doesn't identify one.
        username: User name in the cluster; empty if the login failed.
        groups: Groups of the user in the cluster.
        failure: Why the login failed.
    """

    role: str
    username: str = ""
    groups: tuple[str, ...] = ()
    failure: str = ""


class Authenticator(Server):
    """The authentication webhook of one cluster.

    Attributes:
        client: An administrator of the cluster. It exists only after the webhook.
        logins: All logins, in order.
    """

    def __init__(self, cloud: Cloud, *, cluster: str) -> None:
        self._cloud, self._cluster = cloud, cluster
        self._policies: AccessPolicies | None = None
        self._client: Client | None = None
        self._lock = threading.Lock()
        self.logins: list[_Login] = []
        super().__init__(_Webhook)

    @property
    def client(self) -> Client | None:
        """A client with the rights of an administrator."""
        return self._client

    @client.setter
    def client(self, client: Client) -> None:
        self._client, self._policies = client, AccessPolicies(client)

    def login(self, written: str) -> _Login:
        """Return the login of a token, and record it."""
        # One at a time: the first login binds the rights of later ones.
        with self._lock:
            found = self._login(written)
        self.logins.append(found)
        return found

    def _login(self, written: str) -> _Login:
        role = ""
        try:
            signed = read_token(written, now=datetime.now(timezone.utc))
            role = self._resolve_role(signed.access_key)
            signed.check(self._cluster, self._cloud.credentials(role).secret_key)
            return self._entry_login(role)
        except (BadToken, LookupError) as error:
            return _Login(role=role, failure=str(error))

    def _resolve_role(self, access_key: str) -> str:
        try:
            return self._cloud.resolve_role(access_key)
        except Exception as error:
            raise BadToken(str(error)) from error

    def _entry_login(self, role: str) -> _Login:
        eks, principal = self._cloud.client("eks"), role or self._cloud.administrator
        entry_key = {"clusterName": self._cluster, "principalArn": principal}
        try:
            entry = eks.describe_access_entry(**entry_key)["accessEntry"]
        except eks.exceptions.ResourceNotFoundException as error:
            raise LookupError(f"{principal} has no access entry") from error
        if entry["type"] != "STANDARD":
            # Its user name has the name of an instance. Kubelets use other credentials here.
            raise LookupError(f"the access entry of {role} is of type {entry['type']}, which is for nodes")
        if self._policies is None:
            raise LookupError("the cluster doesn't exist yet")
        found = eks.list_associated_access_policies(**entry_key)
        groups = [*entry.get("kubernetesGroups", ()), *self._policies.groups(found["associatedAccessPolicies"])]
        username = entry["username"].replace("{{SessionName}}", _SESSION_NAME)
        return _Login(role=role, username=username, groups=tuple(groups))


class _Webhook(Handler):
    """Handles TokenReviews of the API server."""

    server: Authenticator

    def do_POST(self) -> None:
        """Return the status of a review."""
        review = json.loads(self.body())
        self.send(200, json.dumps(review | {"status": _status(self.server.login(review["spec"]["token"]))}).encode())


def _status(login: _Login) -> Object:
    if login.failure:
        return {"authenticated": False, "error": login.failure}
    user = {"username": login.username, "groups": list(login.groups), "extra": {"arn": [login.role]}}
    return {"authenticated": True, "user": user}


# Source: https://docs.aws.amazon.com/eks/latest/userguide/associate-service-account-role.html
_ROLE_ANNOTATION = "eks.amazonaws.com/role-arn"
_TOKEN_SECONDS = 24 * 3600
_SYSTEM, _AGENT = "kube-system", "eks-pod-identity-agent"
# Delay before a pod requests credentials again after a rejection. SDKs and restarted containers have other delays.
RETRY_SECONDS = 20.0


class _NoCredentials(Exception):
    """The reason why no agent responds to a pod that requests credentials."""


class PodCredentials:
    """The AWS credentials of the pods of a cluster. A pod requests them once, and again after a rejection."""

    def __init__(
        self,
        cloud: Cloud,
        client: Client,
        *,
        cluster: str,
        pace: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cloud, self._client, self._cluster = cloud, client, cluster
        self._pace, self._clock = pace, clock
        self._requested: dict[str, tuple[float, Credentials | Exception | None]] = {}

    def lacks(self, pod: Object, node: Node) -> str:
        """Return why a pod can't call AWS; empty if it can or doesn't need to."""
        found = self._found(pod, node)
        return f"AWS credentials of service account {_account(pod)}: {found}" if isinstance(found, Exception) else ""

    def lacks_agent(self, pod: Object, node: Node) -> str:
        """Return why no agent responds to a pod's request for credentials; empty after any response."""
        return self.lacks(pod, node) if isinstance(self._found(pod, node), _NoCredentials) else ""

    def without_role(self, pod: Object, node: Node) -> str:
        """Return why a pod has no role; empty if it has one or can use the role of its node."""
        if self._found(pod, node) is not None or has_host_network(pod):
            return ""
        return f"service account {_account(pod)} has no Pod Identity association older than the pod"

    def _found(self, pod: Object, node: Node) -> Credentials | Exception | None:
        uid = pod["metadata"]["uid"]
        at, found = self._requested.get(uid, (float("-inf"), _NoCredentials()))
        if isinstance(found, Exception) and self._clock() - at >= RETRY_SECONDS * self._pace:
            try:
                found = self._request(pod, node)
            except (ServiceException, ClientError, _NoCredentials) as error:
                found = error
            self._requested[uid] = (self._clock(), found)
        return found

    def credentials(self, pod: Object, node: Node) -> Credentials | None:
        """Return the credentials of a pod, ``None`` if it has none. Calls with rejected ones fail with the reason.

        Only a pod on the host network can use the credentials of its node: the metadata service has a hop limit of 1.
        """
        found = self._found(pod, node)
        if isinstance(found, Exception):
            return self._cloud.rejected(self.lacks(pod, node))
        return self._node_credentials(node) if found is None and has_host_network(pod) else found

    def _request(self, pod: Object, node: Node) -> Credentials | None:
        found = self._service_account_credentials(pod, node)
        if call := _FIRST_CALLS.get(_account(pod)):
            call(self._cloud, found or self._node_credentials(node), node)
        return found

    def _node_credentials(self, node: Node) -> Credentials:
        return self._cloud.assume(node.instance.role, service="ec2.amazonaws.com", source=node.instance.source)

    def _service_account_credentials(self, pod: Object, node: Node) -> Credentials | None:
        """Return the credentials of a pod's service account.

        The webhook of EKS decides when the pod is created: an association that is created later is for later pods
        (https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html).
        """
        namespace, name = _account(pod).split("/")
        # The webhook of EKS adds the variables to a pod, so this isn't read with the rights of the kubelet.
        account = self._client.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}")
        if annotated := account["metadata"].get("annotations", {}).get(_ROLE_ANNOTATION):
            # The trust of a web identity isn't checked.
            return self._cloud.credentials(str(annotated))
        if not any(_is_before(each, pod) for each in self._association_times(namespace, name)):
            return None
        self._check_agent(node)
        return self._cloud.pod_credentials(
            self._cluster,
            namespace=namespace,
            service_account=name,
            pod=pod["metadata"]["name"],
            node_role=node.instance.role,
            source=node.instance.source,
        )

    def _association_times(self, namespace: str, name: str) -> Iterator[datetime]:
        eks = self._cloud.client("eks")
        where = {"namespace": namespace, "serviceAccount": name}
        for each in eks.list_pod_identity_associations(clusterName=self._cluster, **where)["associations"]:
            found = eks.describe_pod_identity_association(
                clusterName=self._cluster, associationId=each["associationId"]
            )
            yield found["association"]["createdAt"]

    def _check_agent(self, node: Node) -> None:
        """Fail if no agent pod is ready on a node. The agent is a DaemonSet on the host network.

        Source: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html (2026-11)
        """
        on_node = f"spec.nodeName={node.name}"
        pods = self._client.list(f"/api/v1/namespaces/{_SYSTEM}/pods", fieldSelector=on_node)
        if not any(owner(each, "DaemonSet") == _AGENT and is_ready(each) for each in pods):
            raise _NoCredentials(f"no ready pod of {_AGENT} on node {node.name}")


def _account(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['spec'].get('serviceAccountName', 'default')}"


def _is_before(associated_at: datetime, pod: Object) -> bool:
    # The API server truncates the times of objects to seconds.
    return (
        int(associated_at.timestamp())
        <= datetime.fromisoformat(pod["metadata"]["creationTimestamp"].replace("Z", "+00:00")).timestamp()
    )


def _assign_address(cloud: Cloud, credentials: Credentials, node: Node) -> None:
    interface = node.instance.description["NetworkInterfaces"][0]["NetworkInterfaceId"]
    ec2 = cloud.client("ec2", credentials=credentials)
    ec2.assign_private_ip_addresses(NetworkInterfaceId=interface, SecondaryPrivateIpAddressCount=1)


def _create_volume(cloud: Cloud, credentials: Credentials, node: Node) -> None:
    tags = [{"Key": "ebs.csi.aws.com/cluster", "Value": "true"}, {"Key": "CSIVolumeName", "Value": "pvc-rehearsal"}]
    ec2 = cloud.client("ec2", credentials=credentials)
    tagged = [{"ResourceType": "volume", "Tags": tags}]
    try:
        ec2.create_volume(AvailabilityZone=node.instance.zone, Size=1, TagSpecifications=tagged, DryRun=True)
    except ClientError as error:
        if error.response["Error"]["Code"] != "DryRunOperation":
            raise


# A call that the pods of a service account need. It is tried before they start.
# Sources: https://docs.aws.amazon.com/eks/latest/userguide/cni-iam-role.html,
# https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/v1.64.0/docs/example-iam-policy.json (2026-11)
_FIRST_CALLS: Mapping[str, Callable[[Cloud, Credentials, Node], None]] = {
    f"{_SYSTEM}/aws-node": _assign_address,
    f"{_SYSTEM}/ebs-csi-controller-sa": _create_volume,
}


def has_token(pod: Object, container: Object) -> bool:
    """Whether a container mounts the token of its service account."""
    with_token = {
        volume["name"]
        for volume in pod["spec"].get("volumes", ())
        for source in volume.get("projected", {}).get("sources", ())
        if "serviceAccountToken" in source
    }
    return any(each["name"] in with_token for each in container.get("volumeMounts", ()))


def write_kubeconfig(pod: Object, kubelet: Client, folder: Path) -> Path:
    """Request a token that is bound to a pod, and write a kubeconfig with it.

    Source: https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/
    """
    metadata = pod["metadata"]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    attributes = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": _TOKEN_SECONDS, "boundObjectRef": bound},
    }
    account = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{pod['spec']['serviceAccountName']}"
    token = kubelet.post(f"{account}/token", attributes)["status"]["token"]
    server = {"server": f"https://{LOOPBACK}:{kubelet.port}", "certificate-authority": str(kubelet.certificate)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": server}],
        "users": [{"name": "account", "user": {"token": token}}],
        "contexts": [
            {"name": "pod", "context": {"cluster": "cluster", "user": "account", "namespace": metadata["namespace"]}}
        ],
        "current-context": "pod",
    }
    file = folder / "kubeconfig"
    file.write_text(json.dumps(config))
    file.chmod(0o600)
    return file
