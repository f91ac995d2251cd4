"""Karpenter with limits, without capacity, interrupted and without GPUs, on nodes that are bought as spot."""

from __future__ import annotations

from pathlib import Path

from gpu_rehearsal.report import Report
from gpu_rehearsal.scenarios.deployment import create
from gpu_rehearsal.scenarios.pools import gpu_pools
from gpu_rehearsal.stage import Props, stage
from tests.e2e.rehearsal.conftest import default_stack
from tests.e2e.rehearsal.hardship import SCENARIO, hardship


def test_the_default_stack_bears_hardship(tmp_path: Path, props: Props) -> None:
    stack = default_stack(tmp_path, max_nodes=2, capacity="spot")
    report = Report(stack.stack)

    with stage(stack, props) as made:
        assert create(made, [stack], report)
        hardship(made, gpu_pools(made.client, made.aws, made.cluster), report)

    assert not report.failed, report.text()
    assert SCENARIO in {each.scenario for each in report.lines}
