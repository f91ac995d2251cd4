"""The example of docs/how-to/models.md runs as it stands, and its pods would run."""

from __future__ import annotations

import re

import pytest

from gpu_constructs.workloads import CopiedModel, HubModel, ImageModel, MountedModel, StreamedModel
from gpu_preflight.judging.check import Report, check
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.inputs import read_input
from tests.apps import programs_of, run_program
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "how-to" / "models.md").read_text()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Preflight's findings about the example."""
    [program] = programs_of(PAGE)
    return check(read_input([str(run_program(program, tmp_path_factory.mktemp("page")))]))


def test_every_workload_of_the_example_runs(report: Report) -> None:
    [case] = report.cases
    verdicts = report.explanation(case).verdicts

    assert {each.workload.name: each.answer for each in verdicts} == {
        "Deployment default/chat": Answer.YES,
        "Deployment default/code": Answer.YES,
    }


def test_nothing_of_the_example_is_in_error(report: Report) -> None:
    assert [each.problem.message for each in report.findings if each.rule.severity != "note"] == []


@pytest.mark.parametrize("kind", [CopiedModel, MountedModel, StreamedModel, ImageModel, HubModel])
def test_the_page_names_arguments_that_are_there(kind: type) -> None:
    [said] = re.findall(rf"^\| `{kind.__name__}\((.*)\)` \|", PAGE, re.MULTILINE)

    assert set(re.findall(r"(\w+)=", said)) <= {*kind.__dataclass_fields__}  # type: ignore[attr-defined]


def test_every_figure_states_whether_it_was_measured() -> None:
    [table] = re.findall(r"^## How long loading takes\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    rows = [each for each in table.splitlines() if each.startswith("|")][2:]

    assert [each for each in rows if not re.search(r"measured|arithmetic", each)] == []
    assert [each for each in rows if "https://" not in each and "as copied" not in each] == []
