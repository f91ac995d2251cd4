"""The function that applies definitions inside charts, with programs that write down how they are called.

With the real helm, kubectl and API server: tests/e2e/test_chart_definitions.py.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.cloudformation import Answers, event_of

JOBSET = {
    "Cluster": "demo",
    "Chart": "jobset",
    "Repository": "oci://registry.k8s.io/jobset/charts/jobset",
    "Version": "0.12.0",
}
KUBERAY = JOBSET | {"Chart": "kuberay-operator", "Repository": "https://ray-project.github.io/kuberay-helm"}
REGISTRY = "111122223333.dkr.ecr.us-east-1.amazonaws.com"
MIRRORED = JOBSET | {"Repository": f"oci://{REGISTRY}/charts/jobset"}
# Writes down its name, its arguments and what it is given, and prints or fails as it is told.
PROGRAM = """#!/usr/bin/env python3
import json, os, pathlib, select, sys
name = pathlib.Path(sys.argv[0]).name
given = sys.stdin.read() if "-" in sys.argv or "--password-stdin" in sys.argv else ""
here = pathlib.Path(sys.argv[0]).parent
with (here / "calls").open("a") as calls:
    calls.write(json.dumps([[name, *sys.argv[1:]], given, os.environ["HOME"]]) + "\\n")
failures = here / f"{name}.fails"
left = int(failures.read_text()) if failures.exists() else 0
if left:
    failures.write_text(str(left - 1))
    sys.exit(f"{name} does not want to")
print(f"{name} {sys.argv[1]} {sys.argv[2]}")
"""


class Programs:
    """aws, helm and kubectl.

    Args:
        folder: Where they are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("aws", "helm", "kubectl"):
            (folder / name).write_text(PROGRAM)
            (folder / name).chmod(0o755)

    def fail(self, name: str, times: int) -> None:
        """Have the next calls of one fail."""
        (self._folder / f"{name}.fails").write_text(str(times))

    @property
    def calls(self) -> list[Any]:
        """How they were called, what they were given, and where their home was."""
        file = self._folder / "calls"
        return [json.loads(each) for each in file.read_text().splitlines()] if file.exists() else []

    @property
    def commands(self) -> list[str]:
        """How they were called."""
        return [" ".join(command) for command, _, _ in self.calls]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return Programs(tmp_path)


@pytest.fixture
def code(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the function, as it starts in Lambda."""
    found = importlib.reload(importlib.import_module("gpu_constructs.installing.chart_definitions_handler"))
    monkeypatch.setattr(found.time, "sleep", lambda _: None)
    return found


@pytest.fixture
def ask(code: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Send an event, and return the answer."""
    answers = Answers(monkeypatch, code)

    def asked(kind: str, properties: dict[str, str]) -> dict[str, Any]:
        code.handler(event_of("JobSetsDefinitions", kind, properties), None)
        return answers.sent[-1]

    return asked


Ask = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_definitions_of_the_version_are_applied_over_whatever_is_there(kind: str, ask: Ask, programs: Programs) -> None:
    answer = ask(kind, JOBSET)

    assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", "JobSetsDefinitions")
    assert programs.commands == [
        "aws eks update-kubeconfig --name demo",
        "helm show crds oci://registry.k8s.io/jobset/charts/jobset --version 0.12.0",
        "kubectl apply --server-side --force-conflicts -f -",
    ]
    assert programs.calls[-1][1] == "helm show crds\n"


def test_a_repository_without_oci_is_named_beside_the_chart(ask: Ask, programs: Programs) -> None:
    ask("Create", KUBERAY)

    shown = "helm show crds kuberay-operator --repo https://ray-project.github.io/kuberay-helm --version 0.12.0"
    assert shown in programs.commands


def test_a_mirror_in_ecr_is_logged_in_to_without_the_password_on_a_command_line(ask: Ask, programs: Programs) -> None:
    ask("Create", MIRRORED)

    assert programs.commands[1:3] == [
        "aws ecr get-login-password --region us-east-1",
        f"helm registry login --username AWS --password-stdin {REGISTRY}",
    ]
    assert programs.calls[2][1] == "aws ecr get-login-password\n"


def test_nothing_is_written_outside_of_a_folder_that_goes(ask: Ask, programs: Programs) -> None:
    ask("Create", JOBSET)

    [home] = {home for _, _, home in programs.calls}
    assert home.startswith("/tmp/")
    assert not Path(home).exists()


def test_a_delete_leaves_them_and_asks_nobody(ask: Ask, programs: Programs) -> None:
    assert ask("Delete", JOBSET)["Status"] == "SUCCESS"
    assert programs.calls == []


@pytest.mark.parametrize("name", ["aws", "helm", "kubectl"])
def test_what_fails_at_first_is_tried_again(name: str, ask: Ask, programs: Programs) -> None:
    programs.fail(name, 3)

    assert ask("Create", JOBSET)["Status"] == "SUCCESS"


@pytest.mark.parametrize("name", ["aws", "helm", "kubectl"])
def test_what_fails_always_is_said_in_its_own_words(name: str, ask: Ask, programs: Programs) -> None:
    programs.fail(name, 100)

    answer = ask("Update", JOBSET)

    assert (answer["Status"], answer["PhysicalResourceId"]) == ("FAILED", "JobSetsDefinitions")
    assert f"{name} does not want to" in answer["Reason"]
