"""Our workflows, the action and the files to copy: they may do no more than they need, and their commands exist."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from gpu_preflight.command_line.cli import cli
from tests.conftest import ROOT
from tools.build_distribution import pythons

FOLDER = ROOT / ".github" / "workflows"
EXAMPLE = ROOT / "examples" / "github-actions" / "gpu-review.yml"
Workflow = dict[Any, Any]
# YAML 1.1 reads the key "on" as true.
WORKFLOWS: dict[str, Workflow] = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yml"))}
COPY: Workflow = yaml.safe_load(EXAMPLE.read_text())
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
GITLAB: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "gitlab" / "gpu-review.yml").read_text())["gpu-review"]
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
HOW_TO = tuple(ROOT / "docs" / "how-to" / name for name in ("github-actions.md", "ci.md", "agents.md"))
DOCUMENTS = (ROOT / "docs" / "reference" / "checker.md", *HOW_TO)
FILES = [*sorted(FOLDER.glob("*.yml")), EXAMPLE, ROOT / "action.yml", ROOT / "examples" / "gitlab" / "gpu-review.yml"]


def jobs() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every job of our workflows with its workflow and name."""
    for name, workflow in WORKFLOWS.items():
        for job, content in workflow["jobs"].items():
            yield name, job, content


def steps(job: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps of a job."""
    return list(job.get("steps", ()))


def used() -> list[str]:
    """Every action in the steps of our workflows, with its version comment."""
    text = "".join(path.read_text() for path in FOLDER.glob("*.yml"))
    return re.findall(r"uses: (\S+@.+)$", text, re.MULTILINE)


def command_lines() -> Iterator[str]:
    """Every line of the documents that calls the console script."""
    blocks = [block for each in DOCUMENTS for block in re.findall(r"```sh\n(.*?)```", each.read_text(), re.DOTALL)]
    for block in blocks:
        yield from re.findall(r"^gpu-constructs .*$", block, re.MULTILINE)
    for hook in HOOKS:
        yield shlex.join([*shlex.split(hook["entry"]), *hook.get("args", ())])
    text = "\n".join(GITLAB["script"]).replace("\\\n", " ")
    yield from (
        line.replace('"$checker/bin/gpu-constructs"', "gpu-constructs")
        for line in text.splitlines()
        if "review " in line
    )


@pytest.mark.parametrize("line", list(command_lines()))
def test_commands_are_understood(line: str) -> None:
    words = shlex.split(re.sub(r"\|\|.*", "", line), comments=True)[1:]
    command = cli.commands[words[0]]

    context = command.make_context(words[0], words[1:])

    assert isinstance(context, click.Context)


def test_every_command_is_documented() -> None:
    told = "".join(each.read_text() for each in DOCUMENTS)
    documented = set(re.findall(r"(?:^|`)gpu-constructs (\w+)", told, re.MULTILINE))

    assert documented == set(cli.commands)


def test_every_option_is_documented() -> None:
    told = "".join(each.read_text() for each in DOCUMENTS)
    options = {
        option
        for command in cli.commands.values()
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and option not in ("--help", "--file")
    }

    assert {option for option in options if option not in told} == set()


def test_every_input_and_output_of_the_action_is_documented() -> None:
    told = (ROOT / "docs" / "how-to" / "github-actions.md").read_text()

    assert {name for name in (*ACTION["inputs"], *ACTION["outputs"]) if f"`{name}`" not in told} == set()


def test_the_called_workflow_passes_on_its_inputs() -> None:
    inputs = WORKFLOWS["review"][True]["workflow_call"]["inputs"]
    [step] = [each for each in steps(WORKFLOWS["review"]["jobs"]["review"]) if each.get("uses") == "./checker"]

    assert set(step["with"]) <= set(ACTION["inputs"])
    shared = set(inputs) & set(ACTION["inputs"])
    assert {name: step["with"][name] for name in shared} == {name: f"${{{{ inputs.{name} }}}}" for name in shared}
    assert {inputs[name]["default"] == ACTION["inputs"][name]["default"] for name in shared} == {True}
    assert set(COPY["jobs"]["gpu-review"]["with"]) <= set(inputs)


def test_nothing_that_runs_the_pull_request_may_write() -> None:
    synthesize, review, report = WORKFLOWS["review"]["jobs"].values()

    assert synthesize["permissions"] == review["permissions"] == {"contents": "read"}
    assert report["permissions"] == {"pull-requests": "write", "security-events": "write"}
    assert not any("checkout" in step.get("uses", "") or "./" in step.get("uses", "") for step in steps(report))
    assert COPY["jobs"]["gpu-review"]["permissions"] == review["permissions"] | report["permissions"]
    assert "token" not in (ROOT / "action.yml").read_text().replace("no token", "")


def test_the_checker_of_a_pull_request_is_that_of_the_called_workflow() -> None:
    """Code of the pull request runs on another machine, and its files can't replace the checker or the reports."""
    synthesize, review, report = map(steps, WORKFLOWS["review"]["jobs"].values())
    [checkout] = [step["with"] for step in review if "checkout" in step.get("uses", "")]
    [assemblies] = [step["with"] for step in review if "download" in step.get("uses", "")]
    [reports] = [step["with"] for step in report if "download" in step.get("uses", "")]

    assert checkout["repository"] == "${{ job.workflow_repository }}"
    assert checkout["ref"] == "${{ job.workflow_sha }}"
    assert [step for step in (*review, *report) if "SYNTH" in step.get("env", {})] == []
    assert [step for step in synthesize if step.get("uses") == "./checker"] == []
    assert (checkout["path"], assemblies["path"]) == ("checker", "assemblies")
    assert reports == {"artifact-ids": "${{ needs.review.outputs.reports }}"}
    assert WORKFLOWS["review"]["jobs"]["review"]["outputs"] == {"reports": "${{ steps.upload.outputs.artifact-id }}"}


def test_the_checker_gets_both_assemblies_where_they_were_downloaded() -> None:
    synthesize, review, _ = map(steps, WORKFLOWS["review"]["jobs"].values())
    [upload] = [step["with"] for step in synthesize if "upload" in step.get("uses", "")]
    [download] = [step["with"] for step in review if "download" in step.get("uses", "")]
    [check] = [step["with"] for step in review if step.get("uses") == "./checker"]

    assert upload["name"] == download["name"]
    assert upload["path"].splitlines() == [
        *(check[side].removeprefix(f"{download['path']}/") for side in ("before", "after")),
        "${{ inputs.files }}",
    ]


def test_runs_on_pull_requests_without_secrets() -> None:
    assert COPY[True] == "pull_request"
    assert [
        path.name for path in FILES if "secrets." in path.read_text() or "pull_request_target" in path.read_text()
    ] == []


def test_no_workflow_may_do_anything_by_default() -> None:
    granted = {name: workflow["permissions"] for name, workflow in WORKFLOWS.items() if workflow["permissions"]}

    assert granted == {"stale": {"contents": "read"}}


def test_only_a_job_that_checks_nothing_out_may_write_or_be_trusted() -> None:
    for workflow, name, job in jobs():
        if "write" in job.get("permissions", {}).values():
            assert not any("checkout" in step.get("uses", "") for step in steps(job)), (workflow, name)


def test_the_upload_is_trusted_by_environment_and_has_no_other_permission() -> None:
    publish = WORKFLOWS["release"]["jobs"]["publish"]

    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"] == "pypi"
    assert "password" not in (FOLDER / "release.yml").read_text()
    assert WORKFLOWS["release"]["jobs"]["attest"]["permissions"] == {"attestations": "write", "id-token": "write"}


def test_every_action_is_pinned_by_commit_with_its_version() -> None:
    assert len(used()) > 20
    assert [each for each in used() if not re.fullmatch(r"[\w-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each)] == []
    assert len({each.split("@")[0] for each in used()}) == len(set(used())), "one version of each action"
    assert {each.split("/")[0] for each in used()} == {"actions", "github", "pypa"}


def test_every_checkout_leaves_no_credentials() -> None:
    checkouts = [step for _, _, job in jobs() for step in steps(job) if "checkout" in step.get("uses", "")]

    assert checkouts
    assert {step["with"]["persist-credentials"] for step in checkouts} == {False}


def test_the_matrix_is_that_of_the_classifiers() -> None:
    """The versions that the tests run on are those that the package promises."""
    assert pythons()[0] == "3.10"
    for name in ("wheel", "tests"):
        assert (
            WORKFLOWS["ci"]["jobs"][name]["strategy"]["matrix"]["python"]
            == "${{ fromJSON(needs.build.outputs.pythons) }}"
        )


def test_one_check_stands_for_all() -> None:
    ci = WORKFLOWS["ci"]["jobs"]

    assert set(ci["required-checks-pass"]["needs"]) == set(ci) - {"required-checks-pass"}
    assert ci["required-checks-pass"]["if"] == "always()"


@pytest.mark.parametrize("tag", ["v1;touch made", "v1$(touch made)", "v1$(shell touch made)", "v1'\"`touch made`", ""])
def test_the_tag_of_a_release_is_never_executed(tmp_path: Path, tag: str) -> None:
    """Make and the shell pass it on as it is; without a tag, the ages of pins aren't checked."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("python", "pytest", "pyroma", "twine", "check-wheel-contents"):
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $1 $GPU_CONSTRUCTS_TAG" >>"{tmp_path}/ran"\n')
        (programs / name).chmod(0o755)
    for stamp in (".synth", ".dev", ".dist"):
        (tmp_path / stamp).touch()
    [step] = [each for each in steps(WORKFLOWS["release"]["jobs"]["check"]) if "TAG" in each.get("env", {})]
    folder = os.path.relpath(tmp_path, ROOT)

    subprocess.run(
        ["make", "--silent", *shlex.split(step["run"])[1:], f"VENV={folder}"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "TAG": tag},
        check=True,
    )

    ran = (tmp_path / "ran").read_text().splitlines()
    assert f"pytest -n {tag}" in ran
    assert any("tools/stale.py" in line for line in ran) == bool(tag)
    assert not (ROOT / "made").exists()


def test_make_targets_of_workflows_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = [re.findall(r"\bmake ([a-z-]+)", str(step.get("run"))) for _, _, job in jobs() for step in steps(job)]

    assert {target for each in called for target in each} <= targets
    assert " release-check" in (ROOT / ".ci" / "run").read_text()


def test_the_site_is_built_when_its_sources_change() -> None:
    """Its pages are made of docstrings, tables, and fixtures and messages of rules, too."""
    docs = WORKFLOWS["docs"]
    packages = {f"{path.name}/**" for path in ROOT.glob("gpu_*") if path.is_dir()}
    patterns = docs[True]["pull_request"]["paths"]

    sources = {"docs/**", "skills/**", "tests/preflight/**", "tests/site/**", "tools/docs/**", "zensical.toml"}
    assert sources <= set(patterns)
    assert [each for each in packages if not any(fnmatch(each, pattern) for pattern in patterns)] == []
    commands = [step.get("run") for step in steps(docs["jobs"]["documents"])]
    assert commands[-2:] == ["make docs", 'make test ARGS="-m site tests/site/test_pages.py"']


def test_what_is_stale_is_listed_weekly_and_never_in_the_gate() -> None:
    weekly = WORKFLOWS["stale"]
    [each] = weekly[True]["schedule"]
    *_, weekday = each["cron"].split()

    assert weekday.isdigit()
    assert set(weekly[True]) == {"schedule", "workflow_dispatch"}
    assert "make stale" in [step.get("run") for step in weekly["jobs"]["stale"]["steps"]]
    assert "stale" not in (ROOT / ".ci" / "run").read_text()


def test_no_expression_is_in_a_script() -> None:
    """The shell would run the title or branch of a pull request."""
    assert not [step for _, _, job in jobs() for step in steps(job) if "${{" in str(step.get("run"))]


def test_every_file_states_that_it_never_ran() -> None:
    ours = [path for path in FILES if path != EXAMPLE]

    assert [path.name for path in ours if not re.search(r"Git(Hub|Lab) has\s+never run", path.read_text())] == []
    for document in DOCUMENTS[1:3]:
        assert re.search(r"has\s+never run", document.read_text()), document


def test_documents_show_where_the_files_are() -> None:
    assert "../examples/github-actions/gpu-review.yml" in DOCUMENTS[1].read_text()
    assert "../examples/gitlab/gpu-review.yml" in DOCUMENTS[2].read_text()
    assert [path for path in FILES if not Path(path).is_file()] == []
