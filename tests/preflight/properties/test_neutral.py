"""Neutral changes change nothing: neither the result of a workload nor which rules find something.

`make test` makes one change to some fixtures of the rules; the failure names the seed and GPU_CONSTRUCTS_SEED sets
another. Every change to every fixture, two minutes:

    GPU_CONSTRUCTS_LONG=1 pytest tests/preflight/properties/test_neutral.py
"""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from gpu_preflight.judging.check import check
from gpu_preflight.reading.documents import UnusableInput
from gpu_preflight.reading.inputs import read_input
from tests.long import LONG
from tests.preflight.properties import neutral
from tests.preflight.properties.neutral import CHANGES, Change, Files, separate
from tests.preflight.properties.samples import Sample, fixtures

SEED = int(os.environ.get("GPU_CONSTRUCTS_SEED", "27"))
_SAMPLES = 110
_FIXTURES = fixtures()

# Samples, by the beginning of their names, for which a change isn't neutral.
EXCEPTIONS: Mapping[Change, Mapping[str, str]] = {
    neutral.reversed_sets: {"GPU458/": "the first toleration that matches a taint decides how long the pod stays"},
    neutral.renamed: {"GPU320/fails_slip_for_a_claim": "whether a name is a typo depends on the other names"},
    neutral.one_yaml_file: {
        "GPU443/passes_truth_in_quotes": "the keys of JSON are texts, numbers in YAML",
        "GPU452/": "two objects of one name in one file overwrite each other, in two files they are alternatives",
    },
    neutral.yaml_files: {"GPU443/passes_truth_in_quotes": "the keys of JSON are texts, numbers in YAML"},
    neutral.one_list: {"GPU452/": "as for one file"},
}


def _results(files: Files, change: Change | None) -> tuple[object, object] | None:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text)
        try:
            report = check(read_input([str(Path(folder) / name) for name in files], stack="app"))
        except UnusableInput:
            return None
    verdicts = [each for case in report.cases for each in report.explanation(case).verdicts]
    # The first of the pods that compete run, and `kubectl apply` creates them in the order of the documents.
    # A new name is longer.
    unnamed = change is neutral.reversed_documents
    answers = Counter((0 if unnamed else each.workload.name.replace("-x", ""), each.answer) for each in verdicts)
    rules = frozenset((each.rule.id, each.problem.unknown) for each in report.findings)
    # A pool of one value may be broken where one with a choice isn't.
    return answers, frozenset() if change is neutral.split_pools else rules


def _differences(read: Callable[[], Sample], changes: Iterable[Change]) -> list[str]:
    sample = read()
    found = []
    for change in changes:
        files = change(sample)
        if files is None or any(sample.name.startswith(each) for each in EXCEPTIONS.get(change, ())):
            continue
        if (before := _results(separate(sample.documents), change)) != (after := _results(files, change)):
            found.append(f"{change.__name__} of {sample.name}: {before} became {after}")
    return found


def test_a_neutral_change_changes_nothing() -> None:
    drawn = random.Random(SEED)

    found = [
        each
        for read in drawn.sample([*_FIXTURES.values()], _SAMPLES)
        for each in _differences(read, drawn.sample(CHANGES, 1))
    ]

    assert not found, f"seed {SEED}"


@pytest.mark.skipif(not LONG, reason="every change of every fixture takes minutes: GPU_CONSTRUCTS_LONG=1")
@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
def test_a_neutral_change_changes_nothing_anywhere(change: Change) -> None:
    assert not [each for read in _FIXTURES.values() for each in _differences(read, [change])]


@pytest.mark.parametrize(("change", "names"), EXCEPTIONS.items(), ids=lambda each: getattr(each, "__name__", ""))
def test_every_exception_is_one(change: Change, names: Mapping[str, str]) -> None:
    for name in names:
        samples = [read() for each, read in _FIXTURES.items() if each.startswith(name)]
        differing = [
            each
            for each in samples
            if (files := change(each)) and _results(files, change) != _results(separate(each.documents), change)
        ]
        assert differing, name
