"""Lambda functions, and their runs: processes with Lambda's environment, killed after the function's timeout."""

from __future__ import annotations

import itertools
import json
import platform
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from gpu_rehearsal import processes
from gpu_rehearsal.cloudformation import assets
from gpu_rehearsal.cloudformation.assets import search_path
from gpu_rehearsal.cloudformation.template import Account, Invoke
from gpu_rehearsal.credentials import FunctionError, Source


@dataclass(frozen=True, kw_only=True, slots=True)
class Function:
    """The settings of a function.

    Attributes:
        name: Name of the function.
        arn: Its ARN.
        role: ARN of its role.
        runtime: Its runtime, e.g. ``python3.13``.
        handler: Module and function, e.g. ``index.handler``.
        code: Folder of its code.
        opt: Folder that replaces ``/opt``, with the files of its layers.
        variables: Its environment variables.
        timeout: Seconds after which it is killed.
        memory_mb: Its memory setting, which isn't enforced.
        log_group: Name of its log group.
        source: Where its connections start, in the first of its subnets.
    """

    name: str
    arn: str
    role: str
    runtime: str
    handler: str
    code: Path
    opt: Path
    variables: Mapping[str, str]
    timeout: int
    memory_mb: int
    log_group: str
    source: Source = field(default_factory=lambda: Source(name="function"))


_HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True, slots=True)
class Runtime:
    """A program that runs handlers.

    Attributes:
        command: Its command line.
        variables: Its environment variables.
    """

    command: tuple[str, ...]
    variables: Mapping[str, str]


def local_runtime(name: str) -> str:
    """Return the local version that runs a runtime of Lambda: this Python, or the Node on the PATH.

    Raises:
        LookupError: The runtime isn't supported, or not installed.
    """
    if _is_of_python(name):
        return f"Python {platform.python_version()}"
    version = subprocess.run([_node(), "--version"], capture_output=True, text=True, check=True).stdout
    return f"Node {version.strip().removeprefix('v')}"


def runtime(name: str) -> Runtime:
    """Return the local program that runs a runtime of Lambda.

    Raises:
        LookupError: The runtime isn't supported, or it or its packages aren't installed.
    """
    if _is_of_python(name):
        return Runtime(command=(sys.executable, "-u", str(_HERE / "python_runtime.py")), variables={})
    node_modules = {"NODE_PATH": str(assets.node_modules())}
    return Runtime(command=(_node(), str(_HERE / "node_runtime.cjs")), variables=node_modules)


def _is_of_python(name: str) -> bool:
    if not name.startswith(("python3.", "nodejs")):
        raise LookupError(f"runtime {name!r} isn't simulated; it must be a runtime of Python or Node")
    return name.startswith("python3.")


def _node() -> str:
    program = shutil.which("node")
    if program is None:
        raise LookupError("no node on the PATH: install Node 20 or newer")
    return program


class Invocation:
    """One run of a function, in a new folder that replaces its home and ``/tmp``.

    Args:
        function: The function.
        folder: Empty folder for all files of the run.
        environment: Variables for credentials, addresses and certificates.
        stopped: Returns why to kill the run; empty while it may continue.

    Attributes:
        request_id: Its id in logs and errors.
        log_stream: Name of its log stream.
        log: File with its output.
    """

    def __init__(
        self, function: Function, folder: Path, environment: Mapping[str, str], stopped: Callable[[], str] = lambda: ""
    ) -> None:
        self._stopped = stopped
        self.function, self._folder, self._environment = function, folder, environment
        self.request_id = str(uuid.uuid4())
        self.log_stream = f"{time.strftime('%Y/%m/%d')}/[$LATEST]{self.request_id.replace('-', '')}"
        self.log = folder / "log.txt"
        self._answer = folder / "answer.json"

    def run(self, payload: bytes) -> bytes:
        """Return the handler's response as JSON.

        Raises:
            FunctionError: The handler raised an exception, timed out, or its process ended.
        """
        process = runtime(self.function.runtime)
        (self._folder / "tmp").mkdir()
        event = self._folder / "event.json"
        event.write_bytes(payload)
        with event.open("rb") as event_file, self.log.open("wb") as log:
            started = processes.start(
                process.command,
                stdin=event_file,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.function.code,
                env={**self._variables(), **process.variables},
            )
            self._wait(started)
        return self._read_result(started.returncode)

    def printed(self) -> list[str]:
        """Return the lines of its output."""
        return self.log.read_text(errors="replace").splitlines()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        try:
            why = processes.wait(process, self.function.timeout, self._stopped)
        except subprocess.TimeoutExpired:
            raise self._error(
                "Sandbox.Timedout", f"Error: Task timed out after {self.function.timeout}.00 seconds"
            ) from None
        finally:
            # With its children. Lambda would freeze all of them, and here no later run would continue them.
            processes.kill(process)
        if why:
            raise self._error("Stopped", why)

    def _read_result(self, status: int) -> bytes:
        if not self._answer.exists():
            raise self._error("Runtime.ExitError", f"Error: Runtime exited with error: exit status {status}")
        result: dict[str, Any] = json.loads(self._answer.read_text())
        if "error" in result:
            raise FunctionError(json.dumps(result["error"]).encode())
        return json.dumps(result["answer"]).encode()

    def _error(self, kind: str, message: str) -> FunctionError:
        result = {"errorType": kind, "errorMessage": f"RequestId: {self.request_id} {message}"}
        return FunctionError(json.dumps(result).encode())

    def _variables(self) -> dict[str, str]:
        """Return the environment, without any variable of this process.

        Source: https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html#configuration-envvars-runtime
        (2026-11). Lambda doesn't set HOME. If it were unset here, programs would use the home of the current user. The
        CDK's handlers read TEST_OUTDIR to replace /tmp, which all runs would share here.
        """
        function, temporary = self.function, str(self._folder / "tmp")
        return {
            **function.variables,
            **self._environment,
            "_HANDLER": function.handler,
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.runtime}",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mb),
            "AWS_LAMBDA_FUNCTION_NAME": function.name,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_LAMBDA_LOG_GROUP_NAME": function.log_group,
            "AWS_LAMBDA_LOG_STREAM_NAME": self.log_stream,
            "HOME": temporary,
            "LAMBDA_TASK_ROOT": str(function.code),
            "LANG": "en_US.UTF-8",
            "PATH": search_path(function.opt),
            "REHEARSAL_ANSWER": str(self._answer),
            "REHEARSAL_DEADLINE": str(time.time() + function.timeout),
            "REHEARSAL_FUNCTION_ARN": function.arn,
            "REHEARSAL_OPT_PYTHON": str(function.opt / "python"),
            "REHEARSAL_REQUEST_ID": self.request_id,
            "TEST_OUTDIR": temporary,
            "TMPDIR": temporary,
            "TZ": ":UTC",
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """An ended run of a function.

    Attributes:
        function: Name of the function.
        role: ARN of its role.
        seconds: Duration.
        error: Its error; empty after a response.
        log: File with its output.
    """

    function: str
    role: str
    seconds: float
    error: str
    log: Path


