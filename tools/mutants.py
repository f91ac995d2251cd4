"""Test the tests of the deciding modules: make one small change at a time, and check that a test fails.

`python tools/mutants.py` continues the last run. `python tools/mutants.py packing` uses the modules with that word in
their path. pyproject.toml lists the modules and the tests of each under ``tool.mutants``.

Each module has a copy of the package in .cache/mutants, in which mutmut changes functions, methods and properties.
Tables and limits need tests of both sides instead. The copy has the tests of that module and no conftest.py, so that no
test can request a stack. Results of a module are discarded if the module or its tests change. If its imports change,
pass --fresh.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli
import tomli_w
import yaml

ROOT = Path(__file__).parents[1]
PACKAGES = ("gpu_constructs", "gpu_facts", "gpu_preflight")
COPIES = ROOT / ".cache" / "mutants"
SURVIVORS = ROOT / "tests" / "mutants" / "survivors.yaml"
# A timeout, so that a mutant that never ends counts as killed.
KILLED = ("killed", "timeout")
UNKNOWN = "not checked"
# Shrinking of examples is off: it only helps readers. Tests with many examples run last: most mutants die before.
CONFTEST = '''"""How tests run against mutants."""

from hypothesis import Phase, settings

settings.register_profile(
    "mutants",
    phases=(Phase.explicit, Phase.generate),
    report_multiple_bugs=False,
    deadline=None,
    derandomize=True,
    database=None,
)
settings.load_profile("mutants")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: hasattr(item.function, "hypothesis"))
'''


@dataclass(frozen=True)
class Subject:
    """A module to change.

    Attributes:
        module: Its path.
        tests: Paths of the tests that must fail.
    """

    module: str
    tests: tuple[str, ...]

    @property
    def copy(self) -> Path:
        """The folder of its copy."""
        return COPIES / self.module.removesuffix(".py").replace("/", ".")


@dataclass(frozen=True)
class Outcome:
    """The results of the mutants of a module.

    Attributes:
        module: Its path.
        total: Number of mutants.
        alive: Change and reason of each surviving mutant. The reason is empty if none is written down.
        outdated: Written reasons whose mutant doesn't exist or is killed.
    """

    module: str
    total: int
    alive: tuple[tuple[str, str], ...]
    outdated: tuple[str, ...] = ()

    @property
    def killed(self) -> int:
        """Number of killed mutants."""
        return self.total - len(self.alive)

    def row(self) -> str:
        """Return its line in the table."""
        share = 100 * self.killed / max(self.total, 1)
        explained = sum(1 for _, why in self.alive if why)
        return f"{self.module:56} {self.killed:6} / {self.total:4} {share:6.1f} % {len(self.alive):6} {explained:10}"


def main() -> None:
    """Run untested mutants, print the survivors, and fail below the share in pyproject.toml."""
    arguments = parse()
    os.nice(10)
    settings = tomli.loads((ROOT / "pyproject.toml").read_text())["tool"]
    chosen = [each for each in subjects(settings["mutants"]) if any(word in each.module for word in arguments.modules)]
    known = yaml.safe_load(SURVIVORS.read_text()) or {}
    print(f"{'module':56} {'killed':>13} {'share':>8} {'alive':>6} {'explained':>10}")
    outcomes = [judged(each, settings, known.get(each.module, ()), arguments) for each in chosen]
    everything = tuple(each for outcome in outcomes for each in outcome.alive)
    print(Outcome("all", sum(each.total for each in outcomes), everything).row())
    for outcome in outcomes:
        show(outcome)
    least = settings["mutants"]["least_killed"]
    low = [each.module for each in outcomes if each.killed * 100 < each.total * least]
    if low:
        sys.exit(f"mutants: at least {least} % must be killed in {', '.join(low)}; write tests that kill the others")


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=[""], help="parts of the paths of modules; default: all")
    parser.add_argument("--fresh", action="store_true", help="discard earlier results")
    half = max((os.cpu_count() or 1) // 2, 1)
    parser.add_argument("--workers", type=int, default=half, help="mutants at a time; default: half as many as cores")
    return parser.parse_args()


def subjects(settings: Mapping[str, Any]) -> list[Subject]:
    """Return the modules that pyproject.toml names."""
    return [Subject(module, tuple(tests)) for module, tests in settings["tests"].items()]


def judged(
    subject: Subject, settings: Mapping[str, Any], known: Iterable[Mapping[str, str]], arguments: argparse.Namespace
) -> Outcome:
    """Return the results of the mutants of a module. Earlier results are reused."""
    copy(subject, settings, fresh=arguments.fresh)
    results = states(subject.copy)
    if not results or UNKNOWN in results.values():
        mutmut(subject.copy, "run", "--max-children", str(arguments.workers))
        results = states(subject.copy)
    changes = [change(subject.copy, name) for name, state in results.items() if state not in KILLED]
    reasons = {each["change"].strip(): each["why"].strip() for each in known}
    alive = tuple((each, reasons.get(each, "")) for each in changes)
    outcome = Outcome(subject.module, len(results), alive, tuple(sorted(reasons.keys() - set(changes))))
    print(outcome.row(), flush=True)
    return outcome


def copy(subject: Subject, settings: Mapping[str, Any], *, fresh: bool) -> None:
    """Create the copy of a module, unless it exists for the same module and tests."""
    files = {path: (ROOT / path).read_text() for path in (subject.module, *with_helpers(subject.tests))}
    files[subject.module] = with_plain_properties(files[subject.module])
    files["conftest.py"] = CONFTEST
    mark = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()
    marker = subject.copy / "made_of"
    if fresh or not marker.exists() or marker.read_text() != mark:
        shutil.rmtree(subject.copy, ignore_errors=True)
        ignored = shutil.ignore_patterns("__pycache__")
        for package in PACKAGES:
            shutil.copytree(ROOT / package, subject.copy / package, ignore=ignored)
        for path, text in files.items():
            (subject.copy / path).parent.mkdir(parents=True, exist_ok=True)
            (subject.copy / path).write_text(text)
        marker.write_text(mark)
    (subject.copy / "pyproject.toml").write_text(tomli_w.dumps({"tool": configuration(subject, settings)}))


def with_helpers(tests: Iterable[str]) -> list[str]:
    """Return the paths of tests and of the modules that they import from their own package."""
    found = list(tests)
    for path in found:  # The list grows meanwhile.
        folders = [folder / "__init__.py" for folder in Path(path).parents]
        for each in (*folders, *imported((ROOT / path).read_text())):
            if str(each) not in found and (ROOT / each).exists() and str(each) != "__init__.py":
                found.append(str(each))
    return found


def imported(source: str) -> Iterator[Path]:
    """Yield the possible paths of the test modules that a module imports."""
    for each in ast.walk(ast.parse(source)):
        if isinstance(each, ast.ImportFrom) and (each.module or "").partition(".")[0] == "tests":
            for name in (each.module, *(f"{each.module}.{alias.name}" for alias in each.names)):
                yield Path(f"{str(name).replace('.', '/')}.py")


def configuration(subject: Subject, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of mutmut and pytest in a copy."""
    given = {
        "source_paths": list(PACKAGES),
        "only_mutate": [subject.module],
        "pytest_add_cli_args_test_selection": list(subject.tests),
        "also_copy": ["conftest.py"],
    }
    return {"mutmut": {**settings["mutmut"], **given}, "pytest": settings["pytest"]}


