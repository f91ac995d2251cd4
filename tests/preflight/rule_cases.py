"""The fixtures of rules: whole files, and cases that are edits of one of them.

``tests/preflight/rules/GPU361`` holds at least one whole file, as a user would write it, and ``cases.yaml`` with the
cases that differ from it in a few lines::

    passes_every_container_requests_it:
      case: Every container requests CPU.
      like: fails_container_without_request
      edits:
        - replace: |
            resources: {requests: {memory: 8Gi}}
          with: |
            resources: {requests: {cpu: 1, memory: 8Gi}}

An edit names lines that occur once in the whole file, at any indentation. It replaces them (``with``), removes them
(``remove``), or adds lines after them (``after``, ``add``). `FIXTURES` is a folder with every case as a file, where
``case`` is the first line.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import yaml

RULES = Path(__file__).parent / "rules"
CASES = "cases.yaml"
EDITS = ({"replace", "with"}, {"after", "add"}, {"remove"})
# A folder that is ignored by git, of one checkout.
WRITTEN = RULES.parents[2] / ".cache" / "rule-cases"
KEPT_SECONDS = 24 * 3600
# PyYAML may be without libyaml.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def edit(lines: list[str], old: list[str], new: list[str], who: str) -> list[str]:
    """Return lines in which a block is replaced by another, at the indentation of the block.

    Raises:
        ValueError: The block isn't in the lines exactly once.
    """
    blocks = (lines[start : start + len(old)] for start in range(len(lines) - len(old) + 1))
    found = [start for start, block in enumerate(blocks) if dedent("\n".join(block)) == dedent("\n".join(old))]
    if len(found) != 1:
        raise ValueError(f"{who}: an edit must name lines that occur once, got {len(found)} times: {old[0].strip()!r}")
    (start,) = found
    depth = len(lines[start]) - len(lines[start].lstrip()) - (len(old[0]) - len(old[0].lstrip()))
    return [*lines[:start], *(indent(line, " " * depth) for line in new), *lines[start + len(old) :]]


def case_text(folder: Path, name: str, case: Mapping[str, Any]) -> str:
    """Return the text of a case: the file ``like`` with the edits applied, and ``case`` as first line.

    Raises:
        ValueError: An edit has other keys, or its block isn't in the file exactly once.
    """
    lines = (folder / f"{case['like']}.yaml").read_text().splitlines()[1:]
    for change in case["edits"]:
        if set(change) not in EDITS or not all(change.values()):
            raise ValueError(
                f"{folder.name}/{name}: an edit must have replace and with, or after and add, or remove, got {change}"
            )
        old = next(change[key] for key in ("replace", "after", "remove") if key in change).splitlines()
        new = change.get("with", "").splitlines() + (old + change["add"].splitlines() if "add" in change else [])
        lines = edit(lines, old, new, f"{folder.name}/{name}")
    return "\n".join([f"# {case['case']}", *lines]) + "\n"


def case_texts() -> Iterator[tuple[str, str]]:
    """Yield ``RULE/NAME.yaml`` and the text of every case of every rule."""
    for folder in sorted(RULES.iterdir()):
        for file in sorted(folder.glob("[fp]*.yaml")):
            yield f"{folder.name}/{file.name}", file.read_text()
        if (folder / CASES).exists():
            cases = yaml.load((folder / CASES).read_text(), Loader=_LOADER)
            for name, case in cases.items():
                yield f"{folder.name}/{name}.yaml", case_text(folder, name, case)


def write_cases() -> Path:
    """Write every case to a folder named by a hash of all fixtures, unless it exists, and return the folder."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for file in sorted(RULES.rglob("*.yaml")):
        digest.update(f"{file.relative_to(RULES)}\n{file.read_text()}".encode())
    place = WRITTEN / digest.hexdigest()[:16]
    if place.exists():
        return place
    WRITTEN.mkdir(parents=True, exist_ok=True)
    before = [each for each in WRITTEN.iterdir() if each.stat().st_mtime < time.time() - KEPT_SECONDS]
    with tempfile.TemporaryDirectory(dir=WRITTEN, ignore_cleanup_errors=True) as unfinished:
        for name, text in case_texts():
            (Path(unfinished) / name).parent.mkdir(exist_ok=True)
            with (Path(unfinished) / name).open("x") as case:
                case.write(text)
        # Another process may be faster.
        with contextlib.suppress(OSError):
            Path(unfinished).rename(place)
    for each in before:
        shutil.rmtree(each, ignore_errors=True)
    return place


FIXTURES = write_cases()
