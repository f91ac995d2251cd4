"""The script of the action, run in a scratch repository with the variables that GitHub would set."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.judges.shellcheck import complaints

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
SCRIPT = ROOT / "tools" / "action.sh"
BROKEN = (ROOT / "docs" / "pictures" / "p5.yaml").read_text()
FIXED = BROKEN.replace("AL2023_x86_64_STANDARD", "AL2023_x86_64_NVIDIA")


@dataclass(frozen=True, kw_only=True)
class Run:
    """Exit code of the step, its outputs, the summary of the job, and the log."""

    code: int
    outputs: Mapping[str, str]
    summary: str
    text: str


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two templates, and an installed environment as the first use of the action leaves it."""
    folder = tmp_path / "repository"
    folder.mkdir()
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    (folder / "broken.yaml").write_text(BROKEN)
    (folder / "fixed.yaml").write_text(FIXED)
    checksum = subprocess.run(
        ["cksum"], input=(ROOT / "requirements-command.txt").read_bytes(), capture_output=True, check=True
    ).stdout.split()[0]
    environment = tmp_path / "runner" / f"gpu-constructs-{checksum.decode()}"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    [packages] = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    (environment / ".complete").touch()
    return folder


def run(repository: Path, **inputs: str) -> Run:
    """Run the step as GitHub would, with the defaults of action.yml."""
    runner = repository.parent / "runner"
    output, summary = runner / "output", runner / "summary"
    output.write_text("")
    summary.write_text("")
    values = {name: each.get("default", "") for name, each in ACTION["inputs"].items()} | {
        name.replace("_", "-"): value for name, value in inputs.items()
    }
    environment = {
        "PATH": os.environ["PATH"],
        "RUNNER_TEMP": str(runner),
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(summary),
    } | {f"INPUT_{name.upper().replace('-', '_')}": value for name, value in values.items()}
    [step] = ACTION["runs"]["steps"]
    done = subprocess.run(
        [step["shell"], "-eo", "pipefail", "-c", step["run"]],
        cwd=repository,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    pairs = dict(line.split("=", 1) for line in output.read_text().splitlines())
    return Run(code=done.returncode, outputs=pairs, summary=summary.read_text(), text=done.stdout + done.stderr)


def test_script_is_clean() -> None:
    assert complaints(SCRIPT.read_text()) == ""


def test_every_input_reaches_the_script_as_a_variable() -> None:
    [step] = ACTION["runs"]["steps"]
    passed = {f"INPUT_{name.upper().replace('-', '_')}": f"${{{{ inputs.{name} }}}}" for name in ACTION["inputs"]}

    assert step["env"] == passed
    assert "${{" not in step["run"]
    assert "${{" not in SCRIPT.read_text()
    assert [name for name in passed if name not in SCRIPT.read_text()] == []


def test_reviews_a_change_and_names_the_reports(repository: Path) -> None:
    done = run(repository, before="broken.yaml", after="fixed.yaml")

    assert (done.code, done.outputs["outcome"]) == (0, "passes"), done.text
    assert done.summary.startswith("### ⚠️ GPU review: 1 pool replaced (every node is drained)")
    assert done.summary == Path(done.outputs["markdown"]).read_text()
    assert '"version": "2.1.0"' in Path(done.outputs["sarif"]).read_text()
    assert Path(done.outputs["html"]).read_text().startswith("<!doctype html>")


def test_fails_after_it_has_written_everything(repository: Path) -> None:
    done = run(repository, paths="broken.yaml", output="reports")

    assert (done.code, done.outputs["outcome"]) == (1, "fails"), done.text
    assert "GPU001" in done.summary
    assert (repository / "reports" / "report.sarif").is_file()


def test_two_uses_in_one_job_keep_their_reports(repository: Path) -> None:
    first = run(repository, paths="broken.yaml")
    second = run(repository, paths="fixed.yaml")

    assert Path(first.outputs["markdown"]).read_text() == first.summary
    assert Path(second.outputs["markdown"]).read_text() == second.summary
    assert Path(first.outputs["sarif"]).read_text() != Path(second.outputs["sarif"]).read_text()


def test_fails_only_when_asked_to(repository: Path) -> None:
    assert run(repository, paths="broken.yaml", fail_on="never").code == 0


def test_checks_several_paths_one_a_line(repository: Path) -> None:
    shutil.copy(repository / "broken.yaml", repository / "with space.yaml")

    done = run(repository, paths="fixed.yaml\nwith space.yaml\n")

    assert (done.code, done.outputs["outcome"]) == (1, "fails"), done.text
    assert "with space.yaml" in done.text


def test_a_wrong_input_is_an_error_without_reports(repository: Path) -> None:
    done = run(repository, paths="missing.yaml")

    assert (done.code, done.outputs) == (2, {"outcome": "error"})
    assert "missing.yaml" in done.text
    assert done.summary == ""


@pytest.mark.parametrize("step", ["venv", "pip"])
def test_a_failed_installation_is_an_error_at_each_use(repository: Path, step: str) -> None:
    """A use after a failed one installs again, and doesn't take the unfinished environment."""
    [environment] = repository.parent.glob("runner/gpu-constructs-*")
    shutil.rmtree(environment)
    python = repository / "python"
    python.write_text(
        f"""#!/bin/sh
        echo "$0 $*" >>"{repository}/started"
        [ {step} = venv ] && exit 1
        mkdir -p "{environment}/bin"
        [ -e "{environment}/bin/python" ] || cp "$0" "{environment}/bin/python"
        case "$*" in *pip*) exit 1 ;; esac
        """
    )
    python.chmod(0o755)

    uses = [run(repository, paths="fixed.yaml", python=str(python)) for _ in range(2)]

    assert [(each.code, each.outputs) for each in uses] == [(2, {"outcome": "error"})] * 2
    assert (repository / "started").read_text().count(" -m venv ") == 2


def test_a_crash_is_an_error_and_not_a_failed_check(repository: Path) -> None:
    """Python exits with 1 for a traceback; reports of an earlier run aren't used for this one."""
    assert run(repository, paths="fixed.yaml", output="reports").code == 0
    for file in repository.parent.glob("runner/*/lib/python*/site-packages/dependencies.pth"):
        file.unlink()

    done = run(repository, paths="fixed.yaml", output="reports")

    assert (done.code, done.outputs, done.summary) == (2, {"outcome": "error"}, "")
    assert "ModuleNotFoundError" in done.text


def test_a_limit_without_a_review_is_an_error(repository: Path) -> None:
    done = run(repository, paths="fixed.yaml", max_usd_per_month="1000")

    assert (done.code, done.outputs) == (2, {"outcome": "error"})
    assert "set before" in done.text


def test_settings_below_the_working_directory_are_read_only_if_named(repository: Path) -> None:
    """As the reusable workflow reviews: the files of the pull request are in a folder below."""
    for side in ("before", "after"):
        (repository / "assemblies" / side).mkdir(parents=True)
        shutil.copy(repository / "broken.yaml", repository / "assemblies" / side)
    settings = repository / "assemblies" / "after" / "pyproject.toml"
    settings.write_text('[tool.gpu-constructs.ignore]\nGPU001 = "our image has the driver"\n')
    sides = {side: f"assemblies/{side}/broken.yaml" for side in ("before", "after")}

    assert run(repository, **sides).outputs["outcome"] == "fails"
    assert run(repository, **sides, args="--config assemblies/after/pyproject.toml").outputs["outcome"] == "passes"


def test_arguments_are_split_and_never_executed(repository: Path) -> None:
    text = "$(touch executed) ; touch executed `touch executed` *"

    done = run(repository, paths="fixed.yaml", args=f'--fail-on never --assume "{text}"')

    assert (done.code, done.outputs) == (2, {"outcome": "error"})
    assert text in done.text
    assert not (repository / "executed").exists()


def test_a_path_is_no_option(repository: Path) -> None:
    done = run(repository, paths="--help")

    assert (done.code, done.outputs["outcome"]) == (2, "error")


def test_arguments_with_an_open_quote_are_an_error(repository: Path) -> None:
    done = run(repository, paths="fixed.yaml", args="--assume 'device-plugin")

    assert (done.code, done.outputs) == (2, {"outcome": "error"})


def test_the_checker_is_never_that_of_the_pull_request(repository: Path) -> None:
    for package in ("gpu_constructs", "gpu_preflight", "yaml", "click"):
        (repository / package).mkdir()
        (repository / package / "__init__.py").write_text("raise SystemExit('the code of the pull request runs')")

    done = run(repository, paths="fixed.yaml")

    assert (done.code, done.outputs["outcome"]) == (0, "passes"), done.text
