"""Action, pre-commit hooks and the job of GitLab, each in a scratch repository, with packages from the index."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.commands import run_outside
from tests.conftest import ROOT
from tests.repositories import commit_everything, git

GITLAB: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "gitlab" / "gpu-review.yml").read_text())["gpu-review"]
BROKEN = (ROOT / "docs" / "pictures" / "p5.yaml").read_text()
FIXED = BROKEN.replace("AL2023_x86_64_STANDARD", "AL2023_x86_64_NVIDIA")
# An app without the CDK: the commit holds the template.
SYNTH = "mkdir -p cdk.out; cp template.yaml cdk.out/App.template.yaml"


@pytest.fixture
def repository(dist: Path, tmp_path: Path) -> Path:
    """A repository whose last commit breaks the pool of the one before."""
    assert dist.is_dir()
    folder = tmp_path / "repository"
    folder.mkdir()
    for text in (FIXED, BROKEN):
        (folder / "template.yaml").write_text(text)
        (folder / "requirements.txt").write_text("")
        (folder / "package.json").write_text("{}")
        commit_everything(folder)
    return folder


def test_the_action_installs_its_dependencies_by_hash(repository: Path) -> None:
    runner = repository.parent / "runner"
    runner.mkdir()
    variables = {
        "RUNNER_TEMP": str(runner),
        "GITHUB_OUTPUT": str(runner / "output"),
        "GITHUB_STEP_SUMMARY": str(runner / "summary"),
        "INPUT_PATHS": "template.yaml",
        "INPUT_PYTHON": sys.executable,
    }

    code, text = run_outside(["bash", str(ROOT / "tools" / "action.sh")], repository, variables)

    assert code == 1, text
    assert "outcome=fails" in (runner / "output").read_text()
    assert "GPU001" in (runner / "summary").read_text()


def test_pre_commit_checks_the_files_of_a_commit_and_an_assembly(repository: Path) -> None:
    shutil.copytree(repository, repository.parent / "assembly")
    hooks = repository.parent / "hooks"
    # pre-commit clones: of a working tree only what is committed. A copy is one commit, whatever is here.
    kept = git(
        ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "gpu_*", "*.toml", "hatch_build.py", "*.md"
    )
    for name in [*kept.splitlines(), "LICENSE", "NOTICE", ".pre-commit-hooks.yaml"]:
        (hooks / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, hooks / name)
    commit_everything(hooks)
    (repository / "manifests").mkdir()
    shutil.copy(repository / "template.yaml", repository / "manifests" / "pool.yaml")
    git(repository, "add", "--all")
    variables = {"PRE_COMMIT_HOME": str(repository.parent / "cache")}
    command = [sys.executable, "-m", "pre_commit", "try-repo", str(hooks)]

    code, text = run_outside([*command, "gpu-constructs-check", "--all-files"], repository, variables)
    assert code == 1, text
    assert "GPU001" in text
    assert "manifests/pool.yaml" in text
    assert "package.json" not in text

    subprocess.run(["bash", "-c", SYNTH], cwd=repository, check=True)
    code, text = run_outside([*command, "gpu-constructs-check-assembly", "--all-files"], repository, variables)
    assert code == 1, text
    assert "cdk.out/App.template.yaml" in text


def test_the_job_of_gitlab_writes_its_reports(repository: Path, wheel: Path) -> None:
    variables = {**GITLAB["variables"], "SYNTH": SYNTH, "CHECKER": str(wheel)}
    variables["CI_MERGE_REQUEST_DIFF_BASE_SHA"] = git(repository, "rev-parse", "HEAD^")

    code, text = run_outside(["bash", "-eo", "pipefail", "-c", "\n".join(GITLAB["script"])], repository, variables)

    assert code == 1, text
    reports = GITLAB["artifacts"]["reports"]
    assert "GPU001" in {each["check_name"] for each in json.loads((repository / reports["codequality"]).read_text())}
    assert ElementTree.parse(repository / reports["junit"]).findall(".//failure")
    assert [name for name in GITLAB["artifacts"]["paths"] if not (repository / name).is_file()] == []
