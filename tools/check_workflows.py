"""Check the files that run in CI, here and in other repositories: syntax, expressions, permissions and schemas.

actionlint is built with Go, once, into the user's cache. zizmor and check-jsonschema come with requirements-dist.txt.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.build_e2e_tools import CACHE, Module, build, is_current

ROOT = Path(__file__).parents[1]
ACTIONLINT = Module(
    folder=ROOT / "tools" / "actionlint",
    packages={"actionlint": "github.com/rhysd/actionlint/cmd/actionlint"},
    versioned="github.com/rhysd/actionlint",
    variables=(),
)
WORKFLOWS = (*sorted((ROOT / ".github" / "workflows").glob("*.yml")), *(ROOT / "examples/github-actions").glob("*.yml"))
# Schemas that check-jsonschema ships, and the files that they describe.
SCHEMAS: dict[str, Sequence[Path]] = {
    "github-workflows": WORKFLOWS,
    "github-actions": [ROOT / "action.yml"],
    "github-issue-forms": [ROOT / ".github/ISSUE_TEMPLATE/bug.yml", ROOT / ".github/ISSUE_TEMPLATE/untrue.yml"],
    "dependabot": [ROOT / ".github" / "dependabot.yml"],
    "gitlab-ci": [ROOT / "examples" / "gitlab" / "gpu-review.yml"],
}


def main() -> None:
    """Run every check, and fail if one fails."""
    failed = [
        command[0] for command in commands(actionlint()) if subprocess.run(command, cwd=ROOT, check=False).returncode
    ]
    if failed:
        sys.exit(f"workflows: {', '.join(failed)} must pass, see above")
    print("workflows: actionlint, zizmor and the schemas pass")


def actionlint() -> Path:
    """Return actionlint, built if it isn't there."""
    folder = CACHE / f"actionlint-{ACTIONLINT.version}"
    if not is_current(ACTIONLINT, folder):
        build(ACTIONLINT, folder)
    return folder / "actionlint"


def commands(actionlint: Path) -> Iterator[list[str]]:
    """Yield the command line of each check."""
    yield [str(actionlint), *map(str, WORKFLOWS)]
    yield [
        "zizmor",
        "--offline",
        "--quiet",
        "--config",
        ".github/zizmor.yml",
        ".github",
        "action.yml",
        *map(str, WORKFLOWS),
    ]
    yield ["pre-commit", "validate-manifest", ".pre-commit-hooks.yaml"]
    for schema, files in SCHEMAS.items():
        yield ["check-jsonschema", "--builtin-schema", f"vendor.{schema}", *map(str, files)]


if __name__ == "__main__":
    main()
