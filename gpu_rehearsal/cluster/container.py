"""Containers that run as processes on this machine, restarted with back-off, and the errors in their logs."""

from __future__ import annotations

import json
import os
import re
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_rehearsal.cluster import pod_status as status
from gpu_rehearsal.cluster.client import Client, Object
from gpu_rehearsal.cluster.identities import PodCredentials, has_token, write_kubeconfig
from gpu_rehearsal.cluster.instances import Node, now
from gpu_rehearsal.cluster.pod_status import ContainerState, environment, expanded
from gpu_rehearsal.credentials import Cloud
from gpu_rehearsal.processes import LOOPBACK, Process, free_port, listens

CLUSTER_AUTOSCALER = "GPU_CONSTRUCTS_CLUSTER_AUTOSCALER"
_PROBE_SECONDS = 1.0
# The services that the autoscaler's own clients call.
# Source: https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler/cloudprovider/aws
_AUTOSCALERS_SERVICES = ("autoscaling", "ec2", "eks")


@dataclass(frozen=True, kw_only=True)
class Launch:
    """The command line of a program that is about to start.

    Attributes:
        command: The program and its arguments.
        environment: Its environment.
        ready: Address of its readiness probe; empty if it is ready as soon as it listens.
        port: Port of the program.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    ready: str
    port: int


@dataclass(frozen=True, kw_only=True)
class ProgramContext:
    """The inputs that a program gets from its pod.

    Attributes:
        arguments: Its arguments.
        environment: Its own variables, and the variables of the AWS SDK.
        namespace: Namespace of its pod. On a real node, a program reads it from the files of its service account.
        kubeconfig: Its access to the cluster; ``None`` without a token of its service account.
        folder: Folder for its files.
        endpoint: Address of AWS.
        region: Region of the cluster.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str]
    namespace: str
    kubeconfig: Path | None
    folder: Path
    endpoint: str
    region: str


_Launcher = Callable[[Path, ProgramContext], Launch]


def karpenter(program: Path, context: ProgramContext) -> Launch:
    """Return the command line of Karpenter, with free ports: all pods share one machine here.

    Source: https://karpenter.sh/docs/reference/settings/
    """
    metrics, health = free_port(), free_port()
    changed = {
        "METRICS_PORT": str(metrics),
        "HEALTH_PROBE_PORT": str(health),
        "LEADER_ELECTION_NAMESPACE": context.namespace,
    }
    found = {"KUBECONFIG": str(context.kubeconfig)} if context.kubeconfig else {}
    return Launch(
        command=[str(program), *context.arguments],
        environment={**context.environment, **changed, **found},
        ready=f"http://{LOOPBACK}:{health}/readyz",
        port=health,
    )


def cluster_autoscaler(program: Path, context: ProgramContext) -> Launch:
    """Return the command line of cluster autoscaler, whose AWS clients read the address of AWS from a file.

    Source: https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md#what-are-the-parameters-to-ca
    """
    port, config = free_port(), context.folder / "cloud-config"
    sections = (
        f'[ServiceOverride "{number}"]\nService={service}\nRegion={context.region}\nURL={context.endpoint}\n'
        f"SigningRegion={context.region}\n"
        for number, service in enumerate(_AUTOSCALERS_SERVICES)
    )
    config.write_text("[Global]\n" + "".join(sections))
    own = [f"--address={LOOPBACK}:{port}", f"--cloud-config={config}"]
    found = [f"--kubeconfig={context.kubeconfig}"] if context.kubeconfig else []
    return Launch(
        command=[str(program), *context.arguments, *own, *found], environment=context.environment, ready="", port=port
    )


# The supported programs, by repository of the image.
_LAUNCHERS: Mapping[str, _Launcher] = {
    "public.ecr.aws/karpenter/controller": karpenter,
    "registry.k8s.io/autoscaling/cluster-autoscaler": cluster_autoscaler,
}


class Programs:
    """The available programs of images.

    Attributes:
        not_simulated: Images of supported programs that aren't available. Their pods are simulated.
        substitutes: Version of the same minor that replaces an unavailable program, by image.

    Args:
        paths: Programs by repository and version, ``"*"`` for all versions.
    """

    def __init__(self, paths: Mapping[tuple[str, str], Path]) -> None:
        self._paths = paths
        self.not_simulated: set[str] = set()
        self.substitutes: dict[str, str] = {}

    @classmethod
    def built(cls, *, karpenter: Mapping[str, Path]) -> Programs:
        """Return Karpenter's binaries by version, and the autoscaler that the environment variable names."""
        paths = {("public.ecr.aws/karpenter/controller", version): path for version, path in karpenter.items()}
        named = os.environ.get(CLUSTER_AUTOSCALER)
        context = {("registry.k8s.io/autoscaling/cluster-autoscaler", "*"): Path(named)} if named else {}
        return cls(paths | context)

    def find_program(self, image: str) -> tuple[_Launcher, Path] | None:
        """Return launcher and path of the program of an image; ``None`` if its pod is simulated."""
        repository, version = _parts(image)
        if repository not in _LAUNCHERS:
            return None
        path = self._paths.get((repository, version)) or self._paths.get((repository, "*"))
        path = path or self._find_same_minor(image)
        if path is None:
            self.not_simulated.add(image)
            return None
        return _LAUNCHERS[repository], path

    def _find_same_minor(self, image: str) -> Path | None:
        repository, version = _parts(image)
        minor = _minor(version)
        there = {each: path for (of, each), path in self._paths.items() if of == repository and _minor(each) == minor}
        if not there:
            return None
        chosen = max(there, key=lambda each: [int(number) for number in re.findall(r"\d+", each)])
        self.substitutes[image] = chosen
        return there[chosen]


class Running:
    """A running program.

    Attributes:
        started: Time of its start.
    """

    def __init__(self, name: str, launch: Launch, folder: Path) -> None:
        self._launch, self._answered = launch, False
        # Only PATH comes from this process: its AWS variables must not reach the program.
        own = {each: os.environ[each] for each in ("PATH",) if each in os.environ} | {"HOME": str(folder)}
        self._process = Process(name, launch.command, folder, environment={**own, **launch.environment})
        self.started = time.monotonic()

    @property
    def log(self) -> Path:
        """File with its output."""
        return self._process.log

    @property
    def exit_code(self) -> int | None:
        """Its exit code; ``None`` while it runs."""
        return self._process.exit_code

    def is_ready(self) -> bool:
        """Whether it is ready, which is checked until it is."""
        self._answered = self._answered or self._answers()
        return self._answered

    def _answers(self) -> bool:
        if not self._launch.ready:
            return listens(self._launch.port)
        try:
            with urllib.request.urlopen(self._launch.ready, timeout=_PROBE_SECONDS) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self, seconds: float) -> None:
        """Terminate it, and kill it after some seconds."""
        self._process.stop(seconds)


def _parts(image: str) -> tuple[str, str]:
    """Return repository and tag of an image."""
    named = image.partition("@")[0]
    repository, colon, tag = named.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (named, "latest")


def _minor(version: str) -> str:
    return version.rpartition(".")[0]


_LEVELS = ("ERROR", "DPANIC", "PANIC", "FATAL")
_PANIC = re.compile(r"^(panic|fatal error): ")
_ERROR = re.compile(r"^(?!\s).*\b(error|fatal|failed|denied)\b", re.IGNORECASE)
# Sources: sigs.k8s.io/controller-runtime v0.23.1 pkg/healthz/healthz.go; sigs.k8s.io/karpenter v1.14.1
# pkg/controllers/state/cluster.go and pkg/controllers/provisioning/provisioner.go
_SYMPTOM = re.compile(r"healthz check failed|waiting on (cluster )?sync|ignoring nodepool, not ready")
MAX_CHARACTERS = 400


def last_error(log: Path | None) -> str:
    """Return the last error in a log, or its last line if it has no error; empty without a log.

    A panic takes precedence, because its stack trace has words like "error" too. Messages that Karpenter repeats
    because of an earlier error come last.
    """
    if log is None or not log.exists():
        return ""
    lines = [each for each in log.read_text(errors="replace").splitlines() if each.strip()]
    for is_error in (_PANIC.search, _is_logged_error, _ERROR.search):
        found = [each for each in lines if is_error(each)]
        if found:
            return _text(next((each for each in reversed(found) if not _SYMPTOM.search(each)), found[-1]))
    return _text(lines[-1]) if lines else ""


def _is_logged_error(line: str) -> bool:
    return str(_entry(line).get("level", "")).upper() in _LEVELS


def _text(line: str) -> str:
    entry = _entry(line)
    text = ": ".join(str(entry[key]) for key in ("message", "msg", "error") if entry.get(key)) or line.strip()
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]} ..."


def _entry(line: str) -> dict[str, Any]:
    """Return the fields of a structured line; none for any other line."""
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}


_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
# Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy
_FIRST_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS, _BACKOFF_RESET_SECONDS = 10.0, 300.0, 600.0


