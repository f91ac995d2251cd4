"""Inputs on which preflight was wrong: missed faults, false findings, fixes in the wrong place."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from gpu_preflight.command_line.cli import cli
from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input

HERE = Path(__file__).parent
INPUTS = sorted((HERE / "inputs").glob("*.yaml"))


@cache
def expected() -> dict[str, dict[str, Any]]:
    loaded: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "expected.yaml").read_text())
    return loaded


@pytest.mark.parametrize("name", [each.stem for each in INPUTS])
def test_it_is_right_of(name: str) -> None:
    file = str(HERE / "inputs" / f"{name}.yaml")
    wanted = expected()[name]
    report = check(read_input([file]))
    told = [each for each in report.findings if each.rule.severity != "note" or each.problem.unknown]
    certain = [f"{each.problem.message}; {each.fix}" for each in told if each.counts]
    verdicts = {
        each.workload.title: each.answer.value for case in report.cases for each in report.explanation(case).verdicts
    }

    texts = [f"{each.problem.message}; {each.fix}" for each in told]
    assert [each for each in wanted.get("found", ()) if not any(re.search(each, text) for text in texts)] == []
    assert [text for each in wanted.get("silent", ()) for text in certain if re.search(each, text)] == []
    assert {title: verdicts.get(title) for title in wanted.get("verdicts", {})} == wanted.get("verdicts", {})
    if "together" in wanted:
        assert ("Every workload runs" in explained(file)) is wanted["together"]


def explained(file: str) -> str:
    """Return what the command prints."""
    return CliRunner().invoke(cli, ["explain", file]).output


def test_each_input_says_its_case_and_what_is_expected() -> None:
    said = [each.read_text().partition("\n")[0] for each in INPUTS]

    assert [each for each in said if not re.fullmatch(r"# [A-Z].*\.", each)] == []
    assert len(set(said)) == len(said)
    assert sorted(expected()) == [each.stem for each in INPUTS]


def test_every_numbered_miss_has_an_input() -> None:
    numbers = {int(each.stem.split("_")[1]) for each in INPUTS if each.stem.startswith("miss_")}

    assert numbers == set(range(1, 23))
