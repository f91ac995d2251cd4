"""Markdown: fit for a comment on a pull request, with any name of a pool."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from gpu_preflight.judging.changes import ResourceChange
from gpu_preflight.judging.pool_changes import Evicted, PoolChange
from gpu_preflight.judging.review import Fate, Move, Review
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.reading.objects import Origin, Position, Unread
from gpu_preflight.report import finding_view, markdown
from gpu_preflight.report.cluster_view import LeftReplicas
from gpu_preflight.report.finding_view import FindingOrigin
from gpu_preflight.report.markdown import code, escape_markdown
from gpu_preflight.report.review_view import review_view
from gpu_preflight.report.view import check_view, explain_view
from tests.preflight.report import samples

# The size limit of a comment on GitHub.
COMMENT = 65_536


def test_check(snapshot_text: SnapshotAssertion) -> None:
    assert markdown.render(check_view(samples.report())) == snapshot_text


def test_explain(snapshot_text: SnapshotAssertion) -> None:
    assert markdown.render(explain_view([samples.explanation()])) == snapshot_text


def test_review(snapshot_text: SnapshotAssertion) -> None:
    assert markdown.render(review_view(samples.review())) == snapshot_text


def test_a_review_has_the_order_in_which_a_reader_asks() -> None:
    written = markdown.render(review_view(samples.review()))

    first = ("### ", "#### Interrupted", "#### Rejected, lost or left behind", "#### Workloads whose result changes")
    then = ("| Cost a month, min", "#### Raise before you merge", "#### New findings", "<summary>Pools that change")
    last = ("<summary>Resources and objects that change", "<summary>Fixed findings", "<summary>Existing findings")
    order = [written.index(each) for each in (*first, *then, *last)]
    assert order == sorted(order)


def test_names_in_the_headline_of_a_check_and_of_an_explanation_neither_format_nor_mention() -> None:
    unread = (Unread(Origin("a.yaml", "![p](x.png) @org"), "its manifest is a parameter"),)
    views = check_view(replace(samples.report(()), unread=unread)), explain_view([], unread)

    for view in views:
        first = markdown.render(view).splitlines()[0]
        assert "x.png" in first
        assert "![p](" not in first
        assert "@org" not in first


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

    assert " | `Stack/Train`<br>`app.yaml:2:3` | " in written


def test_a_thousand_findings_fit_one_comment(monkeypatch: pytest.MonkeyPatch) -> None:
    many = tuple(samples.finding(name=f"{'long' * 60}{index}", fix="do " * 90) for index in range(1000))
    change = Review(new=many, fixed=many, standing=many)

    place = partial(FindingOrigin, "a", "b" * 250, code=Position("long/" * 60, 1, 1))
    monkeypatch.setattr(finding_view, "FindingOrigin", lambda *_: place())

    assert len(markdown.render(review_view(change))) < COMMENT
    assert len(markdown.render(check_view(samples.report(many)))) < COMMENT


def test_everything_at_once_fits_one_comment_and_what_is_left_out_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "long " * 60
    many = tuple(samples.finding(name=f"{name}{index}", fix="do " * 90, title=name) for index in range(1000))
    pools = tuple(
        PoolChange(name, name, "managed", "replaced", (name,) * 20, drains=True, evicted=(Evicted(name, 1, None),) * 9)
        for _ in range(100)
    )
    changes = tuple(ResourceChange(name, each, name) for each in ("fails", "in place") for _ in range(100))
    workloads = tuple(Fate(name, None, Answer.NO, None, "pending", name) for _ in range(100))
    moves = tuple(Move(name, name, None) for _ in range(100))
    change = samples.review(
        pools=pools,
        changes=changes,
        fates=workloads,
        moves=moves,
        new=many,
        fixed=many,
        standing=many,
        uncounted=(name,),
    )

    written = markdown.render(review_view(change))

    assert len(written) < COMMENT
    assert re.search(r"Left out to fit into a comment: \d parts?\. `gpu-constructs review`", written)
    assert written.startswith("### ❌ GPU review: 100 rejected changes")
    assert "#### Interrupted" in written


def test_new_findings_of_a_review_name_their_line_and_link_to_their_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples.write_app(tmp_path, monkeypatch)

    written = markdown.render(review_view(Review(new=(samples.finding(id="GPU021", title="Little to choose from"),))))

    link = "https://github.com/gpu-constructs/gpu-constructs/blob/main/docs/reference/rules.md#gpu021"
    assert f"| [GPU021]({link}) error<br>Little to choose from | pool Train: has none | " in written
    assert " | `Stack/Train`<br>`app.yaml:2:3` | " in written


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        # Text that an e-mail shows unchanged.
        ("public_access_cidrs: a -> b, $40,000 (+$1.50/h) & [x], 'a&b'", None),
        (
            "a*b* ~c~ [d](e) ![f] `g` &lt; $x$ $1$",
            "a&#42;b&#42; &#126;c&#126; [d&#93;(e) ![f] &#96;g&#96; &#38;lt; &#36;x&#36; &#36;1&#36;",
        ),
        ("_a_ b_c", "&#95;a&#95; b_c"),
        ("<!-- a -->", "&#60;!-- a --&#62;"),
    ],
)
def test_only_signs_that_format_are_escaped(text: str, shown: str | None) -> None:
    assert escape_markdown(text) == (shown or text)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Inference/Gpu/Pool-l4", "`Inference/Gpu/Pool-l4`"),
        ("Deployment default/my_app", "`Deployment default/my_app`"),
        ("a`b", "<code>a&#96;b</code>"),
        ("a|b", "<code>a&#124;b</code>"),
        (" a", "<code> a</code>"),
        ("", "<code></code>"),
    ],
)
def test_a_name_is_between_backticks_where_nothing_of_it_formats(name: str, shown: str) -> None:
    assert code(name) == shown


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
