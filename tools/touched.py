"""Run the tests of what the working tree changes: ``make touched``, or ``make touched BASE=main`` for a branch.

These are the tests that import a changed module directly, changed tests, and the cases of changed rules and fixtures.
What reaches a test through other modules isn't followed, because nearly every module reaches every test that way:
``make test`` remains the test of a change.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("gpu_facts", "gpu_preflight", "gpu_constructs", "gpu_rehearsal", "stacks", "tests")
RULES = "tests/preflight/test_rules.py"
_FIXTURE = re.compile(r"tests/preflight/rules/(GPU\d+)/")
_RULE = re.compile(r'@rule\(\s*"(GPU\d+)"')


def changed_files(base: str) -> list[str]:
    """Return the paths that differ from a commit, and those that git doesn't know yet."""
    listed = (["diff", "--name-only", base], ["ls-files", "--others", "--exclude-standard"])
    outputs = (subprocess.run(["git", *each], cwd=ROOT, capture_output=True, text=True, check=True) for each in listed)
    return sorted({line for output in outputs for line in output.stdout.splitlines()})


def module_name(path: str) -> str:
    """Return the module of a Python file."""
    return ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__")


def is_test(path: str) -> bool:
    """Return whether pytest collects a file."""
    return path.startswith("tests/") and Path(path).name.startswith("test_") and path.endswith(".py")


def selected_tests(changed: Iterable[str], importers: grimp.ImportGraph) -> tuple[list[str], list[str]]:
    """Return the files of tests, and the ids of rules, that changed files touch."""
    tests, rules = set(), set()
    for path in changed:
        if fixture := _FIXTURE.match(path):
            rules.add(fixture[1])
        if not path.endswith(".py"):
            continue
        if is_test(path):
            tests.add(path)
        if path.startswith("gpu_preflight/rules/") and (ROOT / path).exists():
            rules.update(_RULE.findall((ROOT / path).read_text()))
        if module_name(path) in importers.modules:
            found = importers.find_modules_that_directly_import(module_name(path))
            tests.update(f"{each.replace('.', '/')}.py" for each in found if each.startswith("tests."))
    return sorted(filter(is_test, tests)), sorted(rules)


def main(base: str) -> int:
    """Run the tests, and return the exit code of pytest."""
    changed = changed_files(base)
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    tests, rules = selected_tests(changed, graph)
    print(f"{len(changed)} changed files, {len(tests)} files of tests, cases of {len(rules)} rules", flush=True)
    commands = [
        [*tests, "-n", "auto"] if tests else [],
        [RULES, "-k", " or ".join(rules), "-n", "auto"] if rules else [],
    ]
    codes = [subprocess.run(["pytest", "-q", *each], cwd=ROOT, check=False).returncode for each in commands if each]
    if not codes:
        print("No test imports what is changed. Run: make test")
    return max(codes, default=0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
