"""Real processes with logs, and loops of simulators."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from urllib3.exceptions import HTTPError

from gpu_rehearsal import processes
from gpu_rehearsal.cluster.client import Refused
from gpu_rehearsal.processes import LOOPBACK


def listens(port: int) -> bool:
    """Whether somebody listens on a port."""
    with socket.socket() as one:
        return one.connect_ex((LOOPBACK, port)) == 0


START_SECONDS = 60.0
STOP_SECONDS = 5.0


class Process:
    """A running process whose output is kept."""

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, *, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name, self.log = name, folder / f"{name}.log"
        with self.log.open("ab") as output:
            self._process = processes.start(
                command, stdout=output, stderr=subprocess.STDOUT, cwd=folder, env=environment
            )

    @property
    def exit_code(self) -> int | None:
        """How it ended; ``None`` while it runs."""
        return self._process.poll()

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        """Return when it is ready; fail with the end of its log when it ends first or takes too long."""
        try:
            wait_until(lambda: self.exit_code is not None or is_ready(), f"{self.name} to be ready")
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.tail()}") from error
        if self.exit_code is not None:
            raise RuntimeError(f"{self.name} ended with {self.exit_code} at its start\n{self.tail()}")

    def tail(self, lines: int = 30) -> str:
        """Return the end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """End it, by force where it does not listen for some seconds."""
        self._process.terminate()
        try:
            self._process.wait(seconds)
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


POLL_SECONDS = 0.2


class Loop:
    """A step that is repeated in a thread of its own.

    Attributes:
        refusals: What the API server said no to, each once; the step was tried again.
    """

    def __init__(self, name: str, step: Callable[[], None], *, seconds: float = POLL_SECONDS) -> None:
        self.refusals: dict[str, None] = {}
        self._step, self._seconds = step, seconds
        self._stopping, self._failure = threading.Event(), list[BaseException]()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the step that goes on.

        Raises:
            RuntimeError: A step failed: nothing was done after it.
        """
        self._stopping.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Say so where it has failed.

        Raises:
            RuntimeError: A step failed.
        """
        if self._failure and not processes.stopping():
            raise RuntimeError(f"{self._thread.name} failed: {self._failure[0]}") from self._failure[0]

    def _run(self) -> None:
        while not self._stopping.wait(self._seconds):
            try:
                self._step()
            except (Refused, HTTPError) as refused:
                # Another was faster, or the server ends: the next step sees what is there then.
                self.refusals[str(refused)] = None
            except BaseException as error:
                self._failure.append(error)
                return


_Looped = TypeVar("_Looped", bound="Looped")


class Looped:
    """A simulator whose loop runs while its ``with`` block lasts."""

    loop: Loop

    def __enter__(self: _Looped) -> _Looped:
        self.loop.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.stop()
