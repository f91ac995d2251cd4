"""A finding stands until somebody accepts it, with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.judging.check import Report, check
from gpu_preflight.reading.documents import UnusableInput
from tests.preflight.inputs import given, template


def reasons(report: Report) -> set[str | None]:
    return {each.acknowledged for each in report.findings if each.rule.id == "GPU001"}


def test_a_finding_stands_until_it_is_accepted(tmp_path: Path) -> None:
    report = check(given(tmp_path, template()))

    assert reasons(report) == {None}
    assert report.fails


def test_a_file_accepts_by_path(tmp_path: Path) -> None:
    lines = [{"id": "GPU001", "reason": " known ", "path": "stack/N*"}]
    (tmp_path / "accepted.json").write_text(json.dumps({"acknowledgements": lines}))

    assert reasons(check(given(tmp_path, template()))) == {"known"}


def test_a_file_accepts_nothing_of_another_path(tmp_path: Path) -> None:
    lines = [{"id": "GPU001", "reason": "known", "path": "other/*"}]
    (tmp_path / "accepted.json").write_text(json.dumps({"acknowledgements": lines}))

    assert reasons(check(given(tmp_path, template()))) == {None}


def test_a_template_accepts_in_its_metadata(tmp_path: Path) -> None:
    metadata = {"gpu-constructs": {"acknowledge": {"GPU001": "known"}}}

    assert reasons(check(given(tmp_path, template(Metadata=metadata)))) == {"known"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"id": "GPU0001", "reason": "x"}, "must be a rule's id, got 'GPU0001'; did you mean"),
        ({"id": None, "reason": "x"}, "must be a rule's id"),
        ({"id": "GPU001"}, "GPU001 must have a reason"),
        ({"id": "GPU001", "reason": "  "}, "GPU001 must have a reason"),
        ("GPU001", "must be a rule's id"),
    ],
)
def test_refuses_a_line_that_accepts_nothing(tmp_path: Path, line: Any, message: str) -> None:
    (tmp_path / "accepted.json").write_text(json.dumps({"acknowledgements": [line]}))

    with pytest.raises(UnusableInput, match=message):
        check(given(tmp_path, template()))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"GPU0O1": "known"}, "must be a rule's id, got 'GPU0O1'; did you mean 'GPU001'?"),
        ({"GPU136": "known"}, "retired on"),
        ({"GPU001": " "}, "GPU001 must have a reason"),
    ],
)
def test_metadata_that_accepts_nothing_is_told(tmp_path: Path, line: dict[str, str], message: str) -> None:
    report = check(given(tmp_path, template(Metadata={"gpu-constructs": {"acknowledge": line}})))

    assert [message in each for each in report.mistaken] == [True]
    assert report.fails


def test_an_annotation_that_accepts_nothing_is_told(tmp_path: Path) -> None:
    accepting = {"gpu-constructs.io/acknowledge.gpu120": "known", "gpu-constructs.io/acknowledge.GPU127": "known"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train", "annotations": accepting}}
    (tmp_path / "pod.json").write_text(json.dumps(pod))

    (told,) = check(given(tmp_path, template())).mistaken

    assert "Pod train: acknowledge: id must be a rule's id, got 'gpu120'; did you mean 'GPU120'?" in told


def test_what_accepts_something_is_not_told(tmp_path: Path) -> None:
    metadata = {"gpu-constructs": {"acknowledge": {"GPU001": "known"}}}

    assert check(given(tmp_path, template(Metadata=metadata))).mistaken == ()
