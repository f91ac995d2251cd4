"""A report says what happened, and times stand apart."""

from __future__ import annotations

from gpu_constructs.rehearsal.report import Line, Moment, Outcome, Report, critical_path


def test_a_report_counts_and_names_each_promise() -> None:
    report = Report("Gpu")
    report.add(
        [
            Line(scene="Create", promise="every object is accepted", outcome=Outcome.HELD),
            Line(scene="Scale", promise="g6 comes", outcome=Outcome.FAILED, text="no node", same_source=True),
        ]
    )

    assert report.text() == (
        "# Rehearsal of Gpu\n\n1 held, 1 FAILED\n\n## Create\n\n* **held** every object is accepted\n\n"
        "## Scale\n\n* **FAILED** (same source) g6 comes: no node\n"
    )
    assert [each.promise for each in report.failed] == ["g6 comes"]


def test_the_critical_path_is_of_what_ended_last_before() -> None:
    moments = [
        Moment(what="role", began=0, ended=1),
        Moment(what="vpc", began=0, ended=4),
        Moment(what="cluster", began=4, ended=9, after=("role", "vpc")),
        Moment(what="queue", began=0, ended=2),
    ]

    assert [each.what for each in critical_path(moments)] == ["vpc", "cluster"]


def test_the_moments_of_the_next_stack_follow_those_of_the_last() -> None:
    report = Report("Cluster, Pools")

    report.follow([Moment(what="Cluster/vpc", began=0, ended=4), Moment(what="Cluster/queue", began=0, ended=1)])
    report.follow(
        [
            Moment(what="Pools/role", began=0, ended=2),
            Moment(what="Pools/pool", began=2, ended=3, after=("Pools/role",)),
        ]
    )

    assert [(each.what, each.began, each.ended) for each in report.moments] == [
        ("Cluster/vpc", 0, 4),
        ("Cluster/queue", 0, 1),
        ("Pools/role", 4, 6),
        ("Pools/pool", 6, 7),
    ]
    assert [each.what for each in critical_path(report.moments)] == ["Cluster/vpc", "Pools/role", "Pools/pool"]
