"""The table of planted faults counts what is new, and tells a named cause from another finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rehearsal.faults.catalogue import FAULTS, PAIRS, faultless, planted_faults, planted_pairs
from tools.planted import Answer, Finding, answer, cfn_lint, check, review

FAULT = FAULTS["p5-with-arm-image"]


def finding(message: str, *, rule: str = "GPU002", severity: str = "error", place: str = "Mine/P5") -> Finding:
    return Finding(rule, severity, place, message)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ([], "no"),
        ([finding("p5: has an arm64 image")], "error, cause named (GPU002)"),
        ([finding("p5: fails", rule="GPU120")], "error, no cause (GPU120)"),
        ([finding("p5: has an arm64 image", severity="warning")], "warning, cause named (GPU002)"),
        (
            [finding("p5: fails", rule="GPU120"), finding("p5: has an arm64 image", severity="warning")],
            "error, cause named (GPU002, GPU120)",
        ),
    ],
)
def test_a_cell(found: list[Finding], text: str) -> None:
    assert answer(FAULT, found, 1.0, before=[]).text() == text


@pytest.mark.parametrize(
    "before",
    [
        finding("p5: has an arm64 image", place="Mine/Other"),
        finding("p5: may have from 1 to 2 nodes"),
    ],
)
def test_what_the_faultless_app_has_too_does_not_count(before: Finding) -> None:
    assert answer(FAULT, [finding("p5: has an arm64 image")], 1.0, before=[before]) == Answer((), False, 1.0)


def test_the_readers_run_as_a_user_runs_them(tmp_path: Path) -> None:
    [(fault, folder)] = planted_faults(tmp_path, [FAULT.id])
    found, seconds = check(folder)

    assert answer(fault, found, seconds, before=check(faultless(tmp_path).folder)[0]).named

    [(pair, old, new)] = planted_pairs(tmp_path, ["deployment-selector"])
    assert answer(pair, *review(old, new), before=[]).named
    assert answer(pair, *review(old, old), before=[]).text() == "no"


def test_cfn_lint_runs_on_a_planted_folder(tmp_path: Path) -> None:
    app = faultless(tmp_path).copy(tmp_path / "misspelled")
    [cluster] = app.of_type("AWS::EKS::Cluster").values()
    cluster["Properties"]["Versoin"] = "1.36"
    app.write()

    assert any("Versoin" in each.line for each in cfn_lint(app.folder)[0] if each.severity == "error")


def test_the_page_has_a_row_for_each() -> None:
    page = (Path(__file__).parents[2] / "docs" / "contributing" / "planted-faults.md").read_text()

    assert [each for each in (*FAULTS, *PAIRS) if f"| {each} |" not in page] == []
