"""Count the steps of some work: the same on every machine, however busy it is."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from gpu_preflight.reading.versions import Work


@contextmanager
def steps_at_most(most: int) -> Iterator[None]:
    """Fail when the intrinsics that are resolved in the block take more steps."""
    taken = 0
    step = Work.step

    def counted(work: Work, file: str, count: int = 1) -> None:
        nonlocal taken
        taken += count
        step(work, file, count)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Work, "step", counted)
        yield
    assert taken <= most


@contextmanager
def bytes_at_most(most: int) -> Iterator[None]:
    """Fail when the block holds more memory at a time, beside what was held before it."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= most


def calls(work: Callable[[], object]) -> int:
    """Return how many functions of Python some work calls."""
    count = 0

    def counted(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
