"""Real programs that run on this machine where a cluster would run their images."""

from __future__ import annotations

import os
import re
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_constructs.rehearsal.players.cluster.ports import LOOPBACK, free_port, listens
from gpu_constructs.rehearsal.players.cluster.process import Process

CLUSTER_AUTOSCALER = "GPU_CONSTRUCTS_CLUSTER_AUTOSCALER"
_PROBE_SECONDS = 1.0
# The services that the autoscaler's own clients call.
# Source: https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler/cloudprovider/aws
_AUTOSCALERS_SERVICES = ("autoscaling", "ec2", "eks")


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A program, about to run.

    Attributes:
        command: The program and its arguments.
        environment: Its environment.
        ready: Address that answers when it is ready; empty where it is when it listens.
        port: Port on which it listens.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    ready: str
    port: int


@dataclass(frozen=True, kw_only=True)
class Given:
    """What the pod of a program gives it.

    Attributes:
        arguments: Its arguments.
        environment: Its environment: its own, and that by which it finds AWS.
        namespace: Namespace of its pod, which a program on a node reads from the files of its account.
        kubeconfig: How it reaches the cluster; ``None`` without a token of its service account.
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


Launcher = Callable[[Path, Given], Launch]


def karpenter(program: Path, given: Given) -> Launch:
    """Karpenter on ports of its own: all pods share one machine here.

    Source: https://karpenter.sh/docs/reference/settings/
    """
    metrics, health = free_port(), free_port()
    changed = {
        "METRICS_PORT": str(metrics),
        "HEALTH_PROBE_PORT": str(health),
        "LEADER_ELECTION_NAMESPACE": given.namespace,
    }
    found = {"KUBECONFIG": str(given.kubeconfig)} if given.kubeconfig else {}
    return Launch(
        command=[str(program), *given.arguments],
        environment={**given.environment, **changed, **found},
        ready=f"http://{LOOPBACK}:{health}/readyz",
        port=health,
    )


def cluster_autoscaler(program: Path, given: Given) -> Launch:
    """The cluster autoscaler, whose own clients of AWS take the address from a file.

    Source: https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md#what-are-the-parameters-to-ca
    """
    port, config = free_port(), given.folder / "cloud-config"
    sections = (
        f'[ServiceOverride "{number}"]\nService={service}\nRegion={given.region}\nURL={given.endpoint}\n'
        f"SigningRegion={given.region}\n"
        for number, service in enumerate(_AUTOSCALERS_SERVICES)
    )
    config.write_text("[Global]\n" + "".join(sections))
    own = [f"--address={LOOPBACK}:{port}", f"--cloud-config={config}"]
    found = [f"--kubeconfig={given.kubeconfig}"] if given.kubeconfig else []
    return Launch(
        command=[str(program), *given.arguments, *own, *found],
        environment=given.environment,
        ready="",
        port=port,
    )


# The images whose programs are known, by repository.
KNOWN: Mapping[str, Launcher] = {
    "public.ecr.aws/karpenter/controller": karpenter,
    "registry.k8s.io/autoscaling/cluster-autoscaler": cluster_autoscaler,
}


class Programs:
    """The programs that are there.

    Attributes:
        not_played: Images whose program is known and not there: their pods ran as any other.
        stood_in: By image whose own program is not there, the version of the same minor that ran in its place.

    Args:
        paths: Programs by repository and version, ``"*"`` for all versions.
    """

    def __init__(self, paths: Mapping[tuple[str, str], Path]) -> None:
        self._paths = paths
        self.not_played: set[str] = set()
        self.stood_in: dict[str, str] = {}

    @classmethod
    def built(cls, *, karpenter: Mapping[str, Path]) -> Programs:
        """Return built ones of Karpenter by version, and the autoscaler that the environment names."""
        paths = {("public.ecr.aws/karpenter/controller", version): path for version, path in karpenter.items()}
        named = os.environ.get(CLUSTER_AUTOSCALER)
        given = {("registry.k8s.io/autoscaling/cluster-autoscaler", "*"): Path(named)} if named else {}
        return cls(paths | given)

    def of(self, image: str) -> tuple[Launcher, Path] | None:
        """Return how the program of an image is started, and where it is; ``None`` where its pod is to be played."""
        repository, version = _parts(image)
        if repository not in KNOWN:
            return None
        path = self._paths.get((repository, version)) or self._paths.get((repository, "*"))
        path = path or self._of_the_same_minor(image)
        if path is None:
            self.not_played.add(image)
            return None
        return KNOWN[repository], path

    def _of_the_same_minor(self, image: str) -> Path | None:
        repository, version = _parts(image)
        minor = _minor(version)
        there = {each: path for (of, each), path in self._paths.items() if of == repository and _minor(each) == minor}
        if not there:
            return None
        chosen = max(there, key=lambda each: [int(number) for number in re.findall(r"\d+", each)])
        self.stood_in[image] = chosen
        return there[chosen]


class Running:
    """A program that runs.

    Attributes:
        started: When it was.

    Args:
        name: What to call it.
        launch: How to run it.
        folder: Where its log goes.
    """

    def __init__(self, name: str, launch: Launch, folder: Path) -> None:
        self._launch, self._answered = launch, False
        # Nothing of the caller's but where programs are found: its AWS is another.
        own = {each: os.environ[each] for each in ("PATH",) if each in os.environ} | {"HOME": str(folder)}
        self._process = Process(name, launch.command, folder, environment={**own, **launch.environment})
        self.started = time.monotonic()

    @property
    def log(self) -> Path:
        """File with its output."""
        return self._process.log

    @property
    def exit_code(self) -> int | None:
        """How it ended; ``None`` while it runs."""
        return self._process.exit_code

    def is_ready(self) -> bool:
        """Whether it serves, which is asked until it does."""
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
        """End it, by force after some seconds."""
        self._process.stop(seconds)


def _parts(image: str) -> tuple[str, str]:
    """Return repository and tag of an image."""
    named = image.partition("@")[0]
    repository, colon, tag = named.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (named, "latest")


def _minor(version: str) -> str:
    return version.rpartition(".")[0]
