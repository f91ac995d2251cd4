"""A control plane of Kubernetes on loopback, with the admission plugins that EKS enables and an audit log."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from urllib3.exceptions import HTTPError

from gpu_rehearsal.cluster.client import ApiError, Client, Object
from gpu_rehearsal.processes import LOOPBACK, Process, free_port, listens

_DECISION, _REASON = "authorization.k8s.io/decision", "authorization.k8s.io/reason"


@dataclass(frozen=True, kw_only=True, slots=True)
class RbacUse:
    """One call of the API server, as the audit log records it.

    Attributes:
        user: The caller; ``system:serviceaccount:<namespace>:<name>`` for a service account.
        verb: Verb of RBAC.
        resource: Plural with subresource, as in ``pods/status``; empty for a path that isn't a resource.
        group: API group of the resource; empty for the core group.
        namespace: Its namespace; empty for the whole cluster.
        name: Name of the object; empty for all.
        path: The path if it isn't a resource.
        decision: ``allow`` or ``forbid``.
        reason: The server's reason of the decision.
    """

    user: str
    verb: str
    resource: str
    group: str
    namespace: str
    name: str
    path: str
    decision: str
    reason: str


def rbac_uses(log: Path) -> Iterator[RbacUse]:
    """Yield every call in an audit log, in order, except a line that is still being written."""
    for line in log.read_text().splitlines(keepends=True):
        if line.endswith("\n"):
            yield _rbac_use(json.loads(line))


def _rbac_use(event: dict[str, Any]) -> RbacUse:
    reference, annotations = event.get("objectRef", {}), event.get("annotations", {})
    resource, subresource = reference.get("resource", ""), reference.get("subresource", "")
    # RBAC checks the impersonated user.
    user = event.get("impersonatedUser") or event["user"]
    return RbacUse(
        user=user.get("username", ""),
        verb=event["verb"],
        resource=f"{resource}/{subresource}" if subresource else resource,
        group=reference.get("apiGroup", ""),
        namespace=reference.get("namespace", ""),
        name=reference.get("name", ""),
        path="" if resource else event["requestURI"].partition("?")[0],
        decision=annotations.get(_DECISION, ""),
        reason=annotations.get(_REASON, ""),
    )


# The list of 1.32 to 1.35, used for later versions too. Plugins that are on by default stay on, because AWS doesn't
# document them.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/platform-versions.html (2026-11)
_EKS_ADMISSION = (
    "NodeRestriction",
    "ExtendedResourceToleration",
    "NamespaceLifecycle",
    "LimitRanger",
    "ServiceAccount",
    "TaintNodesByCondition",
    "PodSecurity",
    "Priority",
    "DefaultTolerationSeconds",
    "DefaultStorageClass",
    "StorageObjectInUseProtection",
    "PersistentVolumeClaimResize",
    "RuntimeClass",
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
)
# Plugins that need controllers: one creates service accounts, one removes the taint of a new node that isn't ready.
_CONTROLLER_PLUGINS = ("ServiceAccount", "TaintNodesByCondition")
# Metadata of all calls with the authorization decision, without bodies.
# Calls of the server itself, probes, discovery and metrics are left out.
# Source: https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/
_AUDIT_POLICY: Object = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "users": ["system:apiserver"]},
        {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*", "/version", "/openapi*", "/metrics"]},
        {"level": "Metadata"},
    ],
}


class _ApiServer:
    """An API server process.

    Attributes:
        address: Its address.
        client: A client with the rights of an administrator.
        key: File with the key that signs the tokens of service accounts.
        audit_log: File with a line of JSON for each call.
    """

    def __init__(
        self,
        binaries: Path,
        folder: Path,
        *,
        store: str,
        with_controllers: bool,
        authenticator: str | None,
        audit: bool,
        emulates: str | None = None,
    ) -> None:
        self._port, token = free_port(), secrets.token_hex(16)
        self.address = f"https://{LOOPBACK}:{self._port}"
        # The server creates its own certificate there. The key of it also signs the tokens of service accounts.
        certificates = folder / "certificates"
        self._certificate, self.key = certificates / "apiserver.crt", certificates / "apiserver.key"
        self.audit_log = folder / "audit.log"
        self.client = Client(self._port, token, self._certificate)
        command = [
            str(binaries / "kube-apiserver"),
            f"--etcd-servers={store}",
            *self._listen_flags(certificates),
            *self._authorization_flags(folder, token, () if with_controllers else _CONTROLLER_PLUGINS),
            *(_webhook(folder, authenticator) if authenticator else ()),
            *(self._audit_flags(folder) if audit else ()),
            *([f"--emulated-version={emulates}"] if emulates is not None else ()),
            "--service-cluster-ip-range=10.0.0.0/16",
            # Deletes the nodes and pods of a batch in parallel.
            "--delete-collection-workers=8",
        ]
        self._process = Process("kube-apiserver", command, folder)

    def _listen_flags(self, certificates: Path) -> list[str]:
        return [
            f"--bind-address={LOOPBACK}",
            f"--advertise-address={LOOPBACK}",
            f"--secure-port={self._port}",
            "--endpoint-reconciler-type=none",
            f"--cert-dir={certificates}",
        ]

    def _authorization_flags(self, folder: Path, token: str, without: tuple[str, ...]) -> list[str]:
        tokens = folder / "tokens.csv"
        tokens.write_text(f"{token},admin,admin,system:masters\n")
        return [
            f"--token-auth-file={tokens}",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.key}",
            f"--service-account-signing-key-file={self.key}",
            # As on EKS: device plugins are privileged.
            "--allow-privileged=true",
            f"--enable-admission-plugins={','.join(each for each in _EKS_ADMISSION if each not in without)}",
            f"--disable-admission-plugins={','.join(without)}",
        ]

    def _audit_flags(self, folder: Path) -> list[str]:
        policy = folder / "audit-policy.json"
        policy.write_text(json.dumps(_AUDIT_POLICY))
        return [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}", "--audit-log-maxsize=4096"]

    def wait(self) -> None:
        """Wait until it is ready."""
        self._process.wait_until(lambda: self._certificate.exists() and listens(self._port))
        self._process.wait_until(lambda: _is_ready(self.client))

    def stop(self) -> None:
        """Stop it."""
        self.client.close()
        self._process.stop()


def _webhook(folder: Path, address: str) -> list[str]:
    """Return the flags of an authentication webhook: https://kubernetes.io/docs/reference/access-authn-authz/webhook/."""
    file = folder / "authenticator.json"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "authenticator", "cluster": {"server": address}}],
        "users": [{"name": "server", "user": {}}],
        "contexts": [{"name": "webhook", "context": {"cluster": "authenticator", "user": "server"}}],
        "current-context": "webhook",
    }
    file.write_text(json.dumps(config))
    # A short cache, so that a changed access entry takes effect soon.
    cache = "--authentication-token-webhook-cache-ttl=1s"
    return [f"--authentication-token-webhook-config-file={file}", "--authentication-token-webhook-version=v1", cache]


def _is_ready(client: Client) -> bool:
    try:
        client.get("/readyz")
        # The server creates it after its start, and tests need it.
        client.get("/api/v1/namespaces/default")
    except (HTTPError, ApiError):
        return False
    return True


# Every controller that is on by default.
_ALL_CONTROLLERS = ("*",)


class ControlPlane:
    """A running control plane.

    Attributes:
        client: A client with the rights of an administrator.
        scheduler: Process of its scheduler, with the log.
        address: Address of the API server, ``https://...``.
        certificate_authority: Certificate authority of the API server, as PEM.
        audit: Audit log with a line of JSON for each call; empty without audit.
    """

    def __init__(self, server: _ApiServer, scheduler: Process) -> None:
        self.client, self.scheduler, self.audit = server.client, scheduler, server.audit_log
        self.address = server.address
        self.certificate_authority = server.client.certificate.read_bytes()


def read_minor_version(binaries: Path) -> str:
    """Return the minor version of the binaries in a folder, as in ``1.36``. The API server reports it.

    Raises:
        OSError: The folder has no API server.
        CalledProcessError: The API server doesn't report its version.
    """
    version = subprocess.check_output([str(binaries / "kube-apiserver"), "--version"], text=True)
    return ".".join(version.split()[-1].removeprefix("v").split(".")[:2])


