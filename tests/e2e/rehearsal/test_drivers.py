"""From no node to one whose drivers took their taints away; and none that takes a pod where a driver is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_rehearsal.assemblies import Assembly
from gpu_rehearsal.play import play
from gpu_rehearsal.report import Outcome
from gpu_rehearsal.stage import Props
from tests.e2e.rehearsal import drivers
from tests.e2e.rehearsal.mutants import Mutant, Resources
from tools.plays import synthesize_app

STEP_SECONDS = 60.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    (made,) = synthesize_app(Path(drivers.__file__), tmp_path_factory.mktemp("drivers"), {})
    return made


def test_a_job_runs_once_the_drivers_are_there(stack: Assembly, props: Props) -> None:
    report = play([stack], props, step_seconds=2 * STEP_SECONDS)

    assert [f"{line.promise}: {line.text}" for line in report.failed] == [], report.text()
    held = {line.promise for line in report.lines if line.outcome is Outcome.HELD}
    assert {f"pool {drivers.POOL}: the job runs", f"pool {drivers.POOL}: one node for one pod"} <= held


def test_no_job_runs_without_the_driver(stack: Assembly, props: Props, tmp_path: Path) -> None:
    mutant = Mutant(_without_driver, "Scale", r"the job runs: .*s3\.csi\.aws\.com/agent-not-ready")

    report = play([mutant.write(stack, tmp_path)], props, step_seconds=STEP_SECONDS)

    assert mutant.seen(report), report.text()


def _without_driver(resources: Resources) -> None:
    """Take the add-on away."""
    named = [
        name
        for name, each in resources.items()
        if each["Type"] == "AWS::EKS::Addon" and each["Properties"]["AddonName"] == "aws-mountpoint-s3-csi-driver"
    ]
    for name in named:
        del resources[name]
