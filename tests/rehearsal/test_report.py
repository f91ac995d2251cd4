"""A report lists results, and shows durations in a separate part."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpu_rehearsal.report import Line, Moment, Outcome, Report


def test_a_report_counts_and_names_each_promise() -> None:
    report = Report("Gpu")
    report.add(
        [
            Line(scenario="Create", promise="every object is accepted", outcome=Outcome.HELD),
            Line(scenario="Scale", promise="g6 comes", outcome=Outcome.FAILED, text="no node"),
        ]
    )

    assert report.text() == (
        "# Rehearsal of Gpu\n\n1 held, 1 FAILED\n\n## Create\n\n* **held** every object is accepted\n\n"
        "## Scale\n\n* **FAILED** g6 comes: no node\n"
    )
    assert [each.promise for each in report.failed] == ["g6 comes"]


def test_the_moments_of_the_next_stack_follow_those_of_the_last() -> None:
    report = Report("Cluster, Pools")

    report.follow([Moment(what="Cluster/vpc", began=0, ended=4), Moment(what="Cluster/queue", began=0, ended=1)])
    report.follow(
        [
            Moment(what="Pools/role", began=0, ended=2),
            Moment(what="Pools/pool", began=2, ended=3),
        ]
    )

    assert [(each.what, each.began, each.ended) for each in report.moments] == [
        ("Cluster/vpc", 0, 4),
        ("Cluster/queue", 0, 1),
        ("Pools/role", 4, 6),
        ("Pools/pool", 6, 7),
    ]


def _line(scenario: str, promise: str, outcome: Outcome) -> Line:
    return Line(scenario=scenario, promise=promise, outcome=outcome)


CREATED = _line("Create", "84 resources are created", Outcome.HELD)
NO_JOB = _line("Scale", "pool gpu: a job gets a node", Outcome.NOT_PLAYED)
JOB = _line("Scale", "pool gpu: the job runs", Outcome.HELD)


@pytest.mark.parametrize(
    ("lines", "required", "code"),
    [
        ([], (), 3),
        ([CREATED], (), 0),
        ([CREATED, NO_JOB], (), 3),
        ([CREATED, NO_JOB, JOB], (), 0),
        ([CREATED, NO_JOB], ("create",), 0),
        ([CREATED], ("Create", "Scale"), 3),
        ([CREATED, JOB], ("pool gpu", "pool h100"), 3),
        ([_line("Create", "a queue is created", Outcome.FAILED), NO_JOB], (), 1),
    ],
)
def test_a_report_of_what_was_not_tried_does_not_pass(lines: list[Line], required: tuple[str, ...], code: int) -> None:
    report = Report("Gpu")
    report.add(lines)

    assert report.exit_code(required) == code


def test_the_listener_gets_a_line_before_the_next_one_is_computed() -> None:
    heard: list[str] = []

    def lines() -> Iterator[Line]:
        yield CREATED
        assert heard == ["84 resources are created"]
        yield JOB

    Report("Gpu", listener=lambda line: heard.append(line.promise)).add(lines())

    assert heard == ["84 resources are created", "pool gpu: the job runs"]
