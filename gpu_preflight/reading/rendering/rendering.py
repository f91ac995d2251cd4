"""What a folder comes to beside its plain files."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

from gpu_facts.light_dataclasses import dataclass
from gpu_preflight.reading.documents import MAX_FILE_BYTES, UnusableInput, parse
from gpu_preflight.reading.objects import BrokenReference, Origin, Unread
from gpu_preflight.reading.rendering.programs import SECONDS, TOO_LONG, run

MAX_FOLDERS = 200


@dataclass(slots=True)
class Rendering:
    """What a folder comes to beside its plain files.

    Attributes:
        texts: What was rendered, by the folder that it stands in.
        covered: Files that are no input of their own.
        problems: What could not be rendered, and why.
        broken: References to files that don't exist, and patches that change nothing.
        until: When rendering has to be done, as `time.monotonic` tells.
    """

    texts: dict[str, str] = field(default_factory=dict)
    covered: set[Path] = field(default_factory=set)
    problems: list[Unread] = field(default_factory=list)
    broken: list[BrokenReference] = field(default_factory=list)
    until: float = field(default_factory=lambda: time.monotonic() + SECONDS)

    def run(self, command: list[str]) -> tuple[str | None, str]:
        """Run a program, and return what it prints, or else why that is not known."""
        seconds = self.until - time.monotonic()
        if seconds <= 0:
            return None, TOO_LONG
        return run(command, seconds, MAX_FILE_BYTES - sum(map(len, self.texts.values())))


def documents_of(made: Rendering) -> Iterator[Any]:
    """Yield the documents of what was rendered."""
    for folder, text in made.texts.items():
        try:
            yield from parse(folder, text)
        except UnusableInput as error:
            made.problems.append(Unread(Origin(folder, folder), f"what it renders cannot be read: {error}"))
