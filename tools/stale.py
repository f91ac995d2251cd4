"""List outdated rows, and packages with a newer version in their registry.

`make stale` calls the registries that pip and go are configured for, and prints where to look for other rows. It exits
with 1 if a row is too old. `ARGS=--offline` calls no registry.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from tempfile import TemporaryDirectory

from gpu_facts.today import today
from tools.stale_rows import ALLOWED, Row, rows

_SECONDS = 60
_AT_ONCE = 4


def main() -> None:
    """Print the list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--offline", action="store_true", help="ask no registry")
    every = rows()
    over = too_old(every, today())
    for line in report(over, today()):
        print(line)
    if not parser.parse_args().offline:
        for line in newer(every):
            print(line)
    print(f"{len(over)} of {len(every)} are older than allowed")
    sys.exit(1 if over else 0)


def too_old(every: Iterable[Row], now: date) -> list[Row]:
    """Return the rows that are older than allowed, the most overdue first."""
    return sorted((each for each in every if each.days_over(now) > 0), key=lambda each: -each.days_over(now))


def report(over: Iterable[Row], now: date) -> Iterator[str]:
    """Yield a line for each row that is too old: its name, its date, and where the next version appears."""
    for each in over:
        age, allowed = (now - each.day).days, ALLOWED[each.kind]
        said = f"{each.name} {each.version}".strip()
        yield f"{each.kind}: {said}, read {each.as_of}, {age} days ago ({allowed} allowed); look at {each.source}"


def newer(every: Iterable[Row]) -> Iterator[str]:
    """Yield the results of registries: a newer version, or an error."""
    asked = {each.registry: each for each in every if each.registry}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for row, (found, problem) in zip(asked.values(), pool.map(ask, asked), strict=True):
            if problem:
                yield f"not known: {row.registry}: {problem}"
            elif found.removeprefix("v") != row.version.removeprefix("v"):
                yield f"newest: {row.registry} {found}, pinned {row.version}"


def ask(registry: str) -> tuple[str, str]:
    """Return the newest version of a package in a registry, or an error."""
    index, _, name = registry.partition(":")
    with TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                _COMMANDS[index](name),
                cwd=folder,
                env=os.environ | {"GOFLAGS": "-mod=mod", "GO111MODULE": "on"},
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return "", str(error)
    if done.returncode:
        return "", (done.stderr.strip().splitlines() or ["no answer"])[-1]
    return _ANSWERS[index](done.stdout), ""


def _pip_version(text: str) -> str:
    # The first line is "name (version)".
    return text.partition("(")[2].partition(")")[0]


def _go_version(text: str) -> str:
    return str(json.loads(text)["Version"])


_COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "pip": lambda name: [sys.executable, "-m", "pip", "index", "versions", name],
    "go": lambda name: ["go", "list", "-m", "-json", f"{name}@latest"],
}
_ANSWERS: dict[str, Callable[[str], str]] = {"pip": _pip_version, "go": _go_version}


if __name__ == "__main__":
    main()