@contextmanager
def control_plane(
    binaries: Path,
    *,
    controllers: Sequence[str] = _ALL_CONTROLLERS,
    authenticator: str | None = None,
    audit: bool = False,
    scheduler: Object | None = None,
    emulates: str | None = None,
) -> Iterator[ControlPlane]:
    """Run a control plane, and stop and remove it at the end.

    Args:
        binaries: Folder with etcd and the binaries of Kubernetes.
        controllers: Controllers to run. Without any, the plugins that need them are off.
        authenticator: Address of an authentication webhook.
        audit: Whether to write an audit log.
        scheduler: Settings of the scheduler in addition to connections. Default: none, which enables waiting and
            preemption.
    """
    with TemporaryDirectory(prefix="gpu-constructs-e2e-") as name, ExitStack() as running:
        folder = Path(name)
        store = _start_etcd(running, binaries, folder)
        server = _ApiServer(
            binaries,
            folder,
            store=store,
            with_controllers=bool(controllers),
            authenticator=authenticator,
            audit=audit,
            emulates=emulates,
        )
        running.callback(server.stop)
        server.wait()
        scheduler_process = _start_scheduler(running, binaries, folder, server, scheduler or {})
        if controllers:
            _start_controllers(running, binaries, folder, server, controllers)
        yield ControlPlane(server, scheduler_process)


def _start(running: ExitStack, name: str, command: list[str], folder: Path) -> Process:
    process = Process(name, command, folder)
    running.callback(process.stop)
    return process


def _start_etcd(running: ExitStack, binaries: Path, folder: Path) -> str:
    """Start etcd and return its address."""
    port = free_port()
    clients, peers = f"http://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{free_port()}"
    command = [
        str(binaries / "etcd"),
        f"--data-dir={folder / 'etcd'}",
        "--unsafe-no-fsync",
        "--log-level=warn",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
    ]
    _start(running, "etcd", command, folder).wait_until(lambda: listens(port))
    return clients


def _start_controllers(
    running: ExitStack, binaries: Path, folder: Path, server: _ApiServer, controllers: Sequence[str]
) -> Process:
    """Start the controller manager with some of its controllers."""
    kubeconfig = folder / "controllers.kubeconfig"
    kubeconfig.write_text(json.dumps(render_kubeconfig(server.client)))
    command = [
        str(binaries / "kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        f"--controllers={','.join(controllers)}",
        f"--service-account-private-key-file={server.key}",
        # The certificate authority that pods get.
        f"--root-ca-file={server.client.certificate}",
        "--use-service-account-credentials",
        "--leader-elect=false",
        "--secure-port=0",
    ]
    return _start(running, "kube-controller-manager", command, folder)


def _start_scheduler(running: ExitStack, binaries: Path, folder: Path, server: _ApiServer, settings: Object) -> Process:
    """Start the scheduler, without waiting until it is ready."""
    kubeconfig, configuration = folder / "scheduler.kubeconfig", folder / "scheduler.json"
    kubeconfig.write_text(json.dumps(render_kubeconfig(server.client)))
    configuration.write_text(json.dumps(_scheduler_configuration(kubeconfig) | settings))
    # Without a port, because no client calls it.
    command = [str(binaries / "kube-scheduler"), f"--config={configuration}", "--secure-port=0"]
    return _start(running, "kube-scheduler", command, folder)


def _scheduler_configuration(kubeconfig: Path) -> Object:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
        "leaderElection": {"leaderElect": False},
    }


def render_kubeconfig(client: Client) -> Object:
    """Return a kubeconfig with the rights of a client."""
    server = {"server": f"https://{LOOPBACK}:{client.port}", "certificate-authority": str(client.certificate)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": server}],
        "users": [{"name": "admin", "user": {"token": client.token}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "admin"}}],
        "current-context": "e2e",
    }
