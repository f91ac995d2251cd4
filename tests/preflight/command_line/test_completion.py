"""Completion in shells: the scripts and their suggestions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpu_preflight.command_line.cli import cli
from gpu_preflight.command_line.parameter_types import SHELLS
from tests.conftest import ROOT


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script(shell: str) -> None:
    script = CliRunner().invoke(cli, ["completion", shell], standalone_mode=False).stdout

    assert "gpu-constructs" in script
    assert f"_GPU_CONSTRUCTS_COMPLETE={shell}_complete" in script


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gpu-constructs ch", ["check"]),
        ("gpu-constructs rules gpu36", ["GPU360", "GPU361"]),
        ("gpu-constructs instances --family g6", ["g6", "g6e"]),
        ("gpu-constructs instances --gpu h1", ["H100"]),
        ("gpu-constructs check --format con", ["concise"]),
        ("gpu-constructs check --col", ["--color"]),
        ("gpu-constructs completion z", ["zsh"]),
    ],
)
def test_bash_completes_commands_options_rules_and_families(line: str, expected: list[str], tmp_path: Path) -> None:
    program = tmp_path / "gpu-constructs"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m gpu_preflight.command_line.cli "$@"\n')
    program.chmod(0o755)
    # As bash itself does after Tab.
    ask = (
        f'eval "$(gpu-constructs completion bash)"; COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); '
        '_gpu_constructs_completion gpu-constructs; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}

    done = subprocess.run(["bash", "--norc", "-c", ask], env=environment, capture_output=True, text=True, check=True)

    assert (set(expected) <= set(done.stdout.split()), done.stderr) == (True, "")


def test_paths_are_completed_by_the_shell() -> None:
    environment = {
        "_GPU_CONSTRUCTS_COMPLETE": "bash_complete",
        "COMP_WORDS": "gpu-constructs check a",
        "COMP_CWORD": "2",
    }

    done = CliRunner(env=environment).invoke(cli, [], prog_name="gpu-constructs")

    assert done.stdout.split() == ["file,a"]
