"""Write constraints.txt: pins of everything requirements*.txt pull in.

Run it with the oldest supported Python, whose pins newer ones can install too.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
# Each brings requirements-dev.txt, and that requirements.txt.
REQUIREMENTS = ("requirements-mutants.txt", "requirements-dist.txt")
HEAD = "# Pins of everything requirements*.txt pull in, for Python 3.10 and newer. 'make constraints' writes it.\n"
COMPILE = (
    "--quiet",
    "--strip-extras",
    "--no-header",
    "--no-annotate",
    "--no-emit-index-url",
    "--no-emit-find-links",
    "--no-emit-trusted-host",
    "--no-emit-options",
)


def main() -> None:
    """Resolve anew, without the pins of last time."""
    CONSTRAINTS.write_text("")
    command = [sys.executable, "-m", "piptools", "compile", *COMPILE, "--output-file", str(CONSTRAINTS)]
    subprocess.run([*command, *REQUIREMENTS], cwd=ROOT, check=True)
    CONSTRAINTS.write_text(HEAD + pins(CONSTRAINTS.read_text()))


def pins(resolved: str) -> str:
    """Return what was resolved without the project itself, which no constraint may name by its path."""
    return "".join(line for line in resolved.splitlines(keepends=True) if not line.startswith("-e "))


if __name__ == "__main__":
    main()
