"""An id of a rule is given once, and never again when its rule is gone."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest
import yaml

from gpu_preflight.rule import RETIRED, id_hint, rule_id
from gpu_preflight.rules import rules

FILE = Path(__file__).parent / "rule_ids.yaml"
IDS = yaml.safe_load(FILE.read_text())
GIVEN = IDS["given"]


def test_every_id_that_was_given_is_a_rule_or_retired() -> None:
    gone = set(GIVEN) - set(rules()) - set(RETIRED)

    assert gone == set(), "add them to RETIRED in gpu_preflight/rule.py, with the rules that report the fault now"


def test_every_rule_has_an_id_that_is_written_down() -> None:
    assert set(rules()) - set(GIVEN) == set(), f"add them to {FILE.name}"


def test_no_rule_has_a_retired_id() -> None:
    assert set(rules()) & set(RETIRED) == set()


def test_ids_are_written_down_once_and_in_order() -> None:
    assert sorted(set(GIVEN)) == GIVEN
    assert sorted(RETIRED) == list(RETIRED)
    assert set(RETIRED) <= set(GIVEN)
    assert [each for each in GIVEN if not re.fullmatch(r"GPU\d{3}", each)] == []


def test_ids_that_were_given_do_not_become_fewer() -> None:
    assert len(GIVEN) >= 225


def test_a_retired_rule_says_what_it_was_and_what_finds_it_now() -> None:
    for each in RETIRED.values():
        assert each.title
        assert date.fromisoformat(each.date)
        assert each.now or each.why
        assert set(each.now) <= set(rules())


@pytest.mark.parametrize("said", ["GPU120", "gpu120", "GPU-120", "gpu_120", "120", " 120 "])
def test_an_id_is_found_as_people_say_it(said: str) -> None:
    assert rule_id(said) == "GPU120"


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("GPU12O", "; did you mean 'GPU120'?"),
        ("GPU0120", "; did you mean 'GPU120'?"),
        ("GPUU120", "; did you mean 'GPU120'?"),
        ("GP120", "; did you mean 'GPU120'?"),
        ("gpu02i", "; did you mean 'GPU021'?"),
        ("12", "; did you mean 'GPU012'?"),
        ("GPU999", ""),
        ("999", ""),
        ("zebra", ""),
        ("", ""),
        (
            "GPU047",
            "; its rule, 'Nodes with several network interfaces are in a public subnet', was retired on 2026-11-21: "
            "GPU105 reports it now",
        ),
        (
            "109",
            "; its rule, 'EKS rejects the node repair settings', was retired on 2026-11-21: EKS reports it when it "
            "creates the group",
        ),
        (
            "gpu199",
            "; its rule, 'Requirement uses labels of the other Karpenter', was retired on 2026-11-21: GPU120 reports "
            "it now, for pods that need the NodePool",
        ),
    ],
)
def test_an_id_that_no_rule_has_gets_the_nearest_one_or_none(said: str, hint: str) -> None:
    assert id_hint(said, rules()) == hint
