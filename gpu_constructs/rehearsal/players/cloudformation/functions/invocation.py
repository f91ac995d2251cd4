"""One run of a function: a process with the environment that Lambda gives it, killed when its time is over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_constructs.rehearsal.players.cloudformation.functions.function import Function
from gpu_constructs.rehearsal.players.cloudformation.functions.opt import search_path
from gpu_constructs.rehearsal.players.cloudformation.functions.runtimes import runtime
from gpu_constructs.rehearsal.players.function_error import FunctionError


class Invocation:
    """One run of a function, in a folder of its own that stands for the home and ``/tmp`` of its environment.

    Args:
        function: What runs.
        folder: Empty folder for all that the run writes.
        environment: Variables of the place: credentials, addresses, certificates.

    Attributes:
        request_id: By which logs and errors name it.
        log_stream: Name of its stream of logs.
        log: File with all that it printed.
    """

    def __init__(self, function: Function, folder: Path, environment: Mapping[str, str]) -> None:
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
            started = subprocess.Popen(
                process.command,
                stdin=given,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.function.code,
                env={**self._variables(), **process.variables},
                start_new_session=True,
            )
            self._wait(started)
        return self._told(started.returncode)

    def printed(self) -> list[str]:
        """Return the lines that it printed."""
        return self.log.read_text(errors="replace").splitlines()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        try:
            process.wait(self.function.timeout)
        except subprocess.TimeoutExpired:
            raise self._error(
                "Sandbox.Timedout", f"Error: Task timed out after {self.function.timeout}.00 seconds"
            ) from None
        finally:
            # With what it started: Lambda freezes all of it, and nothing thaws it again here.
            _kill_group(process)

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


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()
