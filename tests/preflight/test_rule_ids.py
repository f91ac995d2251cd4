"""An id of a rule is given once, and never again when its rule is gone."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from gpu_constructs.preflight.rules import rules

FILE = Path(__file__).parent / "rule_ids.yaml"
IDS = yaml.safe_load(FILE.read_text())
GIVEN, RETIRED = IDS["given"], {each["id"]: each for each in IDS["retired"]}


def test_every_id_that_was_given_is_a_rule_or_retired() -> None:
    gone = set(GIVEN) - set(rules()) - set(RETIRED)

    assert gone == set(), f"say in {FILE.name} that they are retired, and what finds it now"


def test_every_rule_has_an_id_that_is_written_down() -> None:
    assert set(rules()) - set(GIVEN) == set(), f"add them to {FILE.name}"


def test_no_rule_has_a_retired_id() -> None:
    assert set(rules()) & set(RETIRED) == set()


def test_ids_are_written_down_once_and_in_order() -> None:
    assert sorted(set(GIVEN)) == GIVEN
    assert sorted(RETIRED) == [each["id"] for each in IDS["retired"]]
    assert set(RETIRED) <= set(GIVEN)
    assert [each for each in GIVEN if not re.fullmatch(r"GPU\d{3}", each)] == []


def test_ids_that_were_given_do_not_become_fewer() -> None:
    assert len(GIVEN) >= 225


def test_a_retired_rule_says_what_it_was_and_what_finds_it_now() -> None:
    for each in RETIRED.values():
        assert set(each) == {"id", "title", "date", "now"}
        assert set(each["now"]) <= set(rules())
