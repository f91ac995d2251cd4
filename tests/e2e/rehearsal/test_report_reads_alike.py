"""The report of a play doesn't depend on the order in which programs finish."""

from __future__ import annotations

from pathlib import Path

from gpu_rehearsal.play import play
from gpu_rehearsal.stage import Props
from tests.e2e.rehearsal.conftest import default_stack


def test_two_plays_of_a_stack_read_alike(tmp_path: Path, props: Props) -> None:
    stack = default_stack(tmp_path)

    assert play([stack], props).text() == play([stack], props).text()
