"""Cases that are edits of a whole fixture."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.preflight.rule_cases import RULES, case_text, edit

LINES = ["spec:", "  containers:", "    - name: a", "      image: x", "    - name: b", "      image: x"]


def test_an_edit_is_applied_at_the_indentation_of_its_block() -> None:
    changed = edit(LINES, ["- name: b", "  image: x"], ["- name: b", "  image: y", "  tty: true"], "case")

    assert changed == [*LINES[:4], "    - name: b", "      image: y", "      tty: true"]


@pytest.mark.parametrize(("block", "times"), [(["image: x"], 2), (["image: z"], 0), (["- name: a", "image: x"], 0)])
def test_an_edit_of_lines_that_do_not_occur_once_is_rejected(block: list[str], times: int) -> None:
    with pytest.raises(ValueError, match=f"^GPU001/case: an edit must name lines that occur once, got {times} times"):
        edit(LINES, block, [], "GPU001/case")


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        ({"replace": "b: 2\n", "with": "b: 3\n"}, ["a: 1", "b: 3"]),
        ({"after": "a: 1", "add": "c: 4\n"}, ["a: 1", "c: 4", "b: 2"]),
        ({"remove": "b: 2\n"}, ["a: 1"]),
    ],
)
def test_a_case_is_its_whole_file_with_edits(tmp_path: Path, change: dict[str, str], lines: list[str]) -> None:
    (tmp_path / "fails_whole.yaml").write_text("# Whole.\na: 1\nb: 2\n")

    text = case_text(tmp_path, "passes_case", {"case": "A case.", "like": "fails_whole", "edits": [change]})

    assert text.splitlines() == ["# A case.", *lines]


@pytest.mark.parametrize(
    "change", [{"after": "a: 1"}, {"replace": "a: 1", "wiht": "a: 2"}, {"replace": "", "with": "x"}]
)
def test_an_edit_with_other_keys_is_rejected(tmp_path: Path, change: dict[str, str]) -> None:
    (tmp_path / "fails_whole.yaml").write_text("# Whole.\na: 1\n")

    with pytest.raises(ValueError, match="an edit must have replace and with, or after and add, or remove, got"):
        case_text(tmp_path, "passes_case", {"case": "A case.", "like": "fails_whole", "edits": [change]})


def test_each_rule_has_a_whole_fixture_that_fails() -> None:
    assert [each.name for each in RULES.iterdir() if not list(each.glob("fails_*.yaml"))] == []
