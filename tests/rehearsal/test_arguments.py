"""A wrong argument ends the rehearsal with a one-line error and exit code 2, before it starts a process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import aws_cdk as cdk
import pytest

from gpu_rehearsal.__main__ import _main

Error = Callable[..., str]


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder of programs, of which the tests read only the version."""
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


@pytest.fixture
def error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Error:
    """Return the one line with which the command rejects arguments."""

    def run(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["gpu_rehearsal", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            _main()
        [line] = capsys.readouterr().err.splitlines()
        assert ended.value.code == 2
        return line

    return run


def test_a_folder_that_the_cdk_did_not_write(tmp_path: Path, programs: Path, error: Error) -> None:
    assert error("--programs", programs, tmp_path) == (
        f"rehearsal: {tmp_path}: must hold manifest.json, got none; "
        "pass the folder that cdk synth wrote, such as cdk.out"
    )


def test_a_folder_without_kubernetes(tmp_path: Path, assembly: Path, error: Error) -> None:
    assert "must hold kube-apiserver, got none; make e2e-tools writes" in error("--programs", tmp_path, assembly)


def test_an_assembly_without_a_stack(programs: Path, assembly: Path, error: Error) -> None:
    assert f"{assembly}: must hold a stack, got none" in error("--programs", programs, assembly)


def test_a_stack_that_the_assembly_lacks(programs: Path, tmp_path: Path, error: Error) -> None:
    app = cdk.App(outdir=str(tmp_path / "cdk.out"))
    cdk.Stack(app, "Mine")
    app.synth()

    message = error("--programs", programs, "--stack", "Mine", "--stack", "Mina", tmp_path / "cdk.out")

    assert message == "rehearsal: --stack must be one of Mine, got 'Mina'; did you mean 'Mine'?"


def test_a_missing_karpenter_program(programs: Path, assembly: Path, error: Error) -> None:
    message = error("--programs", programs, "--karpenter", "1.14.1=/nowhere", assembly)

    assert message == "rehearsal: --karpenter must be VERSION=FILE of an existing program, got '1.14.1=/nowhere'"
