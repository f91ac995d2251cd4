"""Each rule finds what its failing fixtures hold, and nothing in its passing ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from gpu_constructs.preflight.judging.check import Report, check
from gpu_constructs.preflight.reading.inputs import read_input
from gpu_constructs.preflight.rules import rules

FIXTURES = Path(__file__).parent / "rules"


def fixtures(pattern: str) -> list[Path]:
    return sorted(FIXTURES.glob(f"GPU*/{pattern}"))


def judged(fixture: Path) -> Report:
    return check(read_input([str(fixture)]))


def name_of(fixture: Path) -> str:
    return f"{fixture.parent.name}-{fixture.name}"


@pytest.mark.parametrize("fixture", fixtures("fails*"), ids=name_of)
def test_rule_finds_its_failing_fixture(fixture: Path) -> None:
    found = [each for each in judged(fixture).findings if each.rule.id == fixture.parent.name]

    assert found, f"{fixture.parent.name} finds nothing in {fixture.name}"


@pytest.mark.parametrize("fixture", fixtures("passes*"), ids=name_of)
def test_rule_leaves_its_passing_fixture_alone(fixture: Path) -> None:
    found = [each.problem.message for each in judged(fixture).findings if each.rule.id == fixture.parent.name]

    assert not found


@pytest.mark.parametrize("rule", sorted(rules()))
def test_rule_has_both_fixtures(rule: str) -> None:
    assert list((FIXTURES / rule).glob("fails*")), f"write tests/preflight/rules/{rule}/fails.yaml"
    assert list((FIXTURES / rule).glob("passes*")), f"write tests/preflight/rules/{rule}/passes.yaml"


def test_no_fixture_without_rule() -> None:
    assert {each.name for each in FIXTURES.iterdir() if each.is_dir()} == set(rules())


@pytest.mark.parametrize("rule", rules().values(), ids=lambda each: each.id)
def test_rule_says_all_that_a_reader_needs(rule: object) -> None:
    for part in ("title", "why", "fix", "source"):
        text = getattr(rule, part)
        assert text
        assert text == text.strip()
        assert len(text) < 400


def test_messages(snapshot_text: SnapshotAssertion) -> None:
    """What each failing fixture is told, for a reviewer to read."""
    lines = [
        f"{name_of(fixture)}: {each.rule.severity}{' (may be)' if each.problem.unknown else ''}: {each.problem.message}"
        for fixture in fixtures("fails*")
        for each in judged(fixture).findings
        if each.rule.id == fixture.parent.name
    ]

    assert "\n".join(lines) + "\n" == snapshot_text
