"""The command line in one file prints the same as the installed one, with nothing else installed.

``GPU_CONSTRUCTS_ZIPAPP`` names the file; `make light` builds it and sets that.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import ROOT

SAMPLES = ROOT / "tests" / "preflight" / "report"
CLUSTER, WORKLOADS = str(SAMPLES / "cluster.yaml"), str(SAMPLES / "workloads.yaml")
COMMANDS = [
    ("check", CLUSTER),
    ("explain", CLUSTER, "-f", WORKLOADS),
    ("review", CLUSTER, WORKLOADS),
    ("instances", "--gpu-memory", ">=80"),
    ("rules",),
    ("rules", "GPU010"),
    ("schema",),
    ("--version",),
    ("check", "missing.yaml"),
]


@pytest.fixture
def zipapp() -> Path:
    file = os.environ.get("GPU_CONSTRUCTS_ZIPAPP")
    if file is None:
        pytest.skip("no zipapp: set GPU_CONSTRUCTS_ZIPAPP to the file that make pyz writes")
    return Path(file)


def run(*command: str) -> tuple[int, str, str]:
    """A command's exit code and output."""
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, cwd=ROOT)
    return done.returncode, done.stdout, done.stderr


def alone(zipapp: Path, *command: str) -> tuple[int, str, str]:
    """The same of the zipapp, with neither site-packages nor libyaml."""
    return run("-I", "-S", str(zipapp), *command)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_says_what_the_installed_command_says(zipapp: Path, command: Sequence[str]) -> None:
    assert alone(zipapp, *command) == run("-m", "gpu_constructs", *command)


def test_writes_the_page(zipapp: Path, tmp_path: Path) -> None:
    code, _, error = alone(zipapp, "check", CLUSTER, "--html", str(tmp_path / "page.html"))
    own = run("-m", "gpu_constructs", "check", CLUSTER, "--html", str(tmp_path / "other.html"))

    assert (code, error) == (own[0], own[2])
    assert code == 0
    # Data that is more than 90 days old today has a notice.
    assert [line for line in error.splitlines() if not line.startswith("gpu-constructs: data is more than ")] == []
    assert (tmp_path / "page.html").read_text() == (tmp_path / "other.html").read_text()


def test_holds_nothing_compiled(zipapp: Path) -> None:
    program = f"import sys; sys.path.insert(0, {str(zipapp)!r}); import yaml; print(yaml.__with_libyaml__)"

    assert run("-I", "-S", "-c", program) == (0, "False\n", "")
