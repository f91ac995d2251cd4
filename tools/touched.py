"""Run the tests that belong to the changes in the working tree: ``make touched``, or ``make touched BASE=main``.

These are the tests that import a changed module or one of its public names, changed tests, and the cases of changed
rules and fixtures. Indirect imports aren't followed, because nearly every test imports nearly every module indirectly.
Run ``make test`` before you commit.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RULES = "tests/preflight/test_rules.py"
# Their content decides what these tests find.
LISTS_OF_RULES = {
    "tests/preflight/rule_ids.yaml": "tests/preflight/test_rule_ids.py",
    "tests/preflight/known_causes.yaml": "tests/preflight/test_rule_coverage.py",
}
_FIXTURE = re.compile(r"tests/preflight/rules/(GPU\d+)/")
_RULE = re.compile(r'@rule\(\s*"(GPU\d+)"')
_EXPORT = re.compile(r"^from (\S+) import (\w+) as \2$", re.MULTILINE)
# The exit codes of pytest after which all is well: all passed, and no test was selected.
_PASSED = (0, 5)


def changed_files(base: str) -> list[str]:
    """Return the paths that differ from where the branch left ``base``, and untracked files."""
    listed = (["diff", "--merge-base", "--name-only", base], ["ls-files", "--others", "--exclude-standard"])
    outputs = (subprocess.run(["git", *each], cwd=ROOT, capture_output=True, text=True, check=True) for each in listed)
    return sorted({line for output in outputs for line in output.stdout.splitlines()})


def module_name(path: str) -> str:
    """Return the module of a Python file."""
    return ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__")


def is_test(path: str) -> bool:
    """Return whether ``make test`` collects a file."""
    name = Path(path).name
    here = path.startswith("tests/") and not path.startswith("tests/e2e/")
    return here and name.startswith("test_") and name.endswith(".py") and (ROOT / path).exists()


@cache
def imports_of_tests() -> dict[str, frozenset[str]]:
    """Return the modules and names that each test imports, by its path."""
    tests = (str(each.relative_to(ROOT)) for each in (ROOT / "tests").rglob("test_*.py"))
    return {test: frozenset(imported_names(ROOT / test)) for test in tests if is_test(test)}


def imported_names(file: Path) -> set[str]:
    """Return the modules that a Python file imports, and the names that it imports from them."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def public_names(module: str) -> set[str]:
    """Return a module and the names under which folders export its objects."""
    exports = [
        (".".join(stub.parent.relative_to(ROOT).parts), source, name)
        for stub in (ROOT / "gpu_constructs").rglob("__init__.pyi")
        for source, name in _EXPORT.findall(stub.read_text())
    ]
    found = {module}
    for _ in range(2):  # The folder exports it, then the package exports it from the folder.
        found |= {f"{folder}.{name}" for folder, source, name in exports if {source, f"{source}.{name}"} & found}
    return found


def selected_tests(changed: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the files of tests, and the ids of rules, that belong to changed files."""
    tests, rules = set(), set()
    for path in changed:
        fixture = _FIXTURE.match(path)
        if fixture and (ROOT / fixture[0]).exists():
            rules.add(fixture[1])
        if path in LISTS_OF_RULES:
            tests.add(LISTS_OF_RULES[path])
        if not path.endswith(".py"):
            continue
        if is_test(path):
            tests.add(path)
        if path.startswith("gpu_preflight/rules/") and (ROOT / path).exists():
            rules.update(_RULE.findall((ROOT / path).read_text()))
        names = public_names(module_name(path))
        tests.update(test for test, imported in imports_of_tests().items() if imported & names)
    return sorted(tests), sorted(rules)


def main(base: str) -> int:
    """Run the tests, and return the exit code of pytest."""
    changed = changed_files(base)
    tests, rules = selected_tests(changed)
    print(f"{len(changed)} changed files, {len(tests)} files of tests, cases of {len(rules)} rules", flush=True)
    commands = [
        [*tests, "-n", "auto"] if tests else [],
        [RULES, "-k", " or ".join(rules), "-n", "auto"] if rules else [],
    ]
    codes = [subprocess.run(["pytest", "-q", *each], cwd=ROOT, check=False).returncode for each in commands if each]
    if not codes:
        print("No test imports what is changed. Run: make test")
    return next((code for code in codes if code not in _PASSED), 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
