"""Every known cause of a Pending GPU pod is a rule, or is named with the reason why it cannot be one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpu_constructs.preflight.rules import covered, out_of_reach, rules
from tools import write_rules


def causes_of_nodes(facts: Path) -> set[str]:
    """Ids of the checklist of why a GPU node does not come, those that only a live cluster shows included."""
    text = (facts / "eks-gpu-nodes.md").read_text()
    section = text[text.index("\n## 8.") : text.index("\n## 9.")]
    return set(re.findall(r"^\| ([A-H]\d+) \|", section, re.MULTILINE))


def causes_of_peers(facts: Path) -> set[str]:
    text = (facts / "peers.md").read_text()
    return {f"P{number}" for number in re.findall(r"GPU(\d{3}) ", text[text.index("### 5.6") :])}


def causes_of_software(facts: Path) -> set[str]:
    """Rows that a construct should refuse or warn of."""
    text = (facts / "gpu-stack.md").read_text()
    section = text[text.index("\n# 0.") : text.index("\n# 1.")]
    rows = re.findall(r"^\| (\d\.\d+) \|.*\|([^|]*)\|$", section, re.MULTILINE)
    return {f"W{number}" for number, action in rows if "REFUSE" in action or "warn" in action}


@pytest.fixture(scope="session")
def named() -> set[str]:
    return set(covered()) | {each.cause for each in out_of_reach()}


def test_every_cause_of_a_node_that_does_not_come(facts: Path, named: set[str]) -> None:
    causes = causes_of_nodes(facts)

    assert len(causes) > 140
    assert causes - named == set()


def test_every_candidate_that_peers_pain_suggests(facts: Path, named: set[str]) -> None:
    causes = causes_of_peers(facts)

    assert len(causes) > 30
    assert causes - named == set()


def test_every_mistake_of_a_write_up_that_should_be_refused(facts: Path, named: set[str]) -> None:
    causes = causes_of_software(facts)

    assert len(causes) > 15
    assert causes - named == set()


def test_no_cause_is_both_a_rule_and_out_of_reach() -> None:
    both = set(covered()) & {each.cause for each in out_of_reach()}

    assert both == set()


def test_a_cause_is_covered_by_rules_that_exist() -> None:
    assert {rule for found in covered().values() for rule in found} <= set(rules())


def test_page_of_rules_is_current() -> None:
    assert write_rules.DOCUMENT.read_text() == write_rules.document(), "run: make rules"
