"""Preflight's certain statements about real files of other people are true."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.corpus.answers import as_yaml, judgements, statements
from tools.corpus import FOLDER, Repository, repositories

if not os.environ.get(FOLDER):
    pytest.skip(f"no corpus: run 'make corpus', and set {FOLDER} to the folder that it names", allow_module_level=True)

CORPUS = Path(os.environ[FOLDER])
# Processor time; files that people apply together are read and checked far sooner.
MOST_SECONDS = 10


@pytest.mark.parametrize("repository", repositories(), ids=lambda each: each.name)
def test_what_is_certain_is_true(repository: Repository) -> None:
    place, inputs = repository.place(CORPUS), repository.inputs(CORPUS)
    assert inputs, f"{place} holds nothing; run 'make corpus'"
    listed = [each for each in judgements() if each.repository == repository.name]
    met, unjudged, slow = set(), [], []
    for paths in inputs:
        said, seconds = statements(place, paths)
        if seconds > MOST_SECONDS:
            slow.append(f"{', '.join(paths)}: {seconds:.0f} s")
        for each in said:
            found = [one for one in listed if one.is_of(paths, each)]
            met.update(found)
            if not found:
                unjudged.append(
                    {"repository": repository.name, "input": paths[0], "rule": each.rule, "message": each.text}
                )

    assert not unjudged, f"read the file, decide whether it is true, and add to judgements.yaml:\n{as_yaml(unjudged)}"
    assert [each for each in listed if each not in met] == [], "preflight no longer reports it: fix it, or remove it"
    assert slow == []
