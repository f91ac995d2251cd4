"""The API server of Kubernetes, with the admission plugins that EKS enables."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from urllib3.exceptions import HTTPError

from gpu_constructs.rehearsal.players.cluster.client import Client, Object, Refused
from gpu_constructs.rehearsal.players.cluster.ports import LOOPBACK, free_port, listens
from gpu_constructs.rehearsal.players.cluster.process import Process

# The list of 1.32 to 1.35, which stands for 1.36 too. What is on by default and not in it is left on: of it AWS says
# nothing.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/platform-versions.html (2026-11)
EKS_ADMISSION = (
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
# Without controllers nobody makes accounts, nor takes away the mark that a new node is not ready.
FOR_CONTROLLERS = ("ServiceAccount", "TaintNodesByCondition")
# Who asked what, and why it was let; not what was in it. Probes of the server itself are left out.
# Source: https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/
AUDIT_POLICY: Object = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "users": ["system:apiserver"]},
        {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*", "/version", "/openapi*", "/metrics"]},
        {"level": "Metadata"},
    ],
}


class ApiServer:
    """An API server that starts.

    Attributes:
        address: Where it listens.
        client: An administrator of it.
        key: File with the key that signs the tokens of service accounts.
        audit_log: File with a line of JSON for each call.

    Args:
        binaries: Folder with its program.
        folder: Folder for its files.
        store: Address of etcd.
        with_controllers: Whether the controllers run that some admission plugins wait for.
        authenticator: Address of a webhook that says whose a token is.
        audit: Whether every call is written down.
        emulates: Minor version whose features and defaults it has. Default: its own.
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
        # It makes a certificate of its own there, and the key of it signs the tokens of service accounts as well.
        certificates = folder / "certificates"
        self._certificate, self.key = certificates / "apiserver.crt", certificates / "apiserver.key"
        self.audit_log = folder / "audit.log"
        self.client = Client(self._port, token, self._certificate)
        command = [
            str(binaries / "kube-apiserver"),
            f"--etcd-servers={store}",
            *self._listening(certificates),
            *self._deciding(folder, token, () if with_controllers else FOR_CONTROLLERS),
            *(_webhook(folder, authenticator) if authenticator else ()),
            *(self._auditing(folder) if audit else ()),
            *([f"--emulated-version={emulates}"] if emulates is not None else ()),
            "--service-cluster-ip-range=10.0.0.0/16",
            # Deletes the nodes and pods of a batch side by side.
            "--delete-collection-workers=8",
        ]
        self._process = Process("kube-apiserver", command, folder)

    def _listening(self, certificates: Path) -> list[str]:
        return [
            f"--bind-address={LOOPBACK}",
            f"--advertise-address={LOOPBACK}",
            f"--secure-port={self._port}",
            "--endpoint-reconciler-type=none",
            f"--cert-dir={certificates}",
        ]

    def _deciding(self, folder: Path, token: str, without: tuple[str, ...]) -> list[str]:
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
            f"--enable-admission-plugins={','.join(each for each in EKS_ADMISSION if each not in without)}",
            f"--disable-admission-plugins={','.join(without)}",
        ]

    def _auditing(self, folder: Path) -> list[str]:
        policy = folder / "audit-policy.json"
        policy.write_text(json.dumps(AUDIT_POLICY))
        return [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}", "--audit-log-maxsize=4096"]

    def wait(self) -> None:
        """Return when it answers."""
        self._process.wait_until(lambda: self._certificate.exists() and listens(self._port))
        self._process.wait_until(lambda: _is_ready(self.client))

    def stop(self) -> None:
        """End it."""
        self.client.close()
        self._process.stop()


def _webhook(folder: Path, address: str) -> list[str]:
    """Who else says whose a token is: https://kubernetes.io/docs/reference/access-authn-authz/webhook/."""
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
    # What an access entry is changed to holds soon.
    lasting = "--authentication-token-webhook-cache-ttl=1s"
    return [
        f"--authentication-token-webhook-config-file={file}",
        "--authentication-token-webhook-version=v1",
        lasting,
    ]


def _is_ready(client: Client) -> bool:
    try:
        client.get("/readyz")
        # Made by the server itself after its start, and every object of a test lies in it or beside it.
        client.get("/api/v1/namespaces/default")
    except (HTTPError, Refused):
        return False
    return True
