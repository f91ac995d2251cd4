"""The function that applies definitions inside charts, with programs that write down how they are called.

With the real helm, kubectl and API server: tests/e2e/test_chart_definitions.py.
"""

from __future__ import annotations

import importlib
import json
import tempfile
import time
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
# Records its name, its arguments and its input, and prints or fails as the test configures it.
PROGRAM = """#!/usr/bin/env python3
import json, os, pathlib, select, sys
name = pathlib.Path(sys.argv[0]).name
given = sys.stdin.read() if "-" in sys.argv or "--password-stdin" in sys.argv else ""
here = pathlib.Path(sys.argv[0]).parent
with (here / "calls").open("a") as calls:
    homes = {os.environ[each] for each in ("HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
    homes.add(os.path.dirname(os.environ["KUBECONFIG"]))
    calls.write(json.dumps([[name, *sys.argv[1:]], given, sorted(homes)]) + "\\n")
failures = here / f"{name}.fails"
left = int(failures.read_text()) if failures.exists() else 0
if left:
    failures.write_text(str(left - 1))
    sys.exit((here / f"{name}.words").read_text())
if name == "helm" and sys.argv[1] == "pull":
    # As helm does of a registry.
    print("Pulled: it")
if (here / f"{name}.hangs").exists():
    import time
    time.sleep(30)
print(f"{name} {sys.argv[1]} {sys.argv[2]}")
"""


class Remaining:
    """The time that Lambda still gives a function."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        """The time that Lambda's context returns."""
        return int(1000 * (self._ends - time.monotonic()))


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

    def fail(self, name: str, times: int, words: str = "") -> None:
        """Have the next calls of one fail."""
        (self._folder / f"{name}.fails").write_text(str(times))
        (self._folder / f"{name}.words").write_text(words or f"{name} does not want to")

    def hang(self, name: str) -> None:
        """Have one not come to an end."""
        (self._folder / f"{name}.hangs").touch()

    @property
    def home(self) -> str:
        """The one folder that all of them were configured to write to."""
        [home] = {each for _, _, homes in self.calls for each in homes}
        return str(home)

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

    def asked(kind: str, properties: dict[str, str], *, seconds: int = 270, old: str = "") -> dict[str, Any]:
        before = {"OldResourceProperties": {**properties, "Version": old}} if old else {}
        code.handler(event_of("JobSetsDefinitions", kind, properties) | before, Remaining(seconds))
        return answers.sent[-1]

    return asked


Ask = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_definitions_of_the_version_are_applied_over_whatever_is_there(kind: str, ask: Ask, programs: Programs) -> None:
    answer = ask(kind, JOBSET)

    assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", "JobSetsDefinitions")
    home = programs.home
    assert programs.commands == [
        "aws eks update-kubeconfig --name demo",
        f"helm pull oci://registry.k8s.io/jobset/charts/jobset --version 0.12.0 --untar --untardir {home}",
        f"helm show crds {home}/jobset",
        "kubectl apply --server-side --force-conflicts -f -",
    ]
    # And none of helm's output about the pull.
    assert programs.calls[-1][1] == "helm show crds\n"


def test_a_repository_without_oci_is_named_with_the_chart(ask: Ask, programs: Programs) -> None:
    ask("Create", KUBERAY)

    pulled = "helm pull kuberay-operator --repo https://ray-project.github.io/kuberay-helm --version 0.12.0 --untar"
    assert [each for each in programs.commands if each.startswith(pulled)]


def test_a_mirror_in_ecr_is_logged_in_to_without_the_password_on_a_command_line(ask: Ask, programs: Programs) -> None:
    ask("Create", MIRRORED)

    assert programs.commands[1:3] == [
        "aws ecr get-login-password --region us-east-1",
        f"helm registry login --username AWS --password-stdin {REGISTRY}",
    ]
    assert programs.calls[2][1] == "aws ecr get-login-password\n"


def test_nothing_is_written_outside_of_a_folder_that_goes(ask: Ask, programs: Programs) -> None:
    ask("Create", JOBSET)

    home = Path(programs.home)
    assert home.parent == Path(tempfile.gettempdir())
    assert not home.exists()


def test_a_delete_leaves_them_and_calls_no_api(ask: Ask, programs: Programs) -> None:
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


def test_a_registry_that_never_answers_is_said_in_time(ask: Ask, programs: Programs) -> None:
    programs.hang("helm")

    # 20 of them are kept for the answer.
    answer = ask("Create", JOBSET, seconds=22)

    assert answer["Status"] == "FAILED"
    assert "timed out" in answer["Reason"]


def test_without_time_for_another_attempt_it_answers(ask: Ask, programs: Programs) -> None:
    programs.fail("helm", 100)

    assert ask("Create", JOBSET, seconds=70)["Status"] == "FAILED"
    assert [each for each in programs.commands if each.startswith("aws")] == [
        "aws eks update-kubeconfig --name demo"
    ] * 2


def test_definitions_that_are_newer_than_a_rollback_stay(ask: Ask, programs: Programs) -> None:
    programs.fail("kubectl", 100, 'status.storedVersions[1]: Invalid value: "v1": missing from spec.versions')

    assert ask("Update", JOBSET, old="0.13.0")["Status"] == "SUCCESS"


@pytest.mark.parametrize("old", ["", "0.11.1", "0.12.0", "v0.9.12-rc.1"])
def test_an_update_fails_where_objects_are_kept_in_a_version_that_is_gone(
    ask: Ask, programs: Programs, old: str
) -> None:
    programs.fail("kubectl", 100, 'status.storedVersions[1]: Invalid value: "v1": missing from spec.versions')

    assert ask("Update", JOBSET, old=old)["Status"] == "FAILED"
