"""Markdown: fit for a comment on a pull request, whatever somebody calls a pool."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from gpu_preflight.judging.review import Review
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.reading.objects import Position
from gpu_preflight.report import finding_view, markdown
from gpu_preflight.report.cluster_view import LeftReplicas
from gpu_preflight.report.finding_view import FindingOrigin
from gpu_preflight.report.markdown import code, escape_markdown
from gpu_preflight.report.review_view import review_view
from gpu_preflight.report.view import check_view, explain_view
from tests.preflight.report import samples

# What a comment on GitHub holds.
COMMENT = 65_536


def test_check(snapshot_text: SnapshotAssertion) -> None:
    assert markdown.render(check_view(samples.report())) == snapshot_text


def test_explain(snapshot_text: SnapshotAssertion) -> None:
    assert markdown.render(explain_view([samples.explanation()])) == snapshot_text


def test_review(snapshot_text: SnapshotAssertion) -> None:
    assert markdown.render(review_view(samples.review())) == snapshot_text


def test_drained_nodes_come_before_everything_else() -> None:
    written = markdown.render(review_view(samples.review()))

    parts = ("every node is drained", "#### Resources and objects (6)", "1 removed, 1 in place, 1 added", "L-417A185B")
    order = [written.index(each) for each in (*parts, "verdict changes", "New findings")]
    assert order == sorted(order)


@pytest.mark.parametrize("escape", [escape_markdown, code])
def test_names_neither_format_nor_mention(escape: object) -> None:
    written = escape(samples.HOSTILE)  # type: ignore[operator]

    inner = re.sub(r"</?code>|&#\d+;", "", written)
    assert not re.search(r"[<>|`\x1b]", inner)
    assert escape is code or not re.search(r"@everyone|#1\b", inner)


def test_rows_stay_rows() -> None:
    hostile = samples.finding(name=samples.HOSTILE + "\n| a | b |")

    lines = markdown.render(check_view(samples.report([hostile]))).splitlines()

    assert [line.count(" | ") for line in lines if line.startswith("|")] == [3, 3, 3, 1, 1, 1]


def test_only_links_to_the_web_are_links() -> None:
    hostile = samples.finding(source="javascript:alert(1)")

    assert "](javascript" not in markdown.render(check_view(samples.report([hostile])))


def test_findings_name_their_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples.write_app(tmp_path, monkeypatch)

    written = markdown.render(check_view(samples.report([samples.finding()])))

    assert " | <code>Stack/Train</code><br><code>app.yaml:2:3</code> | " in written


def test_a_thousand_findings_fit_one_comment(monkeypatch: pytest.MonkeyPatch) -> None:
    many = tuple(samples.finding(name=f"{'long' * 60}{index}", fix="do " * 90) for index in range(1000))
    change = Review(new=many, fixed=many, standing=many)

    place = partial(FindingOrigin, "a", "b" * 250, code=Position("long/" * 60, 1, 1))
    monkeypatch.setattr(finding_view, "FindingOrigin", lambda *_: place())

    assert len(markdown.render(review_view(change))) < COMMENT
    assert len(markdown.render(check_view(samples.report(many)))) < COMMENT


def test_a_thousand_workloads_fit_one_comment() -> None:
    view = explain_view([samples.explanation()])
    [cluster] = view.clusters
    reasons = (Reason(Answer.NO, "label", "long " * 20),) * 9
    workloads = [
        replace(each, name="long" * 60, pools=(replace(each.pools[-1], reasons=reasons),) * 5)
        for each in cluster.workloads
    ]
    left = (LeftReplicas("long" * 30, 1),) * 400
    many = replace(cluster, workloads=tuple(workloads) * 400, left=left, pools=cluster.pools * 400)

    written = markdown.render(replace(view, clusters=(many,)))

    assert len(written) < COMMENT
    assert "And 1160 more." in written
