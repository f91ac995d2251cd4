"""A command that takes long shows on a terminal what it does, and nothing anywhere else."""

from __future__ import annotations

import io
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpu_preflight.command_line import console
from gpu_preflight.command_line.cli import cli
from gpu_preflight.command_line.console import Progress
from gpu_preflight.doctor import diagnosis, dump

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer, which Windows does not have")
_PODS = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: train, namespace: default}
  spec: {containers: []}
  status: {phase: Pending}
"""


class Terminal(io.StringIO):
    """Standard error that may be a terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._is_terminal


def shown(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool, seconds: float) -> str:
    """Return what is written while a step takes some seconds."""
    terminal = Terminal(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(console, "DELAY_SECONDS", 0.05)
    monkeypatch.setattr(console, "_EVERY_SECONDS", 0.05)
    with Progress() as running:
        running.step = "checking"
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(0.001)
    return terminal.getvalue()


def test_a_long_command_shows_its_step_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, is_terminal=True, seconds=0.5)

    assert text.count("gpu-constructs: checking (0 s)") > 1
    assert "\n" not in text
    assert text.endswith("\r\x1b[K")


def test_a_short_command_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, is_terminal=True, seconds=0) == ""


def test_elsewhere_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, is_terminal=False, seconds=0.3) == ""


def test_doctor_names_reading_and_the_search_for_causes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A dump of thousands of nodes in YAML takes a minute to read."""
    steps = []

    def recorded(function: Callable[..., object]) -> Callable[..., object]:
        def record(*given: object) -> object:
            steps.append(console.PROGRESS.step)
            return function(*given)

        return record

    (tmp_path / "pods.yaml").write_text(_PODS)
    for module, name in ((dump, "read_dump"), (diagnosis, "find_target"), (diagnosis, "diagnose")):
        monkeypatch.setattr(module, name, recorded(getattr(module, name)))

    CliRunner().invoke(cli, ["doctor", str(tmp_path), "default/train"])

    assert steps == ["reading", "looking for causes", "looking for causes"]
