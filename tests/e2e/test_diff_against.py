"""`make diff` shows a reviewer what a working tree changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.repositories import git

BIN = Path(sys.executable).parent


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of this repository."""
    if not (ROOT / ".git").exists() or not (BIN / "cdk").exists():
        pytest.skip("needs a git checkout and the cdk of requirements.txt")
    git(ROOT, "clone", "--quiet", "--no-hardlinks", str(ROOT), str(tmp_path / "clone"))
    return tmp_path / "clone"


def diff(clone: Path, base: str, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    environment |= {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}
    command = [sys.executable, "tools/diff_against.py", base, "--", *options]
    return subprocess.run(command, cwd=clone, env=environment, check=False, capture_output=True, text=True)


def test_a_changed_option_shows_as_the_property_it_changes(clone: Path) -> None:
    settings = json.loads((clone / "cdk.json").read_text())
    settings["context"]["pools"] = [{"name": "gpu", "instance_types": ["g6.xlarge"], "max_nodes": 7}]
    (clone / "cdk.json").write_text(json.dumps(settings))

    done = diff(clone, "HEAD", "-c", "kubernetes_version=1.35")
    shown = done.stdout + done.stderr
    assert done.returncode == 0, shown
    assert "AWS::EKS::Nodegroup" in shown
    assert ".MaxSize" in shown
    assert git(clone, "worktree", "list").count("\n") == 0


def test_says_so_where_the_old_revision_has_no_app(clone: Path) -> None:
    empty = git(clone, "hash-object", "-t", "tree", "--stdin", "-w")
    before = git(clone, "commit-tree", empty, "-m", "Before everything")

    done = diff(clone, before)
    assert done.returncode == 0, done.stderr
    assert f"{before} has no app: everything in GpuClusterStack is new." in done.stdout


def test_refuses_a_base_that_is_no_revision(clone: Path) -> None:
    done = diff(clone, "no-such-branch")

    assert done.returncode == 1
    assert "BASE must be a revision of this repository, got 'no-such-branch'" in done.stderr
