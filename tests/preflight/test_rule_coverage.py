"""Every known cause of a GPU pod that does not run is found by rules, or says why it is out of their reach."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import yaml

from gpu_preflight.rules import rules
from tools import write_rules

KNOWN = yaml.safe_load(write_rules.CAUSES.read_text())
GROUPS, CAUSES = KNOWN["groups"], KNOWN["causes"]
IDS = [each["id"] for each in CAUSES]
# A page, or a file of a project and its version.
SOURCE = re.compile(r"https://\S+|[\w.-]+/[\w.-]+ \S+ \S+.*")


def repeated(key: str) -> list[str]:
    return [text for text, count in Counter(each[key] for each in CAUSES).items() if count > 1]


def named() -> set[str]:
    return {rule for each in CAUSES for rule in each.get("rules", ())}


def test_known_causes_do_not_become_fewer() -> None:
    """A cause whose rules go says why it is out of reach."""
    assert len(CAUSES) >= 257


def test_ids_and_names_are_given_once() -> None:
    assert repeated("id") == []
    assert repeated("cause") == []


@pytest.mark.parametrize("letter", sorted(set(GROUPS) - {"P"}))
def test_numbers_of_a_group_have_no_gap(letter: str) -> None:
    numbers = [int(each[1:]) for each in IDS if each[0] == letter]

    assert numbers == list(range(1, len(numbers) + 1))


def test_every_group_is_explained_and_has_causes() -> None:
    assert list(dict.fromkeys(each[0] for each in IDS)) == list(GROUPS)


def test_every_cause_has_a_name_a_source_and_a_date() -> None:
    told = {"id", "cause", "source", "date"}

    assert [each["id"] for each in CAUSES if set(each) - {"rules", "out_of_reach"} != told] == []
    assert [each["id"] for each in CAUSES if not 15 < len(each["cause"]) < 120 or each["cause"].endswith(".")] == []
    assert [each["id"] for each in CAUSES if not SOURCE.fullmatch(each["source"])] == []
    assert [each["id"] for each in CAUSES if not re.fullmatch(r"20\d\d-\d\d(-\d\d)?", str(each["date"]))] == []


def test_a_cause_names_rules_or_says_why_none_finds_it() -> None:
    undecided = [each["id"] for each in CAUSES if bool(each.get("rules")) == bool(each.get("out_of_reach"))]

    assert undecided == []


def test_a_cause_is_found_by_rules_that_exist() -> None:
    assert named() - set(rules()) == set()


def test_every_error_has_a_known_cause() -> None:
    errors = {each.id for each in rules().values() if each.severity == "error"}

    assert errors - named() == set(), f"add what they find to {write_rules.CAUSES.name}"


def test_page_of_rules_is_current() -> None:
    assert write_rules.DOCUMENT.read_text() == write_rules.document(), "run: make rules"
