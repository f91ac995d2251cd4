"""Formats of CI systems: annotations of GitHub, GitLab's code quality, JUnit, one line each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gpu_preflight.command_line.console import without_commands
from gpu_preflight.judging.cluster_changes import ClusterChange
from gpu_preflight.judging.review import Review, ReviewLimits
from gpu_preflight.report import ci
from gpu_preflight.report.finding_view import FindingOrigin
from gpu_preflight.report.review_view import ReviewView, review_view
from gpu_preflight.report.view import CheckView, check_view
from gpu_preflight.rule import Severity
from tests.preflight.judging.test_conditions import pod, pool, report_of
from tests.preflight.report import samples

# A command of a runner: https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
COMMAND = re.compile(r"::(error|warning|notice) file=([^,:\s]+)(?:,line=(\d+))?(?:,col=(\d+))?,title=([^,:]+)::(.+)")
CHANGES = ("change-destructive", "change-fails", "change-left-behind")
SEVERITIES = ("info", "minor", "major", "critical", "blocker")


def checked() -> CheckView:
    return check_view(samples.report())


def hostile() -> CheckView:
    found = checked().findings[0]
    bad = f"{samples.HOSTILE}\n::error::x\r\n##[error]y, 100 %:\x00\x1b[31m\u202e"
    return replace(
        checked(),
        unread=(),
        findings=(replace(found, message=bad, title=bad, origin=FindingOrigin(found.origin.file, bad)),),
    )


def test_concise_is_a_line_for_each_finding() -> None:
    lines = ci.concise(checked()).splitlines()

    assert lines[0] == "app.yaml: error: GPU901 pool Train: has none [Stack/Train]"
    assert [line.split(": ")[1] for line in lines[:-1]] == ["error", "error", "warning", "note", "note"]
    assert lines[-2] == ("app.yaml: note: unread not checked: its manifest is a parameter [Stack/Manifest]")
    assert lines[-1] == "check: fail"


@pytest.mark.parametrize("severity", ["error", "warning"])
def test_concise_names_a_possible_error_and_others_have_a_lower_level(severity: Severity) -> None:
    maybe = replace(checked().findings[0], severity=severity, unknown=True, doubt="may be true: x", fails=False)
    view = replace(checked(), findings=(maybe,), unread=(), outcome="unknown")

    assert ci.concise(view).startswith(f"app.yaml: possible {severity}: GPU901 pool Train: has none (may be true: x)")
    assert ci.github(view).startswith("::warning " if severity == "error" else "::notice ")


def test_github_annotates_errors_first() -> None:
    found = [COMMAND.fullmatch(line) for line in ci.github(checked()).splitlines()]

    assert [each and each[1] for each in found] == ["error", "error", "warning", "notice", "notice"]
    assert found[0]
    assert found[0][2] == "app.yaml"
    assert found[0][6] == "pool Train: has none. Fix: Install the plugin."


def test_each_names_the_line_that_a_person_edits() -> None:
    found = checked().findings[0]
    view = replace(
        checked(), findings=(replace(found, origin=FindingOrigin("app.yaml", "Stack/Train", line=7, column=3)),)
    )

    assert ci.concise(view).startswith("app.yaml:7:3: error: GPU901")
    assert ci.github(view).startswith("::error file=app.yaml,line=7,col=3,title=GPU901")
    assert json.loads(ci.gitlab(view))[0]["location"]["lines"] == {"begin": 7}


def test_gitlab_has_what_code_quality_requires() -> None:
    rows = json.loads(ci.gitlab(checked()))

    assert [each["severity"] for each in rows] == ["critical", "critical", "minor", "info", "info"]
    assert len({each["fingerprint"] for each in rows}) == len(rows)
    for each in rows:
        assert each["severity"] in SEVERITIES
        assert {"description", "check_name", "fingerprint", "severity", "location"} == each.keys()
        assert not each["location"]["path"].startswith(("/", "./"))
        assert each["location"]["lines"]["begin"] >= 1


def test_gitlab_keeps_a_fingerprint_while_other_findings_come_and_go() -> None:
    every = json.loads(ci.gitlab(checked()))
    fewer = json.loads(ci.gitlab(check_view(samples.report(samples.FINDINGS[1:]))))

    assert {each["fingerprint"] for each in fewer} < {each["fingerprint"] for each in every}


def test_junit_fails_a_test_for_each_finding_that_fails_the_check() -> None:
    suite = ElementTree.fromstring(ci.junit(checked()).encode())

    assert suite.attrib == {"name": "gpu-constructs check", "tests": "5", "failures": "2"}
    assert [len(case.findall("failure")) for case in suite] == [1, 1, 0, 0, 0]


def test_junit_has_a_test_where_nothing_is_found() -> None:
    read = replace(check_view(samples.report(())), unread=())
    suite = ElementTree.fromstring(ci.junit(read).encode())

    assert [case.get("name") for case in suite] == ["check finds nothing"]
    assert suite.get("failures") == "0"


def test_acknowledged_findings_are_left_out_and_counted() -> None:
    found = check_view(samples.report([samples.finding(acknowledged="images are small here")]))
    accepted = replace(found, unread=())

    assert ci.concise(accepted) == "check: unknown; 1 error hidden by acknowledgements\n"
    assert ci.github(accepted).startswith("::notice title=hidden Findings that don't count::1 error hidden by")
    assert [(each["check_name"], each["severity"]) for each in json.loads(ci.gitlab(accepted))] == [("hidden", "info")]


def test_a_review_annotates_what_is_new_and_what_the_deployment_loses() -> None:
    view = review_view(samples.review())
    ids = [line.split(": ")[2].split()[0] for line in ci.concise(view).splitlines()[:-1]]

    assert set(ids) == {*(each.id for each in view.new if not each.acknowledged), *CHANGES}


def test_the_last_line_of_a_review_is_its_headline() -> None:
    view = review_view(samples.review())

    assert ci.concise(view).splitlines()[-1] == f"review: fail; {view.headline}"


def test_a_limit_that_is_not_kept_fails_in_every_format() -> None:
    explained = samples.explanation()
    view = review_view(
        samples.review(explained_after=(explained,)), ReviewLimits(max_added_gpus=0, max_usd_per_month=1e9)
    )

    text = "Limit +0 GPUs: exceeded by 4"
    unknown = "Limit $1,000,000,000 a month: fails, as the value is unknown (pool Spill: it has no known bound)"
    for form in (ci.concise, ci.github, ci.gitlab, ci.junit):
        assert text in form(view)
        assert unknown in form(view).replace("%25", "%")
    assert sum(f'failure message="{each}' in ci.junit(view) for each in (text, unknown)) == 2


def test_a_limit_fails_in_every_format_where_the_review_has_no_pool() -> None:
    replaced = Review(control_planes=(ClusterChange("demo", "replaced", "Name: a -> b"),))
    view = review_view(replaced, ReviewLimits(fail_on_replace=True))

    for form in (ci.concise, ci.github, ci.gitlab, ci.junit):
        assert "Limit 0 drained pools: exceeded (cluster demo)" in form(view)
    assert 'failures="1"' in ci.junit(view)


@pytest.mark.parametrize("form", [ci.concise, ci.github, ci.gitlab, ci.junit])
def test_hostile_names_end_no_line_and_no_document(form: Callable[[CheckView | ReviewView], str]) -> None:
    github = form is ci.github
    text = without_commands(form(hostile()), form.__name__)

    assert "##[" not in text
    assert form not in (ci.concise, ci.github) or not {"\x1b", "\u202e"} & set(text)
    if github:
        assert [bool(COMMAND.fullmatch(line)) for line in text.splitlines()] == [True]
    elif form is ci.gitlab:
        assert len(json.loads(text)) == 1
    elif form is ci.junit:
        assert len(ElementTree.fromstring(text.encode())) == 1
    else:
        assert len(text.splitlines()) == 2
        assert not any(line.startswith("::") for line in text.splitlines())


def test_a_pending_workload_fails_where_no_error_is_certain(tmp_path: Path) -> None:
    view = check_view(report_of(tmp_path, pool("g6e.12xlarge"), pod(gpus=4, replicas=3)))

    assert (view.outcome, view.counts.errors) == ("fail", 0)
    suite = ElementTree.fromstring(ci.junit(view).encode())
    [failure] = suite.iter("failure")
    assert suite.get("failures") == "1"
    assert "1 workload would stay Pending" in str(failure.get("message"))
    assert ci.github(view).startswith("::error title=outcome")
    assert "critical" in [each["severity"] for each in json.loads(ci.gitlab(view))]
