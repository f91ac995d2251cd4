"""Each rule finds what its failing fixtures hold, and nothing in its passing ones."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from gpu_preflight.judging.check import Report, check
from gpu_preflight.model.software import Autoscaler
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.rule import Finding
from gpu_preflight.rules import rules
from tests.preflight.rule_cases import FIXTURES

# The name of a fixture: the result of its case, then the case.
NAME = re.compile(r"(fails|passes)(_[a-z0-9]+)+")
LONGEST_NAME = 50
# The rule that the extra asks, and why it is skipped without it.
OF_CEL, NO_CEL = "GPU305", "no library for CEL: install the extra cel"


# Longer titles don't fit the line of a report.
LONGEST_TITLE = 95
# The committed messages, which `test_messages` compares with the messages of the rules.
SNAPSHOT = Path(__file__).parent / "__snapshots__" / "test_rules" / "test_messages.txt"
# Rules whose messages needn't name the object of the finding, with the reason.
WITHOUT_NAME = {
    "GPU020": "The object is an EC2 quota of the account; the message has its code.",
    "GPU344": "A YAML document has no name; the message has the line.",
    "GPU345": "A YAML document has no name; the message has key and line.",
    "GPU443": "A YAML document has no name; the message has key and line.",
}


def fixtures(pattern: str) -> list[Path]:
    return sorted(FIXTURES.glob(f"*/{pattern}"))


def judged(fixture: Path) -> Report:
    return check(read_input([str(fixture)], stack="app"))


@cache
def findings(fixture: Path) -> tuple[Finding, ...]:
    """The findings of a fixture's rule in it; the messages come from the same check as in the other tests."""
    return tuple(each for each in judged(fixture).findings if each.rule.id == fixture.parent.name)


def name_of(fixture: Path) -> str:
    return f"{fixture.parent.name}/{fixture.stem}"


def hard_to_read(text: str) -> list[str]:
    """Return what `make lint` counts as hard to read, and a value of Python."""
    prose = pytest.importorskip("tools.prose", reason="tools are not part of an installation")
    return [*prose.phrases(text), *re.findall(r"\bNone\b", text)]


def names_of_subject(finding: Finding) -> set[str]:
    """Return the names by which a message can name the object of a finding."""
    subject, origin = finding.problem.subject, finding.problem.origin
    named = [getattr(subject, each, None) for each in ("name", "path", "key")]
    texts = [each for each in (*named, origin.path, origin.resource) if isinstance(each, str)]
    if isinstance(subject, Resource):
        texts += [f"cluster {finding.cluster}", str(subject.properties.get("ServiceAccount", ""))]
    if isinstance(subject, Autoscaler):
        texts += ["cluster autoscaler", "Karpenter", "Auto Mode"]
    return {part for text in texts for part in (text, text.rpartition("/")[2], text.rpartition(" ")[2]) if part}


@pytest.mark.parametrize("fixture", fixtures("fails_*"), ids=name_of)
def test_rule_finds_its_failing_fixture_and_names_its_object(fixture: Path) -> None:
    if fixture.parent.name == OF_CEL:
        pytest.importorskip("cel", reason=NO_CEL)
    assert findings(fixture), f"{name_of(fixture)}: its rule finds nothing"
    if fixture.parent.name not in WITHOUT_NAME:
        messages = [(each.problem.message, names_of_subject(each)) for each in findings(fixture)]
        assert [each for each in messages if not any(name in each[0] for name in each[1])] == []


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


@pytest.mark.parametrize("part", ["title", "why", "fix"])
def test_texts_of_rules_are_plain_technical_english(part: str) -> None:
    texts = {each.id: getattr(each, part) for each in rules().values()}

    assert {id: found for id, text in texts.items() if (found := hard_to_read(text))} == {}


def test_a_title_is_a_short_sentence_and_no_rule_shares_it() -> None:
    titles = {each.id: each.title for each in rules().values()}

    assert {id: title for id, title in titles.items() if len(title) > LONGEST_TITLE or title.endswith(".")} == {}
    assert {id: title for id, title in titles.items() if not re.match("[A-Z]|aws-auth|kube-proxy", title)} == {}
    assert len({*titles.values()}) == len(titles)


def test_messages_are_plain_technical_english() -> None:
    assert {text: found for text in SNAPSHOT.read_text().splitlines() if (found := hard_to_read(text))} == {}


def test_rules_in_one_table(snapshot_text: SnapshotAssertion) -> None:
    """Title, first message and fix of each rule, in the form that a reader sees."""
    pytest.importorskip("cel", reason=NO_CEL)
    rows = []
    for rule in rules().values():
        first = findings(min((FIXTURES / rule.id).glob("fails_*")))[0]
        rows += [f"{rule.id} {rule.severity}: {rule.title}", f"  {first.problem.message}", f"  Fix: {first.fix}", ""]

    assert "\n".join(rows) == snapshot_text


def test_fixes_of_each_variant(snapshot_text: SnapshotAssertion) -> None:
    """The fixes of each rule that has several, each with a message that has it."""
    pytest.importorskip("cel", reason=NO_CEL)
    by_fix: dict[tuple[str, str], str] = {}
    for fixture in fixtures("fails_*"):
        for each in findings(fixture):
            by_fix.setdefault((fixture.parent.name, each.fix), each.problem.message)
    counts = Counter(rule for rule, _ in by_fix)
    rows = [f"{rule} {text}\n  Fix: {fix}" for (rule, fix), text in by_fix.items() if counts[rule] > 1]

    assert {text: found for text in rows if (found := hard_to_read(text))} == {}
    assert "\n".join(rows) + "\n" == snapshot_text


def test_messages(snapshot_text: SnapshotAssertion) -> None:
    """The message of each failing fixture, for a reviewer to read."""
    pytest.importorskip("cel", reason=NO_CEL)
    lines = [
        f"{name_of(fixture)}: {each.rule.severity}{' (may be)' if each.problem.unknown else ''}: {each.problem.message}"
        for fixture in fixtures("fails_*")
        for each in findings(fixture)
    ]

    assert "\n".join(lines) + "\n" == snapshot_text
