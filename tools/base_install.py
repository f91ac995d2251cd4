"""Test what `pip install gpu-constructs` brings, without extras: the command line and preflight, and no CDK.

The wheel is built, installed in an environment of its own, and tested from a copy of the tests, beside which there is
no source. A second run does without libyaml, and with the library in one file.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools import build_zipapp

ROOT = Path(__file__).parents[1]
# Of requirements-dev.txt, what these tests import.
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "syrupy", "jsonschema", "tomli")
TESTED = ("tests/preflight/command_line", "tests/preflight")
# About the source.
ELSEWHERE = (
    "tests/preflight/test_rule.py",
    "tests/preflight/test_rule_coverage.py",
    "tests/preflight/schema",
    # Drawn inputs and slow patterns, which say the same with and without the CDK.
    "tests/preflight/hostile",
    "tests/preflight/scheduling/test_properties.py",
)
# What reads files, once more with PyYAML's own loader.
READING = (
    "tests/preflight/command_line",
    "tests/preflight/reading",
    "tests/preflight/hostile/test_size_and_depth.py",
    "tests/preflight/hostile/test_texts.py",
)
MOST_MIB = 25
BROUGHT_BY_VENV = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence")
BESIDE_TESTS = ("pyproject.toml", "cdk.json")


def main() -> None:
    """Build, install, and run the tests twice."""
    parser = argparse.ArgumentParser(description="Test the wheel without extras.")
    parser.add_argument("--wheel", type=Path, help="a wheel that is built already")
    given = parser.parse_args().wheel
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        built = given.resolve() if given else wheel(place / "dist")
        os.environ["GPU_CONSTRUCTS_ZIPAPP"] = str(place / "dist" / "gpu-constructs.pyz")
        build_zipapp.build(str(built), Path(os.environ["GPU_CONSTRUCTS_ZIPAPP"]))
        python, project = install(built, place / "venv"), copy_of_tests(place / "project")
        run_tests(python, project, "tests.without_cdk", *TESTED, *(f"--ignore={each}" for each in ELSEWHERE))
        run_tests(python, project, "tests.without_libyaml", *READING, "tests/test_zipapp.py")


def wheel(folder: Path) -> Path:
    """Build the wheel."""
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True)
    [built] = folder.glob("*.whl")
    return built


def install(wheel: Path, folder: Path) -> Path:
    """Install the wheel and what its tests need, and return the Python that has them."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
    constraints = ("-c", str(ROOT / "constraints.txt"))
    subprocess.run([*pip, *constraints, str(wheel)], check=True)
    refuse_unless_light(next(folder.glob("lib/python*/site-packages")))
    subprocess.run([*pip, *constraints, *TOOLS], check=True)
    return python


def refuse_unless_light(site_packages: Path) -> None:
    """Refuse an install that is larger than promised, in MiB beside pip and setuptools."""
    files = [path for path in site_packages.rglob("*") if path.is_file()]
    ours = [path for path in files if not path.relative_to(site_packages).parts[0].startswith(BROUGHT_BY_VENV)]
    size = sum(path.stat().st_size for path in ours) / 1024**2
    if size > MOST_MIB:
        raise SystemExit(f"base install: must be at most {MOST_MIB} MiB, got {size:.1f}; what has come in?")
    print(f"The base install is {size:.1f} MiB.", flush=True)


def copy_of_tests(project: Path) -> Path:
    """Copy the tests to a place where only the installed package can be imported."""
    shutil.copytree(ROOT / "tests", project / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    for name in BESIDE_TESTS:
        shutil.copy(ROOT / name, project / name)
    return project


def run_tests(python: Path, project: Path, plugin: str, *arguments: str) -> None:
    """Run tests there."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [str(python), "-m", "pytest", "-q", "-n", "auto", "-p", "no:cacheprovider", "-p", plugin, *arguments]
    subprocess.run(command, cwd=project, env=environment, check=True)


if __name__ == "__main__":
    main()
