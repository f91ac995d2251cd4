"""A stack with one fault fails the scene that it belongs to, and the failed line names the fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_constructs.rehearsal.assemblies import Assembly
from gpu_constructs.rehearsal.mutants import MUTANTS
from gpu_constructs.rehearsal.play import play
from gpu_constructs.rehearsal.stage import Props
from tests.e2e.rehearsal.conftest import default_stack
from tools.plays import PLAYS

# A healthy node takes a fifth of that on an idle machine; a step that never comes is waited for no longer.
STEP_SECONDS = 60.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    """The default stack under Karpenter, without a fault."""
    return default_stack(tmp_path_factory.mktemp("default"))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_is_seen_and_named(name: str, stack: Assembly, props: Props) -> None:
    mutant = MUTANTS[name]

    report = play([mutant.of(stack)], props, step_seconds=STEP_SECONDS)

    assert mutant.seen(report), report.text()


def test_a_dropped_release_of_definitions_is_seen_and_named(tmp_path: Path, props: Props) -> None:
    # Not of a template: there the controller's own chart brings them on creation, which its file for Argo CD forbids.
    (stack,) = PLAYS["argocd"].assemblies(tmp_path)
    assert stack.files is not None
    (stack.files / "charts" / "Karpenter-Crds.yaml").unlink()

    report = play([stack], props, step_seconds=STEP_SECONDS)

    assert [each for each in report.failed if "NodeClass" in each.promise and "EC2NodeClass" in each.text], (
        report.text()
    )
