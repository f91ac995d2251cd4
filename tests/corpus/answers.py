"""Preflight's certain statements about an input of the corpus, and a person's opinion of each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpu_preflight.judging.check import Report, check
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.documents import NOT_RENDERED, UnusableInput
from gpu_preflight.reading.inputs import read_input
from tools.corpus import LISTED, Paths

JUDGEMENTS = LISTED.with_name("judgements.yaml")
# Instead of a rule's id: a workload that asks for GPUs and never runs, and an input that is not read.
NEVER_RUNS, UNUSABLE = "no", "unusable"
# Values of charts and templates of them lie among what people apply, and are refused in these words.
_NO_INPUT = ("without 'Resources' or 'kind'", NOT_RENDERED)


@dataclass(frozen=True, slots=True)
class Statement:
    """Something that preflight says for certain of an input.

    Attributes:
        rule: The rule, `NEVER_RUNS` or `UNUSABLE`.
        text: Its message.
    """

    rule: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """The opinion of a person who read the file about a statement.

    Attributes:
        repository: Owner and name.
        input: The file or folder in it, or a pattern of them; of several the first.
        rule: The rule, `NEVER_RUNS` or `UNUSABLE`.
        message: A part of the message; if several statements are alike, the part that they share.
        judgement: Whether the statement is true of the input as it stands.
        why: The reason, with its source where it is not the file itself.
    """

    repository: str
    input: str
    rule: str
    message: str
    judgement: bool
    why: str

    def is_of(self, paths: Paths, said: Statement) -> bool:
        """Whether it is about a statement on an input."""
        return self.rule == said.rule and self.message in said.text and Path(paths[0]).match(self.input)


@cache
def judgements() -> tuple[Judgement, ...]:
    """Return the entries of the list."""
    return tuple(Judgement(**each) for each in yaml.safe_load(JUDGEMENTS.read_text()))


def statements(place: Path, paths: Paths) -> tuple[list[Statement], float]:
    """Return what preflight says for certain of an input, and the seconds of processor time that it took."""
    before = time.process_time()
    try:
        said = sorted(
            set(_said(check(read_input([str(place / each) for each in paths])))),
            key=lambda each: (each.rule, each.text),
        )
    except UnusableInput as error:
        plain = any(each in str(error) for each in _NO_INPUT)
        said = [] if plain else [Statement(UNUSABLE, str(error).replace(f"{place}/", ""))]
    return said, time.process_time() - before


def _said(report: Report) -> Iterator[Statement]:
    yield from (Statement(each.rule.id, each.problem.message) for each in report.findings if each.counts)
    for case in report.cases:
        for verdict in report.explanation(case).verdicts:
            if verdict.answer is Answer.NO:
                reasons = [each.text for each in verdict.reasons if each.answer is Answer.NO]
                nodes = [text for pool in verdict.pools for text in pool.refusing]
                yield Statement(NEVER_RUNS, f"{verdict.workload.title}: {'; '.join(reasons or nodes)}")


def as_yaml(said: list[dict[str, Any]]) -> str:
    """Return statements in the form of the list, ready to add to it."""
    return str(yaml.safe_dump(said, sort_keys=False, width=120, allow_unicode=True))