def with_plain_properties(source: str) -> str:
    """Return a module with ``name = property(name)`` for each ``@property``: mutmut skips decorated functions."""
    lines = source.splitlines()
    functions = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.FunctionDef)]
    for each in sorted(functions, key=lambda each: -each.lineno):
        if [ast.unparse(decorator) for decorator in each.decorator_list] == ["property"]:
            assert each.end_lineno is not None
            lines.insert(each.end_lineno, f"{' ' * each.col_offset}{each.name} = property({each.name})")
            del lines[each.decorator_list[0].lineno - 1]
    return "\n".join(lines) + "\n"


def mutmut(folder: Path, *arguments: str) -> str:
    """Run mutmut in a copy and return its output."""
    command = [str(Path(sys.executable).with_name("mutmut")), *arguments]
    done = subprocess.run(command, cwd=folder, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(f"mutants: mutmut {' '.join(arguments)} failed in {folder.name}\n{done.stdout[-4000:]}")
    return done.stdout


def states(folder: Path) -> dict[str, str]:
    """Return the result of each mutant, by name."""
    lines = [line.strip().partition(": ") for line in mutmut(folder, "results", "--all", "true").splitlines()]
    return {name: state for name, colon, state in lines if colon}


def function_name(mutant: str) -> str:
    """Return the function or method of a mutant."""
    name = mutant.rpartition(".")[2].rpartition("__mutmut_")[0]
    return name.rpartition("ǁ")[2] if "ǁ" in name else name.removeprefix("x_")


def change(folder: Path, mutant: str) -> str:
    """Return the change of a mutant, as removed and added lines below the name of the function."""
    lines = [line for line in mutmut(folder, "show", mutant).splitlines() if line[:1] in ("+", "-")]
    changed = [f"{line[0]} {line[1:].strip()}" for line in lines if line[:3] not in ("+++", "---")]
    return "\n".join((function_name(mutant), *changed))


def show(outcome: Outcome) -> None:
    """Print the survivors of a module, first the ones without a reason."""
    for text, why in sorted(outcome.alive, key=lambda each: bool(each[1])):
        print(f"\n{outcome.module}: {text}\n  {why or 'no reason is written down'}")
    for text in outcome.outdated:
        print(f"\n{outcome.module}: {text}\n  has a reason to live in {SURVIVORS.name} and does not")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("mutants: stopped; the next run continues from here")
