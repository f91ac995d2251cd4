"""Build the files of a release: sdist, wheel and the command line in one file.

Only packages with known hashes take part: requirements-build.txt builds, and requirements-command.txt goes into the one
file.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tools import build_zipapp

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"


def main() -> None:
    """Build all into dist/, or print the supported Python versions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--pythons", action="store_true", help="only print the Python versions of the classifiers, as JSON"
    )
    if parser.parse_args().pythons:
        print(json.dumps(pythons()))
    else:
        build(DIST)


def pythons() -> list[str]:
    """Return the Python versions that the classifiers name."""
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())


def build(folder: Path) -> None:
    """Build all files into a folder, and remove older files from it."""
    for pattern in ("*.whl", "*.tar.gz", "*.pyz", "*.cdx.json"):
        for path in folder.glob(pattern):
            path.unlink()
    with tempfile.TemporaryDirectory() as place:
        python = environment(Path(place) / "venv", ROOT / "requirements-build.txt")
        subprocess.run([python, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True)
    [wheel] = folder.glob("*.whl")
    build_zipapp.build(str(wheel), folder / "gpu-constructs.pyz")


def environment(folder: Path, requirements: Path) -> str:
    """Create an environment with the packages of a file with hashes and nothing else, and return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    install(folder, "--require-hashes", "-r", str(requirements))
    return str(folder / "bin" / "python")


def install(folder: Path, *arguments: str) -> None:
    """Install into an environment that has no pip."""
    pip = (sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install")
    subprocess.run([*pip, "--quiet", "--disable-pip-version-check", "--no-compile", *arguments], check=True)


if __name__ == "__main__":
    main()
