"""Check scripts with ShellCheck."""

from __future__ import annotations

import shutil
import subprocess


def complaints(script: str, *, shell: str = "bash") -> str:
    """Return ShellCheck's output for a script."""
    program = shutil.which("shellcheck")
    assert program, "no shellcheck: install requirements-dev.txt"
    done = subprocess.run(
        [program, "--shell", shell, "--format", "gcc", "-"], input=script, capture_output=True, text=True, check=False
    )
    assert not done.stderr
    return done.stdout
