"""Named pipes, as ``<(command)`` of a shell makes them: read until their writer is done, but not for ever."""

from __future__ import annotations

import os
import select
import stat
import time
from pathlib import Path

# Far longer than a command takes to start that a shell has started already.
WAIT_SECONDS = 10.0
# Longer than a command such as cdk synth thinks before it writes.
SILENCE_SECONDS = 600.0
_PAUSE_SECONDS = 0.05


def is_pipe(file: Path) -> bool:
    """Whether a path is a named pipe."""
    try:
        return stat.S_ISFIFO(file.stat().st_mode)
    except (OSError, ValueError):
        return False


def is_device(file: Path) -> bool:
    """Whether a path is a device, such as a terminal, which may have no end."""
    try:
        return stat.S_ISCHR(file.stat().st_mode) or stat.S_ISBLK(file.stat().st_mode)
    except (OSError, ValueError):
        return False


def read_pipe(file: Path, most: int, *, wait: float = WAIT_SECONDS, silence: float = SILENCE_SECONDS) -> bytes:
    """Return what is written to a pipe, at most so many bytes.

    Args:
        file: The pipe.
        most: The most bytes.
        wait: How long it is waited for a writer, in seconds.
        silence: How long it is waited for what the writer writes next, in seconds.

    Raises:
        TimeoutError: Nobody writes to it, or no more.
        OSError: It cannot be read.
    """
    found, until = bytearray(), time.monotonic() + wait
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    try:
        while len(found) < most:
            try:
                data = os.read(descriptor, most - len(found))
            except BlockingIOError:
                # Somebody has it open and writes later.
                if not select.select([descriptor], [], [], silence)[0]:
                    raise TimeoutError(f"a pipe whose writer was silent for {silence:g} seconds") from None
                continue
            if data:
                found += data
            elif found:
                break
            elif time.monotonic() > until:
                raise TimeoutError(f"a pipe to which nobody wrote within {wait:g} seconds")
            else:
                time.sleep(_PAUSE_SECONDS)
    finally:
        os.close(descriptor)
    return bytes(found)
