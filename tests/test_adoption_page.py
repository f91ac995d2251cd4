"""docs/how-to/adoption.md: its commands print what the page shows, in a repository with 40 findings."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.legacy_repository import write_legacy_repository
from tests.preflight.command_line.test_cli import as_process
from tests.test_readme import is_shown
from tools.tutorials import BLOCK, commands

PAGE = (ROOT / "docs" / "how-to" / "adoption.md").read_text()
SHOWN = [each for language, _, text in BLOCK.findall(PAGE) if language == "console" for each in commands(text)]
SETTINGS = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
CODES = {"gpu-constructs check .": 1}


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the page in a folder."""
    program, *words = shlex.split(command)
    assert program == "gpu-constructs"
    return as_process(*words, cwd=folder)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository, with settings that its commands only print."""
    folder = tmp_path_factory.mktemp("legacy")
    write_legacy_repository(folder)
    return folder


def test_a_repository_with_40_findings_adopts_the_checker_in_three_commands(repository: Path) -> None:
    before = json.loads(run("gpu-constructs check . --format json", repository).stdout)
    assert len(before["findings"]) == 40

    assert len(SHOWN) == 4
    for command, output in SHOWN[:3]:
        done = run(command, repository)
        assert done.returncode == CODES.get(command, 0), done.stderr
        assert is_shown(output.splitlines(), done.stdout.splitlines()), done.stdout


def test_after_the_adoption_only_new_findings_fail(repository: Path) -> None:
    command = "gpu-constructs check . --baseline gpu-baseline.json --format json"
    template = repository / "infra" / "cluster.yaml"
    old = template.read_text()
    # Other lines and other messages are no news; another pool is.
    template.write_text("# moved\n" + old.replace("MaxSize: 4", "MaxSize: 5"))
    moved = run(command, repository)
    group = re.search(r"^  Search:\n(?: {4}.*\n)+", old, re.MULTILINE)
    assert group
    template.write_text(old + group[0].replace("Search", "Added"))
    added = run(command, repository)
    template.write_text(old)

    assert moved.returncode == 0
    assert [line for line in moved.stderr.splitlines() if "days old" not in line] == []
    assert added.returncode == 1
    new = [each for each in json.loads(added.stdout)["findings"] if each["acknowledged"] is None]
    assert {each["origin"]["path"] for each in new if each["severity"] != "note"} == {"cluster/Added"}


def test_explain_gives_the_same_answers_after_the_adoption(repository: Path) -> None:
    plain = run("gpu-constructs explain .", repository)
    (repository / "gpu-constructs.toml").write_text('baseline = "gpu-baseline.json"\n[ignore]\nGPU001 = "known"\n')
    adopted = run("gpu-constructs explain .", repository)
    (repository / "gpu-constructs.toml").unlink()

    assert (plain.returncode, plain.stdout) == (adopted.returncode, adopted.stdout)
    assert plain.returncode == 1


def test_the_settings_of_the_page_are_shown_with_their_origin(tmp_path: Path) -> None:
    [settings] = SETTINGS
    (tmp_path / "pyproject.toml").write_text(settings)
    command, output = SHOWN[3]

    done = run(command, tmp_path)

    assert done.returncode == 0, done.stderr
    assert is_shown(output.splitlines(), done.stdout.splitlines()), done.stdout
