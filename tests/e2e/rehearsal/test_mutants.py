"""A stack with one fault fails the scenario that it belongs to, and the failed line names the fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_rehearsal.assemblies import Assembly
from gpu_rehearsal.play import play
from gpu_rehearsal.stage import Props
from tests.e2e.rehearsal.conftest import default_stack
from tests.e2e.rehearsal.mutants import MUTANTS

# A healthy node takes a fifth of that on an idle machine; a step that never comes is waited for no longer.
STEP_SECONDS = 60.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """The default stack under Karpenter, without a fault."""
    return default_stack(tmp_path_factory.mktemp("default"))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_is_seen_and_named(name: str, stack: Assembly, props: Props, tmp_path: Path) -> None:
    mutant = MUTANTS[name]

    report = play([mutant.write(stack, tmp_path)], props, step_seconds=STEP_SECONDS)

    assert report.exit_code() == 1

    assert mutant.seen(report), report.text()
