"""The workflow to copy, and our own: they may do no more than they need, and their commands are commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from gpu_preflight.command_line.cli import cli
from tests.conftest import ROOT

WORKFLOW = ROOT / "examples" / "github-actions" / "gpu-review.yml"
# YAML 1.1 reads the key "on" as true.
CONTENT: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text())
WEEKLY: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "stale.yml").read_text())
DOCUMENTS = (ROOT / "docs" / "preflight.md", ROOT / "docs" / "github-actions.md")


def steps(job: str) -> list[dict[str, Any]]:
    """The steps of a job."""
    return list(CONTENT["jobs"][job]["steps"])


def command_lines() -> Iterator[str]:
    """Every line of the workflow and of the documents that calls the console script."""
    texts = [str(step["run"]) for job in CONTENT["jobs"] for step in steps(job) if "run" in step]
    texts += [block for each in DOCUMENTS for block in re.findall(r"```sh\n(.*?)```", each.read_text(), re.DOTALL)]
    for text in texts:
        yield from re.findall(r"^gpu-constructs .*$", text, re.MULTILINE)


@pytest.mark.parametrize("line", list(command_lines()))
def test_commands_are_understood(line: str) -> None:
    words = shlex.split(re.sub(r"\|\|.*", "", line), comments=True)[1:]
    command = cli.commands[words[0]]

    context = command.make_context(words[0], words[1:])

    assert isinstance(context, click.Context)


def test_every_command_is_documented() -> None:
    documented = {line.split()[1] for line in command_lines()} | {"schema"}

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


def test_nothing_that_runs_the_pull_request_may_write() -> None:
    assert CONTENT["permissions"] == {}
    assert CONTENT["jobs"]["review"]["permissions"] == {"contents": "read"}
    assert not any("checkout" in step.get("uses", "") for step in steps("report"))


def test_runs_on_pull_requests_without_secrets() -> None:
    assert CONTENT[True] == "pull_request"
    assert "secrets." not in WORKFLOW.read_text()


@pytest.mark.parametrize("workflow", [CONTENT, WEEKLY], ids=lambda each: each["name"])
def test_actions_are_of_github_and_pinned_by_major_version(workflow: dict[Any, Any]) -> None:
    used = [step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step]

    assert used
    assert all(re.fullmatch(r"(actions|github)/[\w/-]+@v\d+", each) for each in used)


def test_what_is_stale_is_listed_weekly_and_never_in_the_gate() -> None:
    [each] = WEEKLY[True]["schedule"]
    *_, weekday = each["cron"].split()

    assert weekday.isdigit()
    assert set(WEEKLY[True]) == {"schedule", "workflow_dispatch"}
    assert WEEKLY["permissions"] == {"contents": "read"}
    assert "make stale" in [step.get("run") for step in WEEKLY["jobs"]["stale"]["steps"]]
    assert "stale" not in (ROOT / ".ci" / "run").read_text()


def test_no_expression_stands_in_a_script() -> None:
    """A title or a branch of somebody else's would be run."""
    assert not [step for job in CONTENT["jobs"] for step in steps(job) if "${{" in str(step.get("run"))]


def test_document_shows_where_the_workflow_is() -> None:
    assert "../examples/github-actions/gpu-review.yml" in (ROOT / "docs" / "github-actions.md").read_text()
    assert Path(WORKFLOW).is_file()
