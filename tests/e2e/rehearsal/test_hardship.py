"""The default stack under Karpenter bears hardship, with nodes that are bought as spot."""

from __future__ import annotations

from pathlib import Path

from gpu_constructs.rehearsal.play import play
from gpu_constructs.rehearsal.stage import Props
from tests.e2e.rehearsal.conftest import default_stack


def test_the_default_stack_bears_hardship(tmp_path: Path, props: Props) -> None:
    stack = default_stack(tmp_path, max_nodes=2, capacity="spot")

    report = play([stack], props, long=True)

    assert not report.failed, report.text()
    assert "Hardship" in {each.scene for each in report.lines}
