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

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import yaml
from yaml import CSafeLoader

RULES = Path(__file__).parent / "rules"
CASES = "cases.yaml"


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
    """Return the text of a case."""
    lines = (folder / f"{case['like']}.yaml").read_text().splitlines()[1:]
    for change in case["edits"]:
        old = change.get("replace") or change.get("remove") or change["after"]
        new = change.get("with", "") if "add" not in change else old + change["add"]
        lines = edit(lines, old.splitlines(), new.splitlines(), f"{folder.name}/{name}")
    return "\n".join([f"# {case['case']}", *lines]) + "\n"


def texts() -> Iterator[tuple[str, str]]:
    """Yield ``RULE/NAME.yaml`` and the text of every case of every rule."""
    for folder in sorted(RULES.iterdir()):
        for file in sorted(folder.glob("[fp]*.yaml")):
            yield f"{folder.name}/{file.name}", file.read_text()
        if (folder / CASES).exists():
            cases = yaml.load((folder / CASES).read_text(), Loader=CSafeLoader)
            for name, case in cases.items():
                yield f"{folder.name}/{name}.yaml", case_text(folder, name, case)


def written() -> Path:
    """Write every case to a folder that is named by their hash, unless it exists, and return the folder."""
    digest = hashlib.sha256()
    for file in sorted(RULES.rglob("*.yaml")):
        digest.update(f"{file.relative_to(RULES)}\n{file.read_text()}".encode())
    digest.update(Path(__file__).read_bytes())
    place = Path(tempfile.gettempdir()) / "gpu-constructs-rule-cases" / digest.hexdigest()[:16]
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=place.parent))
        for name, text in texts():
            (unfinished / name).parent.mkdir(exist_ok=True)
            (unfinished / name).write_text(text)
        try:
            unfinished.rename(place)
        except OSError:  # Another process was faster.
            shutil.rmtree(unfinished)
    return place


FIXTURES = written()
