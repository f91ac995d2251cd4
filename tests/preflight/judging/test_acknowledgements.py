"""A finding fails the check until it is accepted with a reason."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.judging.check import Report, check
from gpu_preflight.reading.documents import UnusableInput
from gpu_preflight.reading.inputs import read_input
from tests.preflight.inputs import given, template
from tests.preflight.rule_cases import FIXTURES


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


@pytest.mark.parametrize("not_true", [False, True])
def test_each_place_states_whether_a_finding_is_not_true(tmp_path: Path, not_true: bool) -> None:
    line = {"reason": "known", "not_true": not_true}
    (tmp_path / "accepted.json").write_text(json.dumps({"acknowledgements": [{"id": "GPU001", **line}]}))
    in_metadata = template(Metadata={"gpu-constructs": {"acknowledge": {"GPU001": line}}})
    by_metadata = check(given(tmp_path / "metadata", in_metadata))
    by_file = check(given(tmp_path, template()))

    for report in (by_metadata, by_file):
        [found] = [each for each in report.findings if each.rule.id == "GPU001"]
        assert (found.acknowledged, found.not_true, found.holds) == ("known", not_true, not not_true)


@pytest.mark.parametrize(("prefix", "not_true"), [("acknowledge", False), ("not-true", True)])
def test_an_annotation_states_whether_a_finding_is_not_true(tmp_path: Path, prefix: str, not_true: bool) -> None:
    whole = FIXTURES / "GPU120" / "fails_more_gpus_than_a_node_of_karpenter.yaml"
    accepting = f"kind: Job\nmetadata:\n  annotations: {{gpu-constructs.io/{prefix}.GPU120: known}}\n  name: train\n"
    text = re.sub(r"kind: Job\nmetadata: .*\n", accepting, whole.read_text())
    (tmp_path / "objects.yaml").write_text(text)

    found = [each for each in check(read_input([str(tmp_path)])).findings if each.rule.id == "GPU120"]

    assert {(each.acknowledged, each.not_true) for each in found} == {("known", not_true)}


@pytest.mark.parametrize(("gpus", "pending"), [(1, 0), (16, 1)])
def test_a_finding_that_is_not_true_hides_no_other_reason_to_be_pending(
    tmp_path: Path, gpus: int, pending: int
) -> None:
    text = (FIXTURES / "GPU383" / "fails_thousandths_of_a_byte.yaml").read_text()
    annotations = "{gpu-constructs.io/acknowledge.GPU383: later, gpu-constructs.io/not-true.GPU383: fixed elsewhere}"
    accepting = f"namespace: serving, annotations: {annotations}}}\nspec:\n  replicas"
    text = text.replace("namespace: serving}\nspec:\n  replicas", accepting)
    text = text.replace('{cpu: "2", memory: 8Gi}', '{cpu: "2"}').replace("gpu: 1}", f"gpu: {gpus}}}")
    (tmp_path / "objects.yaml").write_text(text)

    report = check(read_input([str(tmp_path)]))

    [found] = [each for each in report.findings if each.rule.id == "GPU383"]
    assert (found.acknowledged, found.not_true) == ("fixed elsewhere", True)
    assert len(report.pending) == pending
    assert report.fails is bool(pending)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"id": "GPU0001", "reason": "x"}, "must be a rule's id, got 'GPU0001'; did you mean"),
        ({"id": None, "reason": "x"}, "must be a rule's id"),
        ({"id": "GPU001"}, "GPU001 must have a reason"),
        ({"id": "GPU001", "reason": "  "}, "GPU001 must have a reason"),
        ({"id": "GPU001", "not_true": True}, "GPU001 must have a reason"),
        ({"id": "GPU001", "reason": "x", "not_true": "yes"}, "not_true of GPU001 must be true or false, got 'yes'"),
        ({"id": "GPU001", "reason": "x", "not-true": True}, "got 'not-true'; did you mean 'not_true'"),
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
        ({"GPU001": {"not_true": True}}, "GPU001 must have a reason"),
        ({"GPU001": {"reason": "known", "nottrue": True}}, "keys of GPU001 must be reason, not_true, got 'nottrue'"),
        ({"GPU001": {"reason": "known", "path": "x"}}, "keys of GPU001 must be reason, not_true, got 'path'"),
    ],
)
def test_metadata_that_accepts_nothing_is_reported(tmp_path: Path, line: dict[str, Any], message: str) -> None:
    report = check(given(tmp_path, template(Metadata={"gpu-constructs": {"acknowledge": line}})))

    assert [message in each for each in report.mistaken] == [True]
    assert report.fails


def test_an_annotation_that_accepts_nothing_is_reported(tmp_path: Path) -> None:
    accepting = {"gpu-constructs.io/acknowledge.gpu120": "known", "gpu-constructs.io/acknowledge.GPU127": "known"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train", "annotations": accepting}}
    (tmp_path / "pod.json").write_text(json.dumps(pod))

    (error,) = check(given(tmp_path, template())).mistaken

    assert "Pod train: acknowledge: id must be a rule's id, got 'gpu120'; did you mean 'GPU120'?" in error


def test_what_accepts_something_is_not_reported(tmp_path: Path) -> None:
    metadata = {"gpu-constructs": {"acknowledge": {"GPU001": "known"}}}

    assert check(given(tmp_path, template(Metadata=metadata))).mistaken == ()
