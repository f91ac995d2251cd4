"""Programs, their logs, and HTTP servers of a play."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

_Server = TypeVar("_Server", bound="Server")


class Server(ThreadingHTTPServer):
    """A server on a free port, over TLS if it gets a context."""

    daemon_threads = True

    def __init__(self, handler: type[Handler], tls: ssl.SSLContext | None = None) -> None:
        super().__init__((LOOPBACK, 0), handler)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)

    @property
    def address(self) -> str:
        """Address without TLS."""
        return f"http://{LOOPBACK}:{self.server_port}"

    def __enter__(self: _Server) -> _Server:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    """A request handler without logs."""

    protocol_version = "HTTP/1.1"

    def body(self) -> bytes:
        """Return the body of the request."""
        return self.rfile.read(int(self.headers["Content-Length"]))

    def send(self, status: int, body: bytes = b"", kind: str = "application/json", **headers: str) -> None:
        """Send a response. Names of headers have ``_`` instead of ``-``."""
        self.send_response(status)
        values = {"Content-Type": kind, "Content-Length": str(len(body)), **headers}
        for name, value in values.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


# Seconds between two checks for reasons to end a running process.
POLL_SECONDS = 0.5
LOOPBACK = "127.0.0.1"
_running: set[subprocess.Popen[Any]] = set()
# Reentrant: a signal handler may need it while the main thread holds it.
_lock = threading.RLock()
_reason = ""


def start(command: Sequence[str], **how: Any) -> subprocess.Popen[Any]:
    """Start a process in a new session, with the arguments of `subprocess.Popen`.

    Raises:
        RuntimeError: All processes were stopped.
    """
    with _lock:
        if _reason:
            raise RuntimeError(f"{command[0]} isn't started: {_reason}")
        process = subprocess.Popen(command, start_new_session=True, **how)
        _running.difference_update([each for each in _running if each.poll() is not None])
        _running.add(process)
    return process


def wait(process: subprocess.Popen[Any], seconds: float, stopped: Callable[[], str]) -> str:
    """Wait for a process to end. Return why the wait was given up; empty if the process ended.

    Args:
        seconds: How long at most.
        stopped: Returns why the wait ends early; empty while it doesn't.

    Raises:
        subprocess.TimeoutExpired: The time limit is over.
    """
    left = seconds
    while True:
        try:
            process.wait(min(left, POLL_SECONDS))
            return ""
        except subprocess.TimeoutExpired:
            left -= POLL_SECONDS
            if why := stopped() or _reason:
                return why
            if left <= 0:
                raise


def kill(process: subprocess.Popen[Any]) -> None:
    """Kill a process and its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def stop_all(reason: str) -> None:
    """Kill every process, and start none until `resume` is called."""
    global _reason
    with _lock:
        _reason = reason
        for each in _running:
            with suppress(ProcessLookupError):
                if each.poll() is None:
                    os.killpg(each.pid, signal.SIGKILL)


def resume() -> None:
    """Allow processes again."""
    global _reason
    _reason = ""


def stopping() -> str:
    """Return why all processes were stopped; empty if they weren't."""
    return _reason


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as one:
        one.bind((LOOPBACK, 0))
        return int(one.getsockname()[1])


def listens(port: int) -> bool:
    """Whether a process listens on a port."""
    with socket.socket() as one:
        return one.connect_ex((LOOPBACK, port)) == 0


START_SECONDS = 60.0
STOP_SECONDS = 5.0


class Process:
    """A running process with its output in a log file."""

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, *, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name, self.log = name, folder / f"{name}.log"
        with self.log.open("ab") as output:
            self._process = start(command, stdout=output, stderr=subprocess.STDOUT, cwd=folder, env=environment)

    @property
    def exit_code(self) -> int | None:
        """Its exit code; ``None`` while it runs."""
        return self._process.poll()

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        """Wait until it is ready. If it ends first or takes too long, fail with the end of its log."""
        try:
            wait_until(lambda: self.exit_code is not None or is_ready(), f"{self.name} to be ready")
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.tail()}") from error
        if self.exit_code is not None:
            raise RuntimeError(f"{self.name} ended with {self.exit_code} while it started\n{self.tail()}")

    def tail(self, lines: int = 30) -> str:
        """Return the end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Terminate it, and kill it if it still runs after some seconds."""
        self._process.terminate()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def wait_until(is_ready: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds, and fail if that takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while not is_ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {START_SECONDS:.0f} s for {what}")
        time.sleep(0.05)
