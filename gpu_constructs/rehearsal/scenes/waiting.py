"""Waiting for something to be so, and telling what was seen last where it never is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sized
from typing import TypeVar

LOOKS_EVERY = 0.5
Seen = TypeVar("Seen")


def wait_for(look: Callable[[], Seen | None], seconds: float) -> Seen | None:
    """Look until there is something to be seen, and return it; ``None`` when the time is over.

    Args:
        look: Returns what is waited for, or ``None``.
        seconds: How long at most.
    """
    ends = time.monotonic() + seconds
    while True:
        seen = look()
        if seen is not None or time.monotonic() > ends:
            return seen
        time.sleep(LOOKS_EVERY)


def wait_until(look: Callable[[], bool], seconds: float) -> bool:
    """Look until something is so, and return whether that came.

    Args:
        look: Whether it is so.
        seconds: How long at most.
    """
    return wait_for(lambda: look() or None, seconds) is not None


def wait_until_none(look: Callable[[], Sized], seconds: float) -> bool:
    """Look until there is nothing more to be seen, and return whether that came.

    Args:
        look: Returns what is to go.
        seconds: How long at most.
    """
    return wait_until(lambda: not look(), seconds)