class Functions:
    """The functions of a deployment. Each run is a process with its role's credentials.

    Lambda's limits of memory, network and file system aren't applied, and no environment is reused.

    Args:
        aws: The simulated account.
        folder: Folder for code, layers and files of runs.
        environment: Additional variables of every run, e.g. for certificates.
        stopped: Returns why to stop runs; empty while they may continue.

    Attributes:
        can_be_stopped: Whether `stopped` is used. It isn't for a rollback or a deletion.
        layers: Folders of layers, by ARN.
        runs: All ended runs.
    """

    def __init__(
        self, aws: Account, folder: Path, environment: Mapping[str, str], stopped: Callable[[], str] = lambda: ""
    ) -> None:
        self._stopped, self.can_be_stopped = stopped, False
        self.layers: dict[str, Path] = {}
        self.runs: list[Run] = []
        self.folder, self._aws, self._environment = folder, aws, environment
        self._physical: dict[str, Function] = {}
        self._invoke_elsewhere: Invoke | None = aws.functions
        self._numbers, self._versions, self._lock = itertools.count(1), itertools.count(1), threading.Lock()
        self._layer_versions: Counter[str] = Counter()
        self._running, self._idle = Counter[str](), threading.Condition()
        aws.functions = self.invoke

    def add(self, function: Function) -> None:
        """Add a function, or replace an older version of it."""
        self._physical[function.name] = function

    def remove(self, name: str) -> None:
        """Delete a function after its runs have ended and their logs are written."""
        self._physical.pop(name, None)
        with self._idle:
            self._idle.wait_for(lambda: not self._running[name])

    def next_layer(self, layer: str) -> str:
        """Return the ARN of the next version of a layer. Versions are unique."""
        with self._lock:
            self._layer_versions[layer] += 1
            return f"{layer}:{self._layer_versions[layer]}"

    def new_folder(self, kind: str, name: str) -> Path:
        """Return the path of a new folder for a version of code or layers."""
        with self._lock:
            return self.folder / kind / f"{name}-{next(self._versions):03}"

    def invoke(self, name: str, payload: bytes) -> bytes:
        """Run a function, and return its response as JSON.

        Args:
            name: Name of the function, in this deployment or in another one.
            payload: The event as JSON.

        Raises:
            FunctionError: It ended without a response.
            LookupError: The function doesn't exist.
        """
        if name not in self._physical:
            if self._invoke_elsewhere is None:
                raise LookupError(f"Function not found: {name}")
            return self._invoke_elsewhere(name, payload)
        if why := self._why_unreached(self._physical[name], payload):
            raise FunctionError(json.dumps({"errorType": "Sandbox.Timedout", "errorMessage": why}).encode())
        with self._counted_run(name):
            function = self._physical[name]
            folder, environment = self._folder_of_run(name), self._function_environment(function)
            return self._run(Invocation(function, folder, environment, self.stopped), payload)

    def stopped(self) -> str:
        """Return why to stop runs; empty while they may continue."""
        return self._stopped() if self.can_be_stopped else ""

    def settle(self) -> None:
        """Wait for every run to end. A run continues for a moment after its response to a custom resource."""
        with self._idle:
            self._idle.wait_for(lambda: not self._running.total())

    def _why_unreached(self, function: Function, payload: bytes) -> str:
        """Return why kubectl in a function doesn't reach the cluster of its event. It calls the API server directly."""
        if not (function.opt / "kubectl").exists():
            return ""
        cluster = json.loads(payload).get("ResourceProperties", {}).get("ClusterName")
        return self._aws.unreachable(function.source, cluster) if cluster else ""

    @contextmanager
    def _counted_run(self, name: str) -> Iterator[None]:
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

    def _function_environment(self, function: Function) -> dict[str, str]:
        credentials = self._aws.assume(function.role, service="lambda.amazonaws.com", source=function.source)
        return {**self._environment, **credentials.environment(endpoint=self._aws.endpoint, region=self._aws.region)}

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
        """Write the output of a run to its log group with its role, as Lambda does. A denied call loses it.

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
    """Create a log stream, and its group if it doesn't exist."""
    try:
        logs.create_log_stream(**where)
    except logs.exceptions.ResourceNotFoundException:
        logs.create_log_group(logGroupName=where["logGroupName"])
        logs.create_log_stream(**where)
