"""The result of an input, as properties compare it."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu_preflight.judging.check import check
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.documents import UnusableInput
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.rule import Finding
from tests.preflight.properties.samples import Sample

_ORDER = (Answer.NO, Answer.UNKNOWN, Answer.YES)


@dataclass(frozen=True, slots=True)
class Told:
    """The result for one workload: its best answer in any cluster, and the conditions of that answer."""

    answer: Answer
    conditions: frozenset[str] = frozenset()

    def is_better(self, other: Told, blank: str) -> bool:
        """Whether it is a yes that doesn't depend on a value that only deployment sets, and another is no yes."""
        covered = any(blank in each for each in self.conditions)
        return self.answer is Answer.YES and other.answer is not Answer.YES and not covered


@dataclass(frozen=True, slots=True)
class Results:
    """The results of `explain` and `check`.

    Attributes:
        workloads: The result of each workload, by name.
        certain: Rule and subject of each certain error that stops pods, and how many there are.
        possible: Rule and subject of each error, certain or not.
        unjudged: Rule and expression of each value that the report names as set by deployment.
    """

    workloads: Mapping[str, Told]
    certain: Counter[tuple[str, str]]
    possible: Counter[tuple[str, str]]
    unjudged: frozenset[tuple[str, str]]

    @property
    def has_no(self) -> bool:
        """Whether anything in it may become better."""
        return bool(self.certain) or any(each.answer is not Answer.YES for each in self.workloads.values())


def results(sample: Sample) -> Results | None:
    """Return the results of a sample, ``None`` where the checker rejects the input."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            report = check(read_input(sample.write(Path(folder)), stack="app"))
        except UnusableInput:
            return None
    told: dict[str, Told] = {}
    for case in report.cases:
        for each in report.explanation(case).verdicts:
            found = Told(each.answer, frozenset((*each.rests_on, *each.runs_if)))
            told[each.workload.name] = max(told.get(each.workload.name, found), found, key=_rank)
    errors = [each for each in report.findings if each.rule.severity == "error"]
    stopping = [each for each in errors if each.rule.stops and not each.problem.unknown]
    unjudged = frozenset((rule, each.value) for each in report.open_values for rule in each.rules)
    return Results(told, Counter(map(_key, stopping)), Counter(map(_key, errors)), unjudged)


def _rank(told: Told) -> int:
    return _ORDER.index(told.answer)


def _key(finding: Finding) -> tuple[str, str]:
    return finding.rule.id, finding.problem.origin.path
