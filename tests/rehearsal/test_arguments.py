"""Wrong arguments of the rehearsal end in one line with exit code 2, before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from gpu_rehearsal.__main__ import main


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder of programs of which only the version is asked."""
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "kube-apiserver").write_text("#!/bin/sh\necho Kubernetes v1.36.3\n")
    (folder / "kube-apiserver").chmod(0o755)
    return folder


@pytest.fixture
def assembly(tmp_path: Path) -> Path:
    """A cloud assembly without stacks."""
    folder = tmp_path / "cdk.out"
    folder.mkdir()
    (folder / "manifest.json").write_text('{"version": "48.0.0", "artifacts": {}}')
    return folder


def error(*arguments: object) -> str:
    done = CliRunner().invoke(main, [str(each) for each in arguments])
    assert done.exit_code == 2, done.output
    return done.output.splitlines()[-1]


def test_a_folder_that_the_cdk_did_not_write(tmp_path: Path, programs: Path) -> None:
    told = error("--programs", programs, tmp_path)

    assert told == f"Error: {tmp_path}: must hold manifest.json, got none; name what cdk synth wrote, such as cdk.out"


def test_a_folder_without_kubernetes(tmp_path: Path, assembly: Path) -> None:
    told = error("--programs", tmp_path, assembly)

    assert "must hold kube-apiserver, got none; make e2e-tools writes" in told


def test_a_stack_that_the_assembly_lacks(programs: Path, assembly: Path) -> None:
    assert error("--programs", programs, "--stack", "Mina", assembly) == "Error: --stack must be one of none, got Mina"


def test_a_karpenter_that_is_not_there(programs: Path, assembly: Path) -> None:
    told = error("--programs", programs, "--karpenter", "1.14.1=/nowhere", assembly)

    assert "--karpenter must be VERSION=FILE of an existing program" in told
