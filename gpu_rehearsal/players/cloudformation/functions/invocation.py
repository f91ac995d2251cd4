"""A Lambda function, and one run of it: a process with Lambda's environment, killed after the function's timeout."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_rehearsal.players import processes
from gpu_rehearsal.players.cloudformation.functions import assets
from gpu_rehearsal.players.cloudformation.functions.assets import search_path
from gpu_rehearsal.players.credentials import FunctionError, Source


@dataclass(frozen=True, kw_only=True, slots=True)
class Function:
    """What runs when a function is invoked.

    Attributes:
        name: Name of the function.
        arn: Its ARN.
        role: ARN of the role as which it runs.
        runtime: E.g. ``python3.13``.
        handler: Module and function, e.g. ``index.handler``.
        code: Folder of its code.
        opt: Folder that stands for ``/opt``, with the files of its layers.
        variables: Environment variables of its own.
        timeout: Seconds after which it is killed.
        memory_mb: What it may use; told to it, not enforced.
        log_group: Name of the log group it writes to.
        source: Where its connections start; of several subnets the first.
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
        command: How it is started.
        variables: Environment variables that it needs.
    """

    command: tuple[str, ...]
    variables: Mapping[str, str]


def played_on(name: str) -> str:
    """Return what plays a runtime of Lambda: any version of Python this one, any of Node the one on the PATH.

    Raises:
        LookupError: Nothing plays it, or it is not installed.
    """
    if _is_of_python(name):
        return f"Python {platform.python_version()}"
    version = subprocess.run([_node(), "--version"], capture_output=True, text=True, check=True).stdout
    return f"Node {version.strip().removeprefix('v')}"


def runtime(name: str) -> Runtime:
    """Return the program that plays a runtime of Lambda.

    Raises:
        LookupError: Nothing plays it, or it or what it brings is not installed.
    """
    if _is_of_python(name):
        return Runtime(command=(sys.executable, "-u", str(_HERE / "python_runtime.py")), variables={})
    modules = {"NODE_PATH": str(assets.modules())}
    return Runtime(command=(_node(), str(_HERE / "node_runtime.cjs")), variables=modules)


def _is_of_python(name: str) -> bool:
    if not name.startswith(("python3.", "nodejs")):
        raise LookupError(f"runtime {name!r} is not played; it must be one of Python's or Node's")
    return name.startswith("python3.")


def _node() -> str:
    program = shutil.which("node")
    if program is None:
        raise LookupError("no node on the PATH: install Node 20 or newer")
    return program


class Invocation:
    """One run of a function, in a folder of its own that stands for the home and ``/tmp`` of its environment.

    Args:
        function: What runs.
        folder: Empty folder for all that the run writes.
        environment: Variables of the place: credentials, addresses, certificates.
        stopped: Returns why the run is to be killed; empty while it isn't.

    Attributes:
        request_id: By which logs and errors name it.
        log_stream: Name of its stream of logs.
        log: File with all that it printed.
    """

    def __init__(
        self,
        function: Function,
        folder: Path,
        environment: Mapping[str, str],
        stopped: Callable[[], str] = lambda: "",
    ) -> None:
        self._stopped = stopped
        self.function, self._folder, self._environment = function, folder, environment
        self.request_id = str(uuid.uuid4())
        self.log_stream = f"{time.strftime('%Y/%m/%d')}/[$LATEST]{self.request_id.replace('-', '')}"
        self.log = folder / "log.txt"
        self._answer = folder / "answer.json"

    def run(self, payload: bytes) -> bytes:
        """Return the handler's answer as JSON.

        Raises:
            FunctionError: The handler raised, took too long, or its process died.
        """
        process = runtime(self.function.runtime)
        (self._folder / "tmp").mkdir()
        event = self._folder / "event.json"
        event.write_bytes(payload)
        with event.open("rb") as given, self.log.open("wb") as log:
            started = processes.start(
                process.command,
                stdin=given,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.function.code,
                env={**self._variables(), **process.variables},
            )
            self._wait(started)
        return self._told(started.returncode)

    def printed(self) -> list[str]:
        """Return the lines that it printed."""
        return self.log.read_text(errors="replace").splitlines()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        try:
            why = processes.wait(process, self.function.timeout, self._stopped)
        except subprocess.TimeoutExpired:
            raise self._error(
                "Sandbox.Timedout", f"Error: Task timed out after {self.function.timeout}.00 seconds"
            ) from None
        finally:
            # With what it started: Lambda freezes all of it, and nothing thaws it again here.
            processes.kill(process)
        if why:
            raise self._error("Stopped", why)

    def _told(self, status: int) -> bytes:
        if not self._answer.exists():
            raise self._error("Runtime.ExitError", f"Error: Runtime exited with error: exit status {status}")
        told: dict[str, Any] = json.loads(self._answer.read_text())
        if "error" in told:
            raise FunctionError(json.dumps(told["error"]).encode())
        return json.dumps(told["answer"]).encode()

    def _error(self, kind: str, message: str) -> FunctionError:
        told = {"errorType": kind, "errorMessage": f"RequestId: {self.request_id} {message}"}
        return FunctionError(json.dumps(told).encode())

    def _variables(self) -> dict[str, str]:
        """Return the environment; nothing of this process' own gets through.

        Source: https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html#configuration-envvars-runtime
        (2026-11). HOME is not set there; unset, programs would take the home of whoever rehearses. The CDK's handlers
        take another folder than /tmp, which all runs would share here, from TEST_OUTDIR.
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
