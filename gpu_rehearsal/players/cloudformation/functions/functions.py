"""Every function and layer of a deployment, and every run of one."""

from __future__ import annotations

import itertools
import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from gpu_rehearsal.players.cloudformation.account import Account, Invoke
from gpu_rehearsal.players.cloudformation.functions.invocation import Function, Invocation
from gpu_rehearsal.players.credentials import FunctionError


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A run of a function that has ended.

    Attributes:
        function: Name of the function.
        role: ARN of the role as which it ran.
        seconds: How long it ran.
        error: What it ended with; empty for an answer.
        log: File with all that it printed.
    """

    function: str
    role: str
    seconds: float
    error: str
    log: Path


class Functions:
    """The functions of a deployment; each run is a process with its role's credentials.

    Memory, network and file system of a run are not limited as Lambda limits them, and no environment is used twice.

    Args:
        aws: Answers what they call.
        folder: For code, layers, and all that runs write.
        environment: Variables that every run gets beside its own, e.g. those by which it trusts certificates.
        stopped: Returns why nobody waits for a run any longer; empty while somebody does.

    Attributes:
        can_be_stopped: Whether `stopped` counts: it doesn't for a rollback or a deletion.
        layers: Folders of layers, by ARN.
        runs: Those that have ended.
    """

    def __init__(
        self, aws: Account, folder: Path, environment: Mapping[str, str], stopped: Callable[[], str] = lambda: ""
    ) -> None:
        self._stopped, self.can_be_stopped = stopped, False
        self.layers: dict[str, Path] = {}
        self.runs: list[Run] = []
        self.folder, self._aws, self._environment = folder, aws, environment
        self._made: dict[str, Function] = {}
        self._others: Invoke | None = aws.functions
        self._numbers, self._versions, self._lock = itertools.count(1), itertools.count(1), threading.Lock()
        self._layer_versions: Counter[str] = Counter()
        self._running, self._idle = Counter[str](), threading.Condition()
        aws.functions = self.invoke

    def add(self, function: Function) -> None:
        """Have a function answer by its name, in place of an older version of it."""
        self._made[function.name] = function

    def remove(self, name: str) -> None:
        """Delete a function after its runs have ended: Lambda has written their logs by then."""
        self._made.pop(name, None)
        with self._idle:
            self._idle.wait_for(lambda: not self._running[name])

    def next_layer(self, layer: str) -> str:
        """Return the ARN of the next version of a layer; no number is used twice."""
        with self._lock:
            self._layer_versions[layer] += 1
            return f"{layer}:{self._layer_versions[layer]}"

    def new_folder(self, kind: str, name: str) -> Path:
        """Return the path of a new folder for a version of something."""
        with self._lock:
            return self.folder / kind / f"{name}-{next(self._versions):03}"

    def invoke(self, name: str, payload: bytes) -> bytes:
        """Run a function and return its answer as JSON.

        Args:
            name: Of the function; of another deployment where it is none of this one.
            payload: Event, as JSON.

        Raises:
            FunctionError: It ended without an answer.
            LookupError: There is no such function.
        """
        if name not in self._made:
            if self._others is None:
                raise LookupError(f"Function not found: {name}")
            return self._others(name, payload)
        if why := self._why_unreached(self._made[name], payload):
            raise FunctionError(json.dumps({"errorType": "Sandbox.Timedout", "errorMessage": why}).encode())
        with self._one_more_runs(name):
            function = self._made[name]
            folder, environment = self._folder_of_run(name), self._environment_of(function)
            return self._run(Invocation(function, folder, environment, self.stopped), payload)

    def stopped(self) -> str:
        """Return why nobody waits for a run any longer; empty while somebody does."""
        return self._stopped() if self.can_be_stopped else ""

    def settle(self) -> None:
        """Wait for every run to end: one that has answered a custom resource still runs for a moment."""
        with self._idle:
            self._idle.wait_for(lambda: not self._running.total())

    def _why_unreached(self, function: Function, payload: bytes) -> str:
        """Return why kubectl in a function doesn't reach the cluster of its event: its calls are sent elsewhere."""
        if not (function.opt / "kubectl").exists():
            return ""
        cluster = json.loads(payload).get("ResourceProperties", {}).get("ClusterName")
        return self._aws.unreachable(function.source, cluster) if cluster else ""

    @contextmanager
    def _one_more_runs(self, name: str) -> Iterator[None]:
        with self._idle:
            self._running[name] += 1
        try:
            yield
        finally:
            with self._idle:
                self._running[name] -= 1
                self._idle.notify_all()

    def _run(self, invocation: Invocation, payload: bytes) -> bytes:
        started, error = time.monotonic(), ""
        try:
            return invocation.run(payload)
        except FunctionError as raised:
            error = str(raised)
            raise
        finally:
            self._close(invocation, time.monotonic() - started, error)

    def _environment_of(self, function: Function) -> dict[str, str]:
        credentials = self._aws.assume(function.role, service="lambda.amazonaws.com", source=function.source)
        return {
            **self._environment,
            **credentials.environment(endpoint=self._aws.endpoint, region=self._aws.region),
        }

    def _folder_of_run(self, name: str) -> Path:
        with self._lock:
            folder = self.folder / "runs" / f"{next(self._numbers):03}-{name}"
        folder.mkdir(parents=True)
        return folder

    def _close(self, invocation: Invocation, seconds: float, error: str) -> None:
        function = invocation.function
        shutil.rmtree(invocation.log.parent / "tmp", ignore_errors=True)
        self._write_log(invocation)
        self.runs.append(
            Run(function=function.name, role=function.role, seconds=seconds, error=error, log=invocation.log)
        )

    def _write_log(self, invocation: Invocation) -> None:
        """Write what a run printed to its log group as its role, as Lambda does; what is denied is lost there too.

        Source: https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs.html (2026-11)
        """
        with self._lock:
            logs = self._aws.client("logs", role=invocation.function.role)
        where = {"logGroupName": invocation.function.log_group, "logStreamName": invocation.log_stream}
        now = int(time.time() * 1000)
        events = [{"timestamp": now, "message": line} for line in invocation.printed() if line]
        try:
            _create_stream(logs, where)
            if events:
                logs.put_log_events(**where, logEvents=events)
        except ClientError as error:
            with invocation.log.open("a") as log:
                log.write(f"not logged: {error}\n")


def _create_stream(logs: Any, where: Mapping[str, str]) -> None:
    """Create a stream of logs, and its group where nobody has."""
    try:
        logs.create_log_stream(**where)
    except logs.exceptions.ResourceNotFoundException:
        logs.create_log_group(logGroupName=where["logGroupName"])
        logs.create_log_stream(**where)
