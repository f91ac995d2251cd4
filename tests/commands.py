"""Commands that run as users run them, outside of the checkout."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def run_outside(
    command: Sequence[str | Path], folder: Path, variables: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Return exit code and output of a command, without the variables of this process for Python and git."""
    own = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "GIT_"))}
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=folder, env=own | dict(variables or {}), capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr
