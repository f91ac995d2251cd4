"""Texts: plain ones of a fixed width, and coloured ones for terminals."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.objects import Origin, Unread
from gpu_preflight.report import text
from gpu_preflight.report.finding_view import FindingOrigin
from gpu_preflight.report.review_view import review_view
from gpu_preflight.report.view import check_view, explain_view
from tests.preflight.report import samples


def test_check(snapshot_text: SnapshotAssertion) -> None:
    assert text.render(check_view(samples.report())) == snapshot_text


def test_explain(snapshot_text: SnapshotAssertion) -> None:
    assert text.render(explain_view([samples.explanation()])) == snapshot_text


def test_review(snapshot_text: SnapshotAssertion) -> None:
    assert text.render(review_view(samples.review())) == snapshot_text


@pytest.mark.parametrize("kind", ["check", "explain", "review"])
def test_plain_text_has_lines_of_its_width_and_no_colour(kind: str) -> None:
    written = text.render(samples.views()[kind], width=80)

    longer = [line for line in written.splitlines() if len(line) > 80]
    # A command is one line, so that it can be copied.
    assert [line for line in longer if not line.startswith(" aws service-quotas ")] == []
    assert len(longer) == (2 if kind == "review" else 0)
    assert "\x1b" not in written


@pytest.mark.parametrize("width", [80, 40])
@pytest.mark.parametrize("colour", [False, True])
def test_ids_arns_paths_and_addresses_are_never_cut(width: int, colour: bool) -> None:
    arn = "arn:aws:iam::111122223333:role/inference-cluster-NodeInstanceRole-1ABCDEFGHIJKL-with-a-longer-name"
    file = "clusters/production/eu-west-1/inference/templates/deployments/llama-3-1-70b-instruct/deployment.yaml"
    source = "https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami-with-a-very-long-page-name.html"
    found = samples.finding(source=source, why=f"The role is {arn}, which no principal can assume.")
    origin = FindingOrigin(file, "Inference/Gpu/Pool-l4-with-a-very-long-construct-path/NodeGroup", line=12, column=3)
    view = check_view(samples.report([found]))
    view = replace(view, findings=(replace(view.findings[0], origin=origin),))

    words = re.sub(r"\x1b\[[0-9;]*m", "", text.render(view, width=width, colour=colour)).split()

    assert {"GPU901", f"{arn},", f"{file}:12:3", source, origin.path} <= set(words)


def test_a_label_does_not_color_what_is_next_to_it() -> None:
    written = text.render(check_view(samples.report()), colour=True)

    assert "\x1b[1;31mGPU901\x1b[0m  \x1b[1mpool Train: has none\x1b[0m\n" in written
    assert "\x1b[2mat\x1b[0m      Stack/Train in app.yaml\n" in written


def test_terminals_get_colour() -> None:
    assert "\x1b[1;31m" in text.render(check_view(samples.report()), colour=True)


def test_nearest_pools_are_listed_first_and_the_rest_counted() -> None:
    written = text.render(explain_view([samples.explanation()], most_pools=1))

    assert "2 more pools, less suitable; --all-pools lists all" in written
    assert "all-pools" not in text.render(explain_view([samples.explanation()], most_pools=None))


def test_names_cannot_command_the_terminal() -> None:
    hostile = samples.finding(name="\x1b[2J[red]\u202e")

    written = text.render(check_view(samples.report([hostile])))

    assert "\x1b" not in written
    assert "\u202e" not in written
    assert "[2J[red]" in written


def test_findings_name_their_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples.write_app(tmp_path, monkeypatch)

    written = text.render(check_view(samples.report([samples.finding(), samples.finding(name="Infer")])))

    assert "at      Stack/Train in app.yaml:2:3\n" in written
    assert "at      Stack/Infer in app.yaml\n" in written


def test_nothing_found_says_so() -> None:
    written = text.render(check_view(samples.report([])))

    assert "0 errors, 0 warnings, 0 notes in 0 clusters" in written


def test_workloads_that_are_alike_are_explained_once() -> None:
    view = explain_view([samples.explanation()])
    [cluster] = view.clusters
    alike = tuple(replace(cluster.workloads[0], name=f"Job {number}") for number in range(9))

    written = text.render(replace(view, clusters=(replace(cluster, workloads=alike),)))

    assert "Job 0, Job 1, Job 2, Job 3, Job 4, Job 5 and 3 more workloads: runs" in written
    assert written.count("each requesting") == 1


def test_places_of_one_rule_are_cut() -> None:
    written = text.render(check_view(samples.report(tuple(samples.finding(name=f"n{each}") for each in range(60)))))

    assert written.count("has none") == 50
    assert "10 more places; --format json lists all" in written


def test_unread_input_is_in_the_result_of_explain() -> None:
    told = samples.explanation()
    view = explain_view([replace(told, verdicts=tuple(each for each in told.verdicts if each.answer is Answer.YES))])
    unread = Unread(Origin("a.json", "stack/Transform"), "the template that macro M returns cannot be read")

    written = text.render(replace(view, unread=(unread,)))

    assert text.render(view).endswith("Every workload runs\n")
    assert written.endswith(
        "Every workload runs as far as is known, without stack/Transform, which could not be read\n"
    )
