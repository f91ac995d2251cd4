"""Each rule finds what its failing fixtures hold, and nothing in its passing ones."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from gpu_preflight.judging.check import Report, check
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.rule import Finding
from gpu_preflight.rules import rules
from tests.preflight.rule_cases import FIXTURES

# What a fixture is called: what becomes of its case, then the case.
NAME = re.compile(r"(fails|passes)(_[a-z0-9]+)+")
LONGEST_NAME = 50
# The rule that the extra asks, and why it is skipped without it.
OF_CEL, NO_CEL = "GPU305", "no library for CEL: install the extra cel"


def fixtures(pattern: str) -> list[Path]:
    return sorted(FIXTURES.glob(f"*/{pattern}"))


def judged(fixture: Path) -> Report:
    return check(read_input([str(fixture)], stack="app"))


@cache
def findings(fixture: Path) -> tuple[Finding, ...]:
    """What the rule of a fixture finds in it; the messages are read from the same check as the other tests."""
    return tuple(each for each in judged(fixture).findings if each.rule.id == fixture.parent.name)


def name_of(fixture: Path) -> str:
    return f"{fixture.parent.name}/{fixture.stem}"


@pytest.mark.parametrize("fixture", fixtures("fails_*"), ids=name_of)
def test_rule_finds_its_failing_fixture(fixture: Path) -> None:
    if fixture.parent.name == OF_CEL:
        pytest.importorskip("cel", reason=NO_CEL)
    assert findings(fixture), f"{name_of(fixture)}: its rule finds nothing"


@pytest.mark.parametrize("fixture", fixtures("passes_*"), ids=name_of)
def test_rule_leaves_its_passing_fixture_alone(fixture: Path) -> None:
    assert [each.problem.message for each in findings(fixture)] == []


@pytest.mark.parametrize("rule", sorted(rules()))
def test_rule_has_both_fixtures(rule: str) -> None:
    for kind in ("fails", "passes"):
        assert list((FIXTURES / rule).glob(f"{kind}_*.yaml")), f"write tests/preflight/rules/{rule}/{kind}_<case>.yaml"


def test_no_fixture_without_rule() -> None:
    assert {each.name for each in FIXTURES.iterdir()} == set(rules())


@pytest.mark.parametrize("rule", sorted(rules()))
def test_fixtures_are_named_for_their_case(rule: str) -> None:
    for fixture in (FIXTURES / rule).iterdir():
        unnumbered = re.sub(r"_\d+$", "", fixture.stem)

        assert fixture.suffix == ".yaml"
        assert NAME.fullmatch(fixture.stem), f"{fixture.stem}: must be fails_<case> or passes_<case>, in small letters"
        assert len(fixture.stem) <= LONGEST_NAME
        assert re.search("[a-z]", unnumbered.partition("_")[2]), f"{fixture.stem}: a number is no case"
        assert unnumbered == fixture.stem or not fixture.with_stem(unnumbered).exists(), f"{fixture.stem}: which case?"


@pytest.mark.parametrize("rule", sorted(rules()))
def test_a_fixture_says_its_case_in_its_first_line(rule: str) -> None:
    said = [each.read_text().partition("\n")[0] for each in (FIXTURES / rule).iterdir()]

    assert len(set(said)) == len(said), "two fixtures say the same"
    assert [each for each in said if not re.fullmatch(r"# [A-Z0-9a-z].*\.", each)] == []


@pytest.mark.parametrize("rule", rules().values(), ids=lambda each: each.id)
def test_rule_says_all_that_a_reader_needs(rule: object) -> None:
    for part in ("title", "why", "fix", "source"):
        text = getattr(rule, part)
        assert text
        assert text == text.strip()
        assert len(text) < 400


def test_messages(snapshot_text: SnapshotAssertion) -> None:
    pytest.importorskip("cel", reason=NO_CEL)
    """What each failing fixture is told, for a reviewer to read."""
    lines = [
        f"{name_of(fixture)}: {each.rule.severity}{' (may be)' if each.problem.unknown else ''}: {each.problem.message}"
        for fixture in fixtures("fails_*")
        for each in findings(fixture)
    ]

    assert "\n".join(lines) + "\n" == snapshot_text
