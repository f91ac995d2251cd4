"""Cases that are edits of a whole fixture."""

from __future__ import annotations

import pytest

from tests.preflight.rule_cases import RULES, edit

LINES = ["spec:", "  containers:", "    - name: a", "      image: x", "    - name: b", "      image: x"]


def test_an_edit_is_applied_at_the_indentation_of_its_block() -> None:
    changed = edit(LINES, ["- name: b", "  image: x"], ["- name: b", "  image: y", "  tty: true"], "case")

    assert changed == [*LINES[:4], "    - name: b", "      image: y", "      tty: true"]


@pytest.mark.parametrize(("block", "times"), [(["image: x"], 2), (["image: z"], 0), (["- name: a", "image: x"], 0)])
def test_an_edit_of_lines_that_do_not_occur_once_is_rejected(block: list[str], times: int) -> None:
    with pytest.raises(ValueError, match=f"^GPU001/case: an edit must name lines that occur once, got {times} times"):
        edit(LINES, block, [], "GPU001/case")


def test_each_rule_has_a_whole_fixture_that_fails() -> None:
    assert [each.name for each in RULES.iterdir() if not list(each.glob("fails_*.yaml"))] == []
