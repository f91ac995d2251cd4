"""Runs a program under limits of time, CPU, memory and output; no part of it outlives this process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from threading import Thread
from typing import IO, Any

from gpu_facts.light_dataclasses import dataclass
from gpu_preflight.reading.rendering.network import closing, is_closable

# helm reserves 0.8 GiB to render a small chart, and kubectl less (4.3.1 and 1.37, 2026-11).
MAX_MEMORY_BYTES = 3 * 1024**3
MAX_CPU_SECONDS = 60
_MAX_ERROR_BYTES = 64 * 1024
_CHUNK = 64 * 1024
_SIGNAL_AT_PARENTS_DEATH = 1
# How a program in Go ends when the system gives it no more memory.
_WITHOUT_MEMORY = ("runtime: out of memory", "fatal error: out of memory", "runtime: cannot allocate memory")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended.

    Attributes:
        code: Its exit code.
        output: What it printed.
        errors: The beginning of what it printed to standard error.
        limit: The limit of the system that ended it; empty if none did.
        is_late: Whether it was ended because it took too long.
        is_cut: Whether it was ended because it printed too much.
    """

    code: int
    output: bytes
    errors: str
    limit: str
    is_late: bool
    is_cut: bool


class _Reader(Thread):
    """Reads a stream to its end, keeps its beginning, and calls back once if there is more than allowed."""

    def __init__(self, stream: IO[bytes], most: int, overflow: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._stream, self._most, self._overflow = stream, most, overflow
        self.found, self.is_cut = bytearray(), False

    def run(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while data := os.read(self._stream.fileno(), _CHUNK):
                self.found += data[: self._most - len(self.found)]
                if len(self.found) == self._most and not self.is_cut:
                    self.is_cut = True
                    self._overflow()

    def end(self) -> None:
        """Close the stream, whose writer has ended."""
        if self.ident is not None:
            self.join(timeout=1)
        self._stream.close()


def run_bounded(command: Sequence[str], environment: Mapping[str, str], *, seconds: float, most_bytes: int) -> Ended:
    """Run a program in a process group of its own, and end the group at the first limit that it reaches.

    Args:
        command: The program and its arguments.
        environment: Its environment variables.
        seconds: How long it may run.
        most_bytes: How much it may print.

    Raises:
        OSError: It cannot be started.
    """
    until, used = time.monotonic() + seconds, _cpu_seconds()
    options: dict[str, Any] = {} if sys.platform == "win32" else {"start_new_session": True, "preexec_fn": _limiting()}
    with warnings.catch_warnings():
        # Python 3.12 warns of forks next to threads. What runs before the program takes no lock.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = subprocess.Popen(
            [*command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            **options,
        )
    assert process.stdout is not None
    assert process.stderr is not None
    # One byte more than allowed shows that there is more.
    output = _Reader(process.stdout, most_bytes + 1, lambda: _kill(process))
    errors = _Reader(process.stderr, _MAX_ERROR_BYTES, lambda: None)
    try:
        late = _is_late(process, (output, errors), until)
    finally:
        # Also when a signal ends this process.
        _kill(process)
        process.wait()
        for each in (output, errors):
            each.end()
    text = errors.found.decode(errors="replace")
    limit = _limit(process.returncode, text, _cpu_seconds() - used)
    return Ended(process.returncode, bytes(output.found), text, limit, late, output.is_cut)


def _is_late(process: subprocess.Popen[bytes], readers: Sequence[_Reader], until: float) -> bool:
    for each in readers:
        each.start()
    for each in readers:
        each.join(max(until - time.monotonic(), 0))
    try:
        process.wait(max(until - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        return True
    return any(each.is_alive() for each in readers)


def _limit(code: int, errors: str, cpu: float) -> str:
    """Return the limit of the system that ended a program; empty if none did."""
    if code and any(each in errors for each in _WITHOUT_MEMORY):
        return f"it takes more than {_size(MAX_MEMORY_BYTES)} of memory"
    if sys.platform == "win32" or code not in (-signal.SIGKILL, -signal.SIGXCPU):
        return ""
    if cpu > MAX_CPU_SECONDS - 1:
        return f"it takes more than {MAX_CPU_SECONDS} seconds of CPU time"
    return "the system killed it, which it does when memory is short"


def _size(count: int) -> str:
    return f"{count >> 30} GiB" if count >= 1 << 30 else f"{count >> 20} MiB"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and everything that it started."""
    if sys.platform == "win32":
        process.kill()
        return
    # The group outlives its first process, whose number stays taken as long as the group exists.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _cpu_seconds() -> float:
    if sys.platform == "win32":
        return 0.0
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _limiting() -> Callable[[], None]:
    """Return what a new process does before it becomes the program: it limits itself."""
    import resource

    limits = [
        (resource.RLIMIT_AS, MAX_MEMORY_BYTES),
        (resource.RLIMIT_CPU, MAX_CPU_SECONDS),
        (resource.RLIMIT_CORE, 0),
    ]
    parent, close, die_with_parent = os.getpid(), closing() if is_closable() else None, _dying_with_parent()

    def limit() -> None:
        die_with_parent()
        if os.getppid() != parent:
            os._exit(1)
        for kind, most in limits:
            hard = resource.getrlimit(kind)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            # macOS has no limit of memory.
            with contextlib.suppress(OSError, ValueError):
                # The system kills at the hard limit; a program in Go ignores the signal of the soft one.
                resource.setrlimit(kind, (most, most))
        # What a schema of a chart may refer to relies on it.
        if close is not None and not close():
            os._exit(1)

    return limit


def _dying_with_parent() -> Callable[[], object]:
    """Return what lets the kernel kill this process when its parent ends, however it ends; only Linux can."""
    if not sys.platform.startswith("linux"):
        return lambda: None
    import ctypes

    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(_SIGNAL_AT_PARENTS_DEATH, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
