"""A rehearsal passes only if it tried something, ends when told, and fails no app that is right."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_rehearsal.play import play
from gpu_rehearsal.report import Outcome, Report
from gpu_rehearsal.stage import Props
from tests.e2e.rehearsal import own_app
from tests.e2e.rehearsal.conftest import default_stack
from tests.e2e.rehearsal.mutants import MUTANTS
from tools.plays import PLAYS, ROOT, synthesize_app

END_SECONDS = 5.0


def _outcomes(report: Report) -> dict[str, Outcome]:
    return {each.promise: each.outcome for each in report.lines}


def test_a_group_without_an_autoscaler_gets_one_node_by_hand(tmp_path: Path, props: Props) -> None:
    report = play(PLAYS["quickstart"].assemblies(tmp_path), props)

    # Without the updates and failures of `make rehearse`.
    assert report.exit_code(("Create", "Scale", "Permissions", "Destroy")) == 0, report.text()
    outcomes = _outcomes(report)
    steps = ("a node joins after its group is scaled by hand", "the node shows a GPU", "the job runs")
    assert {outcomes[f"pool l4: {each}"] for each in (*steps, "the job ends", "the node is removed")} == {Outcome.HELD}
    assert outcomes["pool l4: its autoscaler creates nodes"] is Outcome.NOT_PLAYED


def test_an_app_without_an_account_has_a_line_for_each_workload(tmp_path: Path, props: Props) -> None:
    report = play(synthesize_app(Path(own_app.__file__), tmp_path, {}), props)

    assert [each.statement for each in report.failed] == []
    lines = {each.promise: each.text for each in report.lines if each.outcome is Outcome.HELD}
    assert lines["Deployment default/chat runs"] == "1 pod, on g6.xlarge of g6 with 1 nvidia.com/gpu"
    [train] = (text for promise, text in lines.items() if promise.startswith("Job default/train-"))
    assert train.endswith("with 1 nvidia.com/gpu; it ended")


def test_what_needs_a_chart_that_is_not_there_is_not_played(tmp_path: Path, props: Props) -> None:
    if props.charts and any(props.charts.glob("kube-prometheus-stack-*.tgz")):
        pytest.skip("the chart is there")

    report = play(PLAYS["llm-service"].assemblies(tmp_path), replace(props, definitions=None))

    assert [each.statement for each in report.failed] == []
    absent = [each.text for each in report.lines if each.outcome is Outcome.NOT_PLAYED]
    assert any("definition of ServiceMonitor of chart kube-prometheus-stack" in each for each in absent)
    assert report.exit_code(PLAYS["llm-service"].require) == 0


def test_sigterm_ends_a_play_with_the_report_so_far(tmp_path: Path, props: Props) -> None:
    stack = MUTANTS["the association names another account"].write(default_stack(tmp_path / "app"), tmp_path / "out")
    programs = [f"--programs={each}" for each in props.control_planes.values()]
    known = [f"--karpenter={version}={path}" for version, path in props.karpenter.items()]
    command = [*programs, *known, f"--charts={props.charts}", f"--out={tmp_path / 'report'}", str(stack.folder)]
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "gpu_rehearsal", *command],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as rehearsal:
        assert rehearsal.stdout is not None
        first = rehearsal.stdout.readline()
        rehearsal.send_signal(signal.SIGTERM)
        code = rehearsal.wait(timeout=END_SECONDS)

    assert code == 128 + signal.SIGTERM
    [written] = (each for each in (tmp_path / "report").glob("*.md") if "times" not in each.name)
    assert "crashed 2 times" in first
    assert "crashed 2 times" in written.read_text()
    assert "the play was ended by SIGTERM" in written.read_text()


def test_sigterm_while_helm_waits_ends_a_play(tmp_path: Path, props: Props) -> None:
    stack = default_stack(tmp_path / "app")
    programs = [f"--programs={each}" for each in props.control_planes.values()]
    command = [*programs, f"--charts={props.charts}", f"--out={tmp_path / 'report'}", str(stack.folder)]
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "gpu_rehearsal", *command],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as rehearsal:
        with pytest.raises(subprocess.TimeoutExpired):
            rehearsal.wait(timeout=20)
        rehearsal.send_signal(signal.SIGTERM)
        assert rehearsal.wait(timeout=END_SECONDS) == 128 + signal.SIGTERM

    [written] = (each for each in (tmp_path / "report").glob("*.md") if "times" not in each.name)
    assert "the play was ended by SIGTERM" in written.read_text()
