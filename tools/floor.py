"""Test the constructs with the lowest versions of the CDK that pyproject.toml allows, in a separate environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterable, Mapping
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PLACE = ROOT / ".cache" / "floor"
# It requires newer constructs than our lowest version and works with the lowest. Its other requirements are ours too.
WITHOUT_DEPENDENCIES = "cdk-nag"
# Tests that load no CDK, or don't depend on its version.
ELSEWHERE = (
    "tests/preflight/command_line",
    "tests/e2e",
    "tests/facts",
    "tests/preflight",
    "tests/tools",
    "tests/test_documents.py",
    "tests/test_wheel.py",
)
# cdk-nag checks only the cluster of aws_eks, which aws_eks_v2 uses before aws-cdk-lib 2.268, and finds more there.
PINNED_ONLY = "tests/stacks/test_gpu_cluster_stack.py::test_cdk_nag_finds_nothing_without_a_reason"


def main() -> None:
    """Install the lowest versions with the tools of requirements*.txt, and run the tests."""
    lowest = lowest_versions(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    python = install(lowest)
    print("Testing with", ", ".join(f"{name} {version}" for name, version in lowest.items()), flush=True)
    left_out = (*(f"--ignore={each}" for each in ELSEWHERE), f"--deselect={PINNED_ONLY}")
    command = [python, "-m", "pytest", "-n", "auto", "-p", "no:cacheprovider", "--other-cdk", *left_out, *sys.argv[1:]]
    environment = os.environ | {"PATH": f"{PLACE / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    raise SystemExit(subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode)


def install(lowest: Mapping[str, str]) -> str:
    """Create the environment, and return its Python."""
    venv.create(PLACE, with_pip=True)
    python = str(PLACE / "bin" / "python")
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
    requirements = replaced([*_rows("requirements.txt"), *_rows("requirements-dev.txt")], lowest)
    apart = [row for row in requirements if _name(row) == WITHOUT_DEPENDENCIES]
    constraints = PLACE / "constraints.txt"
    constraints.write_text("\n".join(others(_rows("constraints.txt"), lowest)))
    together = [row for row in requirements if row not in apart]
    subprocess.run([*pip, "-c", str(constraints), *together], check=True)
    subprocess.run([*pip, "--no-deps", *apart], check=True)
    return python


def lowest_versions(extras: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return the lowest version that each distribution of the extras may have."""
    rows = [re.match(r"([\w.-]+)>=([\d.]+)", each) for extra in extras.values() for each in extra]
    return {_name(row[1]): row[2] for row in rows if row}


def replaced(rows: Iterable[str], lowest: Mapping[str, str]) -> list[str]:
    """Return requirements with the lowest versions in place of the pins, and without other files and the project."""
    kept = [row for row in rows if row and not row.startswith(("#", "-"))]
    return [f"{name}=={lowest[name]}" if (name := _name(row)) in lowest else row for row in kept]


def others(rows: Iterable[str], lowest: Mapping[str, str]) -> list[str]:
    """Return the constraints of packages that neither the lowest versions nor the CDK pin."""
    return [row for row in rows if _name(row) not in lowest and not row.startswith("aws-cdk-")]


def _rows(file: str) -> list[str]:
    return (ROOT / file).read_text().splitlines()


def _name(row: str) -> str:
    """Return a requirement's distribution as the index spells it."""
    return re.sub(r"[._-]+", "-", re.split(r"[=<>;\[ ]", row)[0]).lower()


if __name__ == "__main__":
    main()
