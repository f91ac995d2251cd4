"""Write constraints.txt: pins of everything requirements*.txt pull in, and with hashes what goes into a release.

Run it with the oldest supported Python, whose pins newer ones can install too. constraints.txt itself has no hashes:
with them, pip requires a hash of everything that it installs, and the project itself, `-e .[cdk]`, has none.
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
# Files with hashes: the arguments with which pip-tools reads them from pyproject.toml, and their first words.
HASHED = {
    "requirements-command.txt": ((), "Dependencies of the wheel without extras"),
    "requirements-build.txt": (("--only-build-deps", "--build-deps-for", "wheel"), "Tools that build the wheel"),
}
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
    """Resolve again, without the previous pins."""
    CONSTRAINTS.write_text("")
    compile_pins(CONSTRAINTS, *REQUIREMENTS)
    CONSTRAINTS.write_text(HEAD + pins(CONSTRAINTS.read_text()))
    for name, (arguments, content) in HASHED.items():
        file = ROOT / name
        compile_pins(file, "--generate-hashes", "--constraint", str(CONSTRAINTS), *arguments, "pyproject.toml")
        file.write_text(
            f"# {content}, with hashes, as constraints.txt pins it. 'make constraints' writes it.\n{file.read_text()}"
        )


def compile_pins(output: Path, *arguments: str) -> None:
    """Run pip-tools."""
    command = [sys.executable, "-m", "piptools", "compile", *COMPILE, "--output-file", str(output), *arguments]
    subprocess.run(command, cwd=ROOT, check=True)


def pins(resolved: str) -> str:
    """Return what was resolved without the project itself, which no constraint may name by its path."""
    return "".join(line for line in resolved.splitlines(keepends=True) if not line.startswith("-e "))


if __name__ == "__main__":
    main()