class Container:
    """A container that runs as a process.

    Attributes:
        ends: Number of times that it ended by itself.
        log: File with its output; ``None`` before it started.
    """

    def __init__(self, run: Callable[[], Running], *, pace: float) -> None:
        self.ends = 0
        self.log: Path | None = None
        self._run, self._pace = run, pace
        self._failed: str | None = None
        self._restarts, self._backoff, self._last_state = 0, _FIRST_BACKOFF_SECONDS, ContainerState(state={})
        self._restarts_at: float | None = None
        self._running: Running | None = None
        self._start()

    def _start(self) -> None:
        self._restarts_at, self._began, self._failed = None, now(), None
        try:
            self._running = self._run()
            self.log = self._running.log
        except (LookupError, ValueError) as error:
            # The kubelet reports a variable that refers to a missing object in this way.
            self._running, self._failed = None, str(error)

    def keep(self) -> None:
        """Restart it if it ended and the back-off is over."""
        at = time.monotonic()
        if self._failed is not None:
            self._start()
        elif self._restarts_at is not None:
            if at >= self._restarts_at:
                self._restarts += 1
                self._start()
        elif self._running is not None and self._running.exit_code is not None:
            self._wait(at, self._running)

    def _wait(self, at: float, ended: Running) -> None:
        if at - ended.started >= _BACKOFF_RESET_SECONDS * self._pace:
            self._backoff = _FIRST_BACKOFF_SECONDS
        self.ends += 1
        self._last_state = status.ended(self._began, exit_code=ended.exit_code or 0)
        self._restarts_at = at + self._backoff * self._pace
        self._backoff = min(2 * self._backoff, _MAX_BACKOFF_SECONDS)

    def state(self) -> ContainerState:
        """Return its state."""
        if self._failed is not None:
            found = status.waiting("CreateContainerConfigError", self._failed)
        elif self._restarts_at is not None or self._running is None:
            found = status.waiting("CrashLoopBackOff", "back-off restarting failed container")
        else:
            found = status.running(self._began, ready=self._running.is_ready())
        found.restarts, found.last = self._restarts, self._last_state.state
        return found

    def stop(self, seconds: float) -> None:
        """Terminate it, and kill it after some seconds."""
        if self._running is not None:
            self._running.stop(seconds)


class Starter:
    """Starts the containers whose programs are available.

    Attributes:
        logs: Log files, by namespace, pod and container.
    """

    def __init__(
        self, programs: Programs, client: Client, cloud: Cloud, *, cluster: str, folder: Path, pace: float = 1.0
    ) -> None:
        self._programs, self._cloud = programs, cloud
        self._folder, self._pace = folder, pace
        self._credentials = PodCredentials(cloud, client, cluster=cluster, pace=pace)
        self.logs: dict[str, Path] = {}

    def lacks(self, pod: Object, node: Node) -> str:
        """Return why a pod can't call AWS as the role of its service account; empty if it can or has none.

        A real program starts as soon as an agent responds, and reports a rejection itself.
        """
        if any(self._programs.find_program(each["image"]) for each in pod["spec"]["containers"]):
            return self._credentials.lacks_agent(pod, node)
        return self._credentials.lacks(pod, node)

    def without_role(self, pod: Object, node: Node) -> str:
        """Return why a pod has no role; empty if it has one or can use the role of its node."""
        return self._credentials.without_role(pod, node)

    def start(self, pod: Object, node: Node) -> dict[str, Container]:
        """Start the containers of a pod that have a program, and return them by name."""
        found: dict[str, Container] = {}
        for each in pod["spec"]["containers"]:
            known = self._programs.find_program(each["image"])
            if known is not None:
                found[each["name"]] = self._container(pod, each, node, *known)
        return found

    def _container(self, pod: Object, container: Object, node: Node, launcher: _Launcher, program: Path) -> Container:
        metadata = pod["metadata"]
        folder = self._folder / metadata["namespace"] / metadata["name"] / container["name"]
        folder.mkdir(parents=True, exist_ok=True)

        def run() -> Running:
            running = Running(
                container["name"], launcher(program, self._program_context(pod, container, node, folder)), folder
            )
            self.logs[f"{metadata['namespace']}/{metadata['name']}/{container['name']}"] = running.log
            return running

        return Container(run, pace=self._pace)

    def _program_context(self, pod: Object, container: Object, node: Node, folder: Path) -> ProgramContext:
        own = environment(pod, container, node.client)
        return ProgramContext(
            arguments=[expanded(each, own) for each in container.get("args", ())],
            environment={**self._access(pod, node), **own},
            namespace=pod["metadata"]["namespace"],
            kubeconfig=write_kubeconfig(pod, node.client, folder) if has_token(pod, container) else None,
            folder=folder,
            endpoint=self._cloud.endpoint,
            region=self._cloud.region,
        )

    def _access(self, pod: Object, node: Node) -> dict[str, str]:
        """Return the AWS variables of a program, with credentials if it has a role."""
        found = self._credentials.credentials(pod, node)
        variables = (found or self._cloud.credentials()).environment(
            endpoint=self._cloud.endpoint, region=self._cloud.region
        )
        return variables if found else {key: each for key, each in variables.items() if key not in _CREDENTIALS}
