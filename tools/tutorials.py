"""Run the commands of the tutorials, and write their output into the pages: `make tutorials`.

A page is followed from top to bottom in an empty folder. A block with a title is a file to write. A ``diff`` block with
a title edits that file. A ``console`` block has commands after ``$``, each with its whole output. A ``sh`` block needs
an account and isn't run.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
# The cdk CLI of a new app mentions its flags on each call, and their number changes with each release. The notice of
# old data is on standard error, in no fixed place of the output.
_CHATTER = re.compile(r"^(\d+ feature flags are not configured\.|gpu-constructs: data is more than ).*\n", re.MULTILINE)


@dataclass(frozen=True)
class Shown:
    """A command of a page.

    Attributes:
        command: The command.
        output: The output that the page shows.
        actual: The output now.
        exit_code: The exit code now.
    """

    command: str
    output: str
    actual: str
    exit_code: int


def follow(page: Path, folder: Path) -> Iterator[Shown]:
    """Write the files of a page, run its commands, and yield each of them.

    Raises:
        ValueError: An edit doesn't fit its file.
    """
    programs = _programs(folder)
    work = folder / page.stem
    work.mkdir()
    for language, title, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "diff" and title:
            file = work / title
            file.write_text(_edited(file.read_text(encoding="utf-8"), text, title), encoding="utf-8")
        elif language == "console":
            yield from (_run(command, output, work, programs) for command, output in commands(text))
        elif title and language != "text":
            file = work / title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")


def commands(text: str) -> list[tuple[str, str]]:
    """Return each command of a console block and the output below it."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


def updated(page: Path, folder: Path) -> str:
    """Return a page with the output that its commands have now."""
    actual = iter(list(follow(page, folder)))

    def block(found: re.Match[str]) -> str:
        if found[1] != "console":
            return found[0]
        return "```console\n" + "".join(f"$ {each.command}\n{each.actual}" for each in _take(actual, found[3])) + "```"

    return BLOCK.sub(block, page.read_text(encoding="utf-8"))


def _take(actual: Iterator[Shown], text: str) -> list[Shown]:
    return [next(actual) for _ in commands(text)]


def _programs(folder: Path) -> Path:
    """Return a folder with the console script, which runs this checkout."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    script = programs / "gpu-constructs"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gpu_preflight.command_line.cli "$@"\n')
    script.chmod(0o755)
    return programs


def _run(command: str, output: str, folder: Path, programs: Path) -> Shown:
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {
        "PATH": path,
        "PYTHONPATH": str(ROOT),
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "1",
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    lines = "".join(f"{line.rstrip()}\n" for line in _CHATTER.sub("", done.stdout).splitlines())
    return Shown(command, output, lines, done.returncode)


def _edited(text: str, difference: str, title: str) -> str:
    lines = difference.splitlines()
    old = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
    new = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
    if text.count(old) != 1:
        raise ValueError(f"{title}: an edit must name lines that occur once, got {text.count(old)} times: {old!r}")
    return text.replace(old, new)


def main() -> None:
    """Write the pages."""
    for page in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            page.write_text(updated(page, Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
