"""A control plane of Kubernetes itself, on loopback, with the admission plugins that EKS enables."""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from urllib3.exceptions import HTTPError

from tests.e2e.client import Client, Refused

LOOPBACK = "127.0.0.1"
START_SECONDS = 60.0
STOP_SECONDS = 5.0
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


class Server:
    """A running process whose output is kept.

    Args:
        name: What to call it.
        command: What to run.
        folder: Where its log goes.
    """

    def __init__(self, name: str, command: list[str], folder: Path) -> None:
        self.name, self.log = name, folder / f"{name}.log"
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=folder)

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        """Return when it is ready; fail with the end of its log when it ends first or takes too long."""
        try:
            wait_until(lambda: self._process.poll() is not None or is_ready(), f"{self.name} to be ready")
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.tail()}") from error
        if self._process.poll() is not None:
            raise RuntimeError(f"{self.name} ended with {self._process.poll()} at its start\n{self.tail()}")

    def tail(self, lines: int = 30) -> str:
        """Return the end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self) -> None:
        """End it, by force where it does not listen. Nothing in it is worth a graceful end."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    """Return when something is so, and fail when that takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {START_SECONDS:.0f} s for {what}")
        time.sleep(0.05)


class ControlPlane:
    """A control plane that runs.

    Attributes:
        client: An administrator of it.
        scheduler: Its scheduler, for the log.
    """

    def __init__(self, client: Client, scheduler: Server) -> None:
        self.client, self.scheduler = client, scheduler


@contextmanager
def control_plane(binaries: Path, *, controllers: tuple[str, ...] = ()) -> Iterator[ControlPlane]:
    """Run a control plane, and remove all of it at the end.

    Args:
        binaries: Folder with etcd and Kubernetes' own programs.
        controllers: Controllers to run. Without any the plugins that wait for them are off.
    """
    with TemporaryDirectory(prefix="gpu-constructs-e2e-") as name, ExitStack() as running:
        folder = Path(name)
        store = _start_etcd(running, binaries, folder)
        without = () if controllers else FOR_CONTROLLERS
        client = _start_api_server(running, binaries, folder, store, without)
        scheduler = _start_scheduler(running, binaries, folder, client)
        if controllers:
            _start_controllers(running, binaries, folder, client, controllers)
        yield ControlPlane(client, scheduler)


def _start(running: ExitStack, name: str, command: list[str], folder: Path) -> Server:
    server = Server(name, command, folder)
    running.callback(server.stop)
    return server


def _start_etcd(running: ExitStack, binaries: Path, folder: Path) -> str:
    """Start etcd and return its address."""
    port = _free_port()
    clients, peers = f"http://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{_free_port()}"
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
    _start(running, "etcd", command, folder).wait_until(lambda: _listens(port))
    return clients


def _start_api_server(running: ExitStack, binaries: Path, folder: Path, store: str, without: tuple[str, ...]) -> Client:
    """Start the API server and return its administrator."""
    port, token, tokens = _free_port(), secrets.token_hex(16), folder / "tokens.csv"
    tokens.write_text(f"{token},admin,admin,system:masters\n")
    # It makes a certificate of its own there, and the key of it signs the tokens of service accounts as well.
    certificates = folder / "certificates"
    certificate, key = certificates / "apiserver.crt", certificates / "apiserver.key"
    command = [
        str(binaries / "kube-apiserver"),
        f"--etcd-servers={store}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={port}",
        "--endpoint-reconciler-type=none",
        f"--cert-dir={certificates}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-cluster-ip-range=10.0.0.0/16",
        # As on EKS: device plugins are privileged.
        "--allow-privileged=true",
        f"--enable-admission-plugins={','.join(each for each in EKS_ADMISSION if each not in without)}",
        f"--disable-admission-plugins={','.join(without)}",
        # Deletes the nodes and pods of a batch side by side.
        "--delete-collection-workers=8",
    ]
    server = _start(running, "kube-apiserver", command, folder)
    server.wait_until(lambda: certificate.exists() and _listens(port))
    client = Client(port, token, certificate)
    running.callback(client.close)
    server.wait_until(lambda: _is_ready(client))
    return client


def _start_controllers(
    running: ExitStack, binaries: Path, folder: Path, client: Client, controllers: tuple[str, ...]
) -> Server:
    """Start the controller manager with some of its controllers."""
    kubeconfig = folder / "controllers.kubeconfig"
    kubeconfig.write_text(json.dumps(_kubeconfig(client)))
    command = [
        str(binaries / "kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        f"--controllers={','.join(controllers)}",
        f"--service-account-private-key-file={folder / 'certificates' / 'apiserver.key'}",
        "--leader-elect=false",
        "--secure-port=0",
    ]
    return _start(running, "kube-controller-manager", command, folder)


def _start_scheduler(running: ExitStack, binaries: Path, folder: Path, client: Client) -> Server:
    """Start the scheduler; it is ready when it first decides."""
    kubeconfig, configuration = folder / "scheduler.kubeconfig", folder / "scheduler.json"
    kubeconfig.write_text(json.dumps(_kubeconfig(client)))
    configuration.write_text(json.dumps(scheduler_configuration(kubeconfig)))
    # Without a port of its own: nobody asks it for anything.
    command = [str(binaries / "kube-scheduler"), f"--config={configuration}", "--secure-port=0"]
    return _start(running, "kube-scheduler", command, folder)


def scheduler_configuration(kubeconfig: Path) -> dict[str, object]:
    """Render the default profile, without the waiting and without preemption."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
        "leaderElection": {"leaderElect": False},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        # The question is what fits beside the pods that are there, not whom a pod may drive out.
        "profiles": [{"plugins": {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}}],
    }


def _kubeconfig(client: Client) -> dict[str, object]:
    server = {"server": f"https://{LOOPBACK}:{client.port}", "certificate-authority": str(client.certificate)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": server}],
        "users": [{"name": "admin", "user": {"token": client.token}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "admin"}}],
        "current-context": "e2e",
    }


def _free_port() -> int:
    with socket.socket() as one:
        one.bind((LOOPBACK, 0))
        return int(one.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex((LOOPBACK, port)) == 0


def _is_ready(client: Client) -> bool:
    try:
        client.get("/readyz")
        # Made by the server itself after its start, and every object of a test lies in it or beside it.
        client.get("/api/v1/namespaces/default")
    except (HTTPError, Refused):
        return False
    return True
