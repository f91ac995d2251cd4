"""The example of docs/how-to/workloads.md runs as it stands, and its pods would run."""

from __future__ import annotations

import pytest

from gpu_preflight.judging.check import Report, check
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.inputs import read_input
from tests.apps import programs_of, run_program
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "how-to" / "workloads.md").read_text()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Preflight's findings about the example."""
    [program] = programs_of(PAGE)
    return check(read_input([str(run_program(program, tmp_path_factory.mktemp("page")))]))


def test_the_pods_of_the_example_would_run(report: Report) -> None:
    [case] = report.cases
    [verdict] = report.explanation(case).verdicts

    assert verdict.workload.name == "Deployment default/chat"
    assert verdict.answer is Answer.YES, verdict.reasons


def test_nothing_of_the_example_is_in_error(report: Report) -> None:
    assert [each.problem.message for each in report.findings if each.rule.severity != "note"] == []


def test_the_example_asks_for_its_scratch(report: Report) -> None:
    [case] = report.cases
    [workload] = case.gpu_workloads

    assert workload.pod.requests["ephemeral-storage"] == 200 * 2**30
