"""A play that is told to end takes everything down that it started."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# What a shell tells of a program that SIGTERM ended.
ENDED = 128 + signal.SIGTERM


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Have SIGTERM leave the block as an error does; Python alone would end at once, and leave programs that run.

    Signals reach the main thread only: in any other nothing changes.

    Raises:
        SystemExit: The process was told to end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(ENDED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
