"""One line on a terminal that shows what a command does once it takes long."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from types import FrameType, TracebackType

# Most commands end before.
DELAY_SECONDS = 2.0
_EVERY_SECONDS = 1.0
# To the beginning of the line, and clear it to its end.
_CLEAR = "\r\x1b[K"


class Progress:
    """Shows the current step on standard error, if that is a terminal, and clears it at the end.

    A timer of the system interrupts the work, so that no thread is needed, which a fork would not survive. Windows has
    no such timer, and shows nothing.
    """

    def __init__(self) -> None:
        self.step = "starting"
        self._began = 0.0
        self._is_shown = False

    def __enter__(self) -> Progress:
        if hasattr(signal, "setitimer") and sys.stderr.isatty():
            self._began = time.monotonic()
            signal.signal(signal.SIGALRM, self._show)
            signal.setitimer(signal.ITIMER_REAL, DELAY_SECONDS, _EVERY_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._began:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self.clear()

    def clear(self) -> None:
        """Take the line away before something else is written."""
        if self._is_shown:
            self._write("")
            self._is_shown = False

    def _show(self, _number: int, _frame: FrameType | None) -> None:
        self._is_shown = True
        self._write(f"gpu-constructs: {self.step} ({time.monotonic() - self._began:.0f} s)")

    def _write(self, text: str) -> None:
        # A terminal may be gone, and the signal may come while another line is written.
        with contextlib.suppress(OSError, RuntimeError):
            sys.stderr.write(f"{_CLEAR}{text}")
            sys.stderr.flush()


# Of the command that runs.
PROGRESS = Progress()
