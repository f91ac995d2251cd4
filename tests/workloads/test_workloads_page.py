"""The example of docs/workloads.md runs as it stands, and its pods would run."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from gpu_constructs.preflight.judging.check import Report, check
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.reading.inputs import read_input
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "workloads.md").read_text()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """What preflight says of the example."""
    [program] = re.findall(r"^```python\n(.+?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    out = tmp_path_factory.mktemp("page")
    environment = {**os.environ, "CDK_OUTDIR": str(out), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", program], cwd=out, env=environment, check=True, capture_output=True)
    return check(read_input([str(out)]))


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
