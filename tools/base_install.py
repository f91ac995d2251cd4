"""Test an install of the wheel without extras: the command line and preflight, without the CDK.

The wheel is built, installed in a new environment, and tested from a copy of the tests without the source. A second run
has no libyaml, and has the library in one file.
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
# Packages of requirements-dev.txt that these tests import.
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "syrupy", "jsonschema", "tomli")
TESTED = ("tests/preflight/command_line", "tests/preflight")
# Tests of the source.
ELSEWHERE = (
    "tests/preflight/test_rule.py",
    "tests/preflight/test_rule_coverage.py",
    "tests/preflight/schema",
    # Generated inputs and slow patterns, whose results don't depend on the CDK.
    "tests/preflight/hostile",
    "tests/preflight/scheduling/test_properties.py",
    "tests/preflight/properties",
    # More answers about fixtures whose rules all run in test_rules, and about dumps that test_proof diagnoses.
    "tests/preflight/judging/test_stops.py",
    "tests/preflight/doctor/test_cases.py",
    "tests/preflight/doctor/test_reference.py",
)
# Tests of the files of fixtures.
OF_FIXTURES = (
    "tests/preflight/test_rules.py::test_rule_has_both_fixtures",
    "tests/preflight/test_rules.py::test_fixtures_are_named_for_their_case",
    "tests/preflight/test_rules.py::test_a_fixture_says_its_case_in_its_first_line",
)
# Tests of files, run again with PyYAML's Python loader.
READING = (
    "tests/preflight/command_line",
    "tests/preflight/reading",
    "tests/preflight/hostile/test_size_and_depth.py",
    "tests/preflight/hostile/test_texts.py",
)
# Limits of other programs, and answers to a client of MCP: the first run has them.
NOT_READING = ("tests/preflight/reading/test_program_limits.py", "tests/preflight/command_line/test_mcp.py")
MOST_MIB = 25
BROUGHT_BY_VENV = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence")
BESIDE_TESTS = ("pyproject.toml", "cdk.json")


def main() -> None:
    """Build, install, and run the tests twice."""
    parser = argparse.ArgumentParser(description="Test the wheel without extras.")
    parser.add_argument("--wheel", type=Path, help="an existing wheel")
    given = parser.parse_args().wheel
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        built = given.resolve() if given else wheel(place / "dist")
        os.environ["GPU_CONSTRUCTS_ZIPAPP"] = str(place / "dist" / "gpu-constructs.pyz")
        build_zipapp.build(str(built), Path(os.environ["GPU_CONSTRUCTS_ZIPAPP"]))
        python, project = install(built, place / "venv"), copy_of_tests(place / "project")
        left_out = (*(f"--ignore={each}" for each in ELSEWHERE), *(f"--deselect={each}" for each in OF_FIXTURES))
        run_tests(python, project, "tests.without_cdk", *TESTED, *left_out)
        ignored = (f"--ignore={each}" for each in NOT_READING)
        run_tests(python, project, "tests.without_libyaml", *READING, "tests/test_zipapp.py", *ignored)


def wheel(folder: Path) -> Path:
    """Build the wheel."""
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True)
    [built] = folder.glob("*.whl")
    return built


def install(wheel: Path, folder: Path) -> Path:
    """Install the wheel and the packages of its tests, and return the Python of the environment."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
    constraints = ("-c", str(ROOT / "constraints.txt"))
    subprocess.run([*pip, *constraints, str(wheel)], check=True)
    refuse_unless_light(next(folder.glob("lib/python*/site-packages")))
    subprocess.run([*pip, *constraints, *TOOLS], check=True)
    return python


def refuse_unless_light(site_packages: Path) -> None:
    """Fail if the install is larger than promised, in MiB without pip and setuptools."""
    files = [path for path in site_packages.rglob("*") if path.is_file()]
    ours = [path for path in files if not path.relative_to(site_packages).parts[0].startswith(BROUGHT_BY_VENV)]
    size = sum(path.stat().st_size for path in ours) / 1024**2
    if size > MOST_MIB:
        raise SystemExit(f"base install: must be at most {MOST_MIB} MiB, got {size:.1f}; check for new dependencies")
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
