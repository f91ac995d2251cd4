"""The share of the mistakes that preflight finds."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from tempfile import TemporaryDirectory

import yaml

from gpu_preflight.judging.check import check
from gpu_preflight.judging.explain import explain
from gpu_preflight.reading.documents import UnusableInput
from gpu_preflight.reading.inputs import read_input
from tests.mutations import families
from tests.mutations.operator import Operator
from tests.mutations.written import Written
from tests.preflight.rule_cases import FIXTURES

HERE = Path(__file__).parent
CLUSTERS = HERE / "inputs"
# A mistake is made in as many inputs at most, whole clusters first.
INPUTS_EACH = 2
REFUSED = ("refused", "", "")
Answers = Counter[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """An input with a mistake.

    Attributes:
        operator: The mistake.
        input: The file it was made in.
        found: Preflight's findings that it did not have before.
    """

    operator: Operator
    input: Path
    found: tuple[str, ...]


@cache
def operators() -> tuple[Operator, ...]:
    """Return every operator, in the order of families and of their modules."""
    modules = [import_module(each.name) for each in walk_packages(families.__path__, f"{families.__name__}.")]
    return tuple(each for module in modules for each in vars(module).values() if isinstance(each, Operator))


@cache
def inputs() -> list[Path]:
    """Return the inputs that are right: whole clusters, then the fixtures of a cluster that pass their rule."""
    fixtures = [FIXTURES / name for name in yaml.safe_load((HERE / "fixtures.yaml").read_text())]
    return [*sorted(CLUSTERS.glob("*.yaml")), *(each for each in fixtures if each.is_file())]


def written(file: Path) -> Written:
    """Return the documents of an input, newly read each time."""
    return Written(pickle.loads(_parsed(file)))


@cache
def _parsed(file: Path) -> bytes:
    # Five times as fast to copy as the documents themselves.
    return pickle.dumps(Written.of(file.read_text()).documents)


def changed(operator: Operator, file: Path) -> Written | None:
    """Return an input with a mistake in it, ``None`` where there is no place for it."""
    given = written(file)
    return given if operator.change(given) else None


@cache
def places(operator: Operator) -> tuple[tuple[Path, Written], ...]:
    """Return the first inputs that have a place for a mistake, and their documents with it."""
    return tuple(_places(operator))


def _places(operator: Operator) -> Iterator[tuple[Path, Written]]:
    left = INPUTS_EACH
    for file in inputs():
        if left and (given := changed(operator, file)) is not None:
            left -= 1
            yield file, given


def mutants(some: Iterable[Operator]) -> Iterator[Mutant]:
    """Make mistakes, and check the results."""
    with TemporaryDirectory(prefix="gpu-constructs-mutations-") as folder:
        for operator in some:
            for file, given in places(operator):
                new = answers(Path(folder), given) - original(Path(folder), file)
                yield Mutant(operator, file, tuple(sorted(" ".join(each).strip() for each in new)))


_ORIGINALS: dict[Path, Answers] = {}


def original(folder: Path, file: Path) -> Answers:
    """Return the findings about an input before the mistake."""
    if file not in _ORIGINALS:
        _ORIGINALS[file] = answers(folder, written(file))
    return _ORIGINALS[file]


def answers(folder: Path, given: Written) -> Answers:
    """Return every error, warning and may-be, and every workload that does not surely run."""
    file = folder / "input.yaml"
    file.write_text("\n---\n".join(map(json.dumps, given.documents)))
    try:
        report = check(read_input([str(file)], stack="app"))
    except UnusableInput:
        return Counter([REFUSED])
    found = [
        (each.rule.id, str(each.problem.origin), str(each.problem.unknown))
        for each in report.findings
        if each.rule.severity != "note" or each.problem.unknown
    ]
    for case in report.cases:
        for verdict in explain(case, report.findings).verdicts:
            if verdict.answer.value != "yes":
                found.append(("verdict", verdict.workload.title, verdict.answer.value))
    return Counter(found)
