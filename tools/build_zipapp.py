"""Build dist/gpu-constructs.pyz: the command line in one file, for machines without package installation.

It runs on every system with a supported Python. Compiled code of packages is left out, because each of them also has a
Python implementation.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import zipapp
from pathlib import Path

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / "requirements-command.txt"
# Files that are useless without pip, or compiled for one system.
LEFT_OUT = ("*.so", "*.pyd", "bin", "__pycache__")


def main() -> None:
    """Build it, from the source or from a wheel."""
    parser = argparse.ArgumentParser(description="Build gpu-constructs.pyz.")
    parser.add_argument("--wheel", default=str(ROOT), help="wheel to use. Default: the source")
    parser.add_argument("--output", type=Path, default=ROOT / "dist" / "gpu-constructs.pyz")
    arguments = parser.parse_args()
    build(arguments.wheel, arguments.output)


def build(package: str, output: Path) -> None:
    """Write the library and its dependencies into one file."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        content = Path(folder)
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
            requirements.write(unconditional(REQUIREMENTS.read_text()))
            requirements.flush()
            subprocess.run([*pip, "--target", folder, "--require-hashes", "-r", requirements.name], check=True)
        subprocess.run([*pip, "--target", folder, "--no-deps", package], check=True)
        _leave_out(content)
        zipapp.create_archive(
            content, output, "/usr/bin/env python3", "gpu_preflight.command_line.cli:main", compressed=True
        )


def unconditional(requirements: str) -> str:
    """Return requirements without conditions on Python's version: the file runs on every one."""
    return re.sub(r" ; python_version [^\\\n]+", " ", requirements)


def _leave_out(content: Path) -> None:
    for path in [path for pattern in LEFT_OUT for path in content.rglob(pattern)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


if __name__ == "__main__":
    main()
