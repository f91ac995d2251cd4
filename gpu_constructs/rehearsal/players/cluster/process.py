"""A program that runs, and its output."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

START_SECONDS = 60.0
STOP_SECONDS = 5.0


class Process:
    """A running process whose output is kept.

    Args:
        name: What to call it.
        command: What to run.
        folder: Where its log goes.
        environment: Its environment. Default: that of the caller.
    """

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, *, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name, self.log = name, folder / f"{name}.log"
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
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
