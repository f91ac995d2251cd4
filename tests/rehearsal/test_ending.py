"""SIGTERM ends a rehearsal and every process that it waits for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from gpu_rehearsal import processes
from gpu_rehearsal.stage import ended_in_order

ROOT = Path(__file__).parents[2]
# Waits for a program in a thread, as a deployment waits for helm; the program ignores SIGTERM.
WAITS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from gpu_rehearsal.stage import ended_in_order
from gpu_rehearsal import processes

command = ["sh", "-c", "trap '' TERM; echo $$ >&2; while true; do sleep 1; done"]
with ended_in_order(), ThreadPoolExecutor() as threads:
    process = processes.start(command)
    print("ready", flush=True)
    threads.submit(processes.wait, process, 600.0, lambda: "").result()
"""


def test_sigterm_leaves_each_block() -> None:
    before = signal.getsignal(signal.SIGTERM)
    left: list[str] = []

    with ExitStack() as around:
        raised = around.enter_context(pytest.raises(SystemExit))
        around.enter_context(ended_in_order())
        around.callback(left.append, "the block")
        os.kill(os.getpid(), signal.SIGTERM)

    assert raised.value.code == 143
    assert left == ["the block"]
    assert signal.getsignal(signal.SIGTERM) is before
    assert processes.stopping() == ""


def test_a_process_that_a_thread_waits_for_is_killed() -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", WAITS],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as rehearsal:
        assert rehearsal.stdout is not None
        assert rehearsal.stderr is not None
        child = int(rehearsal.stderr.readline())
        assert rehearsal.stdout.readline() == "ready\n"
        rehearsal.send_signal(signal.SIGTERM)
        # The program would run for ten minutes.
        assert rehearsal.wait(timeout=30) == 143

    state = subprocess.run(["ps", "-o", "stat=", "-p", str(child)], capture_output=True, text=True, check=False).stdout
    # Dead, whether init has reaped it by now or not.
    assert state.strip()[:1] in ("", "Z")


def test_nothing_is_started_after_the_end() -> None:
    processes.stop_all("ended by SIGTERM")
    try:
        with pytest.raises(RuntimeError, match="true isn't started: ended by SIGTERM"):
            processes.start(["true"])
    finally:
        processes.resume()


def test_another_thread_changes_nothing() -> None:
    before = signal.getsignal(signal.SIGTERM)

    def handler() -> object:
        with ended_in_order():
            return signal.getsignal(signal.SIGTERM)

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(handler).result() is before
