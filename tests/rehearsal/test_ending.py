"""A play that is told to end leaves its blocks, and what they started ends."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from gpu_constructs.rehearsal.ending import ENDED, ended_in_order


def test_what_is_told_to_end_leaves_its_blocks() -> None:
    before = signal.getsignal(signal.SIGTERM)
    left: list[str] = []

    with ExitStack() as around:
        raised = around.enter_context(pytest.raises(SystemExit))
        around.enter_context(ended_in_order())
        around.callback(left.append, "the block")
        os.kill(os.getpid(), signal.SIGTERM)

    assert raised.value.code == ENDED == 143
    assert left == ["the block"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_another_thread_changes_nothing() -> None:
    before = signal.getsignal(signal.SIGTERM)

    def told() -> object:
        with ended_in_order():
            return signal.getsignal(signal.SIGTERM)

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(told).result() is before
