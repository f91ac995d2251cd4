"""A baseline accepts what was there when it was written, and nothing worse or more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_preflight.judging.baseline import (
    Filters,
    baseline_text,
    new_entries,
    read_baseline,
    stale_entries,
    updated_entries,
)
from gpu_preflight.judging.check import Report
from gpu_preflight.reading.objects import Origin
from gpu_preflight.rule import Finding
from tests.preflight.report import samples

FILE = "baseline.json"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the file of the findings."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.yaml").write_text("")
    return tmp_path


def known(**changes: object) -> Finding:
    """A finding of a rule that exists."""
    return samples.finding(**{"id": "GPU048", "severity": "warning"} | changes)  # type: ignore[arg-type]


def entries(*findings: Finding) -> Filters:
    """The baseline of some findings, as it is read from its file."""
    Path(FILE).write_text(baseline_text(new_entries(FILE, samples.report(findings), Filters())))
    return Filters(read_baseline(FILE))


def accepted(filters: Filters, findings: Iterable[Finding]) -> list[bool]:
    return [each.acknowledged is not None for each in filters.applied(samples.report(findings)).findings]


def with_message(finding: Finding, text: str) -> Finding:
    return replace(finding, problem=replace(finding.problem, text=text))


def elsewhere(finding: Finding, file: str) -> Finding:
    pool = replace(finding.problem.subject, origin=Origin(file, finding.problem.origin.path))  # type: ignore[type-var]
    return replace(finding, problem=replace(finding.problem, subject=pool))


def test_the_message_does_not_matter() -> None:
    assert accepted(entries(known()), [with_message(known(), "has 30 GiB")]) == [True]


def test_rule_path_and_file_matter() -> None:
    others = [known(id="GPU049"), known(name="Other"), elsewhere(known(), "other.yaml")]

    assert accepted(entries(known()), others) == [False, False, False]


@pytest.mark.parametrize(
    ("before", "after", "is_accepted"),
    [
        (("error", True), ("error", False), False),
        (("error", False), ("error", True), True),
        (("warning", False), ("error", True), False),
        (("error", False), ("warning", False), True),
    ],
)
def test_a_worse_finding_is_not_accepted(before: tuple[str, bool], after: tuple[str, bool], is_accepted: bool) -> None:
    old, new = (known(severity=severity, unknown=unknown) for severity, unknown in (before, after))

    assert accepted(entries(old), [new]) == [is_accepted]


def test_more_findings_than_before_are_not_accepted() -> None:
    two = [with_message(known(), "a"), with_message(known(), "b")]

    assert accepted(entries(*two), [*two, with_message(known(), "c")]).count(True) == 2
    assert '"count": 2' in Path(FILE).read_text()


def test_a_pattern_in_a_name_is_a_name() -> None:
    assert accepted(entries(known(name="a*")), [known(name="ab"), known(name="a*")]).count(True) == 1


def test_other_acknowledgements_need_no_entry() -> None:
    assert new_entries(FILE, samples.report([known(acknowledged="small images")]), Filters()) == ()


def test_an_entry_keeps_its_reason_and_a_stale_one_goes(folder: Path) -> None:
    old = entries(known(), known(name="Gone"))
    text = Path(FILE).read_text()
    Path(FILE).write_text(text.replace("found when", "ours, found when"))
    read = read_baseline(FILE)
    report: Report = samples.report([known(), known(id="GPU049")])

    stale = stale_entries(replace(old, accepted=read).unused(report), ["."])
    again = updated_entries(read, new_entries(FILE, report, Filters()), stale)

    assert [each.plain_path for each in stale] == ["Stack/Gone"]
    assert {each.id: each.reason.startswith("ours") for each in again} == {"GPU048": True, "GPU049": False}


def test_an_entry_of_a_file_that_was_not_read_is_not_stale(folder: Path) -> None:
    unused = entries(known()).unused(samples.report([]))

    assert stale_entries(unused, ["other"]) == ()
    assert len(stale_entries(unused, ["app.yaml"])) == 1
    (folder / "app.yaml").unlink()
    assert len(stale_entries(unused, ["other"])) == 1


@pytest.mark.parametrize(
    ("baseline", "found", "other", "is_accepted"),
    [
        ("baseline.json", "cluster.yaml", "after/infra/cluster.yaml", True),
        ("baseline.json", "cluster.yaml", "after/infra/my-cluster.yaml", False),
        ("baseline.json", "infra/cluster.yaml", "after/infra/cluster.yaml", True),
        ("baseline.json", "infra/cluster.yaml", "after/infra/more/cluster.yaml", False),
        ("ci/baseline.json", "infra/cluster.yaml", "before/infra/cluster.yaml", True),
        ("ci/baseline.json", "infra/cluster.yaml", "before/my-infra/cluster.yaml", False),
        ("ci/baseline.json", "ci/cluster.yaml", "ci/cluster.yaml", True),
    ],
)
def test_a_review_accepts_the_same_file_in_another_folder_only(
    folder: Path, baseline: str, found: str, other: str, is_accepted: bool
) -> None:
    (folder / "ci").mkdir()
    report = samples.report([elsewhere(known(), found)])
    Path(baseline).write_text(baseline_text(new_entries(baseline, report, Filters())))

    filters = Filters(read_baseline(baseline, anywhere=True))

    assert accepted(filters, [elsewhere(known(), other)]) == [is_accepted]
