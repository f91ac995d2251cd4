"""A control plane of Kubernetes itself, on loopback."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from gpu_constructs.rehearsal.players.cluster.api_server import ApiServer
from gpu_constructs.rehearsal.players.cluster.client import Client, Object
from gpu_constructs.rehearsal.players.cluster.ports import LOOPBACK, free_port, listens
from gpu_constructs.rehearsal.players.cluster.process import Process

# Every controller that is on by default: nodes that are not ready, jobs, garbage and the rest.
ALL = ("*",)
# A scheduler that decides on what fits beside the pods that are there, and does not wait before it tries again: it
# drives out nobody.
UNDISTURBED: Object = {
    "podInitialBackoffSeconds": 1,
    "podMaxBackoffSeconds": 1,
    "profiles": [{"plugins": {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}}],
}


class ControlPlane:
    """A control plane that runs.

    Attributes:
        client: An administrator of it.
        scheduler: Its scheduler, for the log.
        address: Where the API server listens, ``https://...``.
        certificate_authority: By what its certificate is known, as PEM.
        audit: File with a line of JSON for each call; empty without audit.
    """

    def __init__(self, server: ApiServer, scheduler: Process) -> None:
        self.client, self.scheduler, self.audit = server.client, scheduler, server.audit_log
        self.address = server.address
        self.certificate_authority = server.client.certificate.read_bytes()


def minor_of(binaries: Path) -> str:
    """Return the minor version of the programs in a folder, as in ``1.36``: they say it themselves.

    Raises:
        OSError: No API server is there.
        CalledProcessError: It does not say its version.
    """
    told = subprocess.check_output([str(binaries / "kube-apiserver"), "--version"], text=True)
    return ".".join(told.split()[-1].removeprefix("v").split(".")[:2])


@contextmanager
def control_plane(
    binaries: Path,
    *,
    controllers: Sequence[str] = ALL,
    authenticator: str | None = None,
    audit: bool = False,
    scheduler: Object | None = None,
    emulates: str | None = None,
) -> Iterator[ControlPlane]:
    """Run a control plane, and remove all of it at the end.

    Args:
        binaries: Folder with etcd and Kubernetes' own programs.
        controllers: Controllers to run. Without any the plugins that wait for them are off.
        authenticator: Address of a webhook that says whose a token is.
        audit: Whether every call is written down.
        scheduler: What its configuration says beside connections. Default: nothing, so that it waits and drives out as
            a scheduler does.
    """
    with TemporaryDirectory(prefix="gpu-constructs-e2e-") as name, ExitStack() as running:
        folder = Path(name)
        store = _start_etcd(running, binaries, folder)
        server = ApiServer(
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
        decides = _start_scheduler(running, binaries, folder, server, scheduler or {})
        if controllers:
            _start_controllers(running, binaries, folder, server, controllers)
        yield ControlPlane(server, decides)


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
    running: ExitStack, binaries: Path, folder: Path, server: ApiServer, controllers: Sequence[str]
) -> Process:
    """Start the controller manager with some of its controllers."""
    kubeconfig = folder / "controllers.kubeconfig"
    kubeconfig.write_text(json.dumps(kubeconfig_of(server.client)))
    command = [
        str(binaries / "kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        f"--controllers={','.join(controllers)}",
        f"--service-account-private-key-file={server.key}",
        # What pods get as the certificate authority of the server.
        f"--root-ca-file={server.client.certificate}",
        "--use-service-account-credentials",
        "--leader-elect=false",
        "--secure-port=0",
    ]
    return _start(running, "kube-controller-manager", command, folder)


def _start_scheduler(running: ExitStack, binaries: Path, folder: Path, server: ApiServer, says: Object) -> Process:
    """Start the scheduler; it is ready when it first decides."""
    kubeconfig, configuration = folder / "scheduler.kubeconfig", folder / "scheduler.json"
    kubeconfig.write_text(json.dumps(kubeconfig_of(server.client)))
    configuration.write_text(json.dumps(_scheduler_configuration(kubeconfig) | says))
    # Without a port of its own: nobody asks it for anything.
    command = [str(binaries / "kube-scheduler"), f"--config={configuration}", "--secure-port=0"]
    return _start(running, "kube-scheduler", command, folder)


def _scheduler_configuration(kubeconfig: Path) -> Object:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
        "leaderElection": {"leaderElect": False},
    }


def kubeconfig_of(client: Client) -> Object:
    """Render how a program reaches the server as that client."""
    server = {"server": f"https://{LOOPBACK}:{client.port}", "certificate-authority": str(client.certificate)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": server}],
        "users": [{"name": "admin", "user": {"token": client.token}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "admin"}}],
        "current-context": "e2e",
    }
