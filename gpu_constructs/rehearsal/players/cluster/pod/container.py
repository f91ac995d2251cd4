"""Containers that run as programs of this machine: started again when they end, later each time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from gpu_constructs.rehearsal.players.cluster.client import Client, Object
from gpu_constructs.rehearsal.players.cluster.cloud import Cloud
from gpu_constructs.rehearsal.players.cluster.node.node import Node
from gpu_constructs.rehearsal.players.cluster.node.registration import now
from gpu_constructs.rehearsal.players.cluster.pod import status
from gpu_constructs.rehearsal.players.cluster.pod.environment import environment, expanded
from gpu_constructs.rehearsal.players.cluster.pod.identity import has_token, identity_of, write_kubeconfig
from gpu_constructs.rehearsal.players.cluster.pod.status import ContainerState
from gpu_constructs.rehearsal.players.cluster.programs import Given, Launcher, Programs, Running

_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
# Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy
FIRST_BACKOFF_SECONDS, LAST_BACKOFF_SECONDS, FORGOTTEN_SECONDS = 10.0, 300.0, 600.0


class Container:
    """A container that is a process.

    Args:
        run: Starts the process.
        pace: How long delays are, against those of a cluster.
    """

    def __init__(self, run: Callable[[], Running], *, pace: float) -> None:
        self._run, self._pace = run, pace
        self._failed: str | None = None
        self._restarts, self._backoff, self._last = 0, FIRST_BACKOFF_SECONDS, ContainerState(state={})
        self._again: float | None = None
        self._running: Running | None = None
        self._start()

    def _start(self) -> None:
        self._again, self._began, self._failed = None, now(), None
        try:
            self._running = self._run()
        except (LookupError, ValueError) as error:
            # As the kubelet says of a variable that refers to what is not there.
            self._running, self._failed = None, str(error)

    def keep(self) -> None:
        """See whether it ended, and start it again when it is time."""
        at = time.monotonic()
        if self._failed is not None:
            self._start()
        elif self._again is not None:
            if at >= self._again:
                self._restarts += 1
                self._start()
        elif self._running is not None and self._running.exit_code is not None:
            self._wait(at, self._running)

    def _wait(self, at: float, ended: Running) -> None:
        if at - ended.started >= FORGOTTEN_SECONDS * self._pace:
            self._backoff = FIRST_BACKOFF_SECONDS
        self._last = status.ended(self._began, exit_code=ended.exit_code or 0)
        self._again = at + self._backoff * self._pace
        self._backoff = min(2 * self._backoff, LAST_BACKOFF_SECONDS)

    def state(self) -> ContainerState:
        """Return how it stands."""
        if self._failed is not None:
            found = status.waiting("CreateContainerConfigError", self._failed)
        elif self._again is not None or self._running is None:
            found = status.waiting("CrashLoopBackOff", "back-off restarting failed container")
        else:
            found = status.running(self._began, ready=self._running.is_ready())
        found.restarts, found.last = self._restarts, self._last.state
        return found

    def stop(self, seconds: float) -> None:
        """End it, by force after some seconds."""
        if self._running is not None:
            self._running.stop(seconds)


class Starter:
    """Starts the containers of pods whose programs are there.

    Attributes:
        logs: Output of each, by namespace, pod and container.

    Args:
        programs: The programs.
        client: An administrator of the cluster.
        cloud: AWS.
        cluster: Name of the cluster.
        folder: Folder for logs and what programs are given.
        pace: How long delays are, against those of a cluster.
    """

    def __init__(
        self, programs: Programs, client: Client, cloud: Cloud, *, cluster: str, folder: Path, pace: float = 1.0
    ) -> None:
        self._programs, self._client, self._cloud, self._cluster = programs, client, cloud, cluster
        self._folder, self._pace = folder, pace
        self.logs: dict[str, Path] = {}

    def start(self, pod: Object, node: Node) -> dict[str, Container]:
        """Start those of a pod, and return them by name.

        Args:
            pod: The pod, with its addresses.
            node: Its node.
        """
        found: dict[str, Container] = {}
        for each in pod["spec"]["containers"]:
            known = self._programs.of(each["image"])
            if known is not None:
                found[each["name"]] = self._container(pod, each, node, *known)
        return found

    def _container(self, pod: Object, said: Object, node: Node, launcher: Launcher, program: Path) -> Container:
        metadata = pod["metadata"]
        folder = self._folder / metadata["namespace"] / metadata["name"] / said["name"]
        folder.mkdir(parents=True, exist_ok=True)

        def run() -> Running:
            running = Running(said["name"], launcher(program, self._given(pod, said, node, folder)), folder)
            self.logs[f"{metadata['namespace']}/{metadata['name']}/{said['name']}"] = running.log
            return running

        return Container(run, pace=self._pace)

    def _given(self, pod: Object, said: Object, node: Node, folder: Path) -> Given:
        own = environment(pod, said, node.client)
        return Given(
            arguments=[expanded(each, own) for each in said.get("args", ())],
            environment={**self._access(pod, node), **own},
            namespace=pod["metadata"]["namespace"],
            kubeconfig=write_kubeconfig(pod, node.client, folder) if has_token(pod, said) else None,
            folder=folder,
            endpoint=self._cloud.endpoint,
            region=self._cloud.region,
        )

    def _access(self, pod: Object, node: Node) -> dict[str, str]:
        """Return the variables by which a program finds AWS, and its role there where it has one."""
        # Webhooks of EKS put them into a pod, so it is not the kubelet who reads the account.
        account = self._client.get(
            f"/api/v1/namespaces/{pod['metadata']['namespace']}/serviceaccounts/{pod['spec']['serviceAccountName']}"
        )
        who = identity_of(pod, account=account, cloud=self._cloud, cluster=self._cluster, node_role=node.instance.role)
        found = self._cloud.credentials(who.role, tags=dict(who.tags))
        variables = found.environment(endpoint=self._cloud.endpoint, region=self._cloud.region)
        return variables if who.role else {key: each for key, each in variables.items() if key not in _CREDENTIALS}
