"""Comments for the checker in YAML files, and the object or resource of each comment.

``# gpu-constructs: ignore GPU048 images are small here`` belongs to the object or resource around it. A comment that
is alone on its line belongs to the next line, so it can be above an object or a logical id.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import yaml

from gpu_facts.light import dataclass, regex
from gpu_preflight.reading.documents import COMMENT_MARK, UnusableInput
from gpu_preflight.reading.objects import Marks
from gpu_preflight.reading.positions import MAX_BYTES, documents, named_parts, readings

_COMMENT = regex(rf"(?:^|(?<=\s))#+\s*{COMMENT_MARK}[ \t]*(.*?)\s*$")
_SEPARATOR = "---"
_LINE_END = regex(r"\n")


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment for the checker.

    Attributes:
        file: Path of the file.
        line: Its line, from 1.
        text: Its text after ``gpu-constructs:``.
        names: Names of the object or resource that it belongs to, as
            `gpu_preflight.reading.positions.origin_names` returns them; empty if it belongs to none.
    """

    file: str
    line: int
    text: str
    names: tuple[str, ...]


def comments(file: str, text: str) -> Iterator[Comment]:
    """Yield the comments for the checker in a YAML file."""
    lines = text.split("\n")
    found = [(number, each[1]) for number, line in enumerate(lines) if (each := _COMMENT.search(line))]
    parts = _parts(file, text) if found and len(text) <= MAX_BYTES else []
    starts = [line for line, _ in parts]
    for number, content in found:
        place = bisect_right(starts, _line_of_target(lines, number)) - 1
        yield Comment(file, number + 1, content, parts[place][1] if place >= 0 else ())


def _line_of_target(lines: list[str], number: int) -> int:
    """Return the line that a comment belongs to: its own, or the next with content if it is alone on its line."""
    if not lines[number].lstrip().startswith("#"):
        return number
    for following in range(number + 1, len(lines)):
        line = lines[following].strip()
        if line.startswith((_SEPARATOR, "...")):
            # The comment is at the beginning of the file, before the first object.
            return following + 1 if not any(map(_has_content, lines[:number])) else number
        if _has_content(line):
            return following
    return number


def _has_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith(("#", "%", _SEPARATOR))


def _parts(file: str, text: str) -> list[tuple[int, tuple[str, ...]]]:
    """Return the first line of each part, with the names that apply up to the next part."""
    for plain, marks in readings(text):
        starts = [0, *(each.end() for each in _LINE_END.finditer(plain))]
        separators = [number for number, at in enumerate(starts) if plain.startswith(_SEPARATOR, at)]

        def line_number(index: int, starts: list[int] = starts) -> int:
            return bisect_right(starts, index) - 1

        try:
            found: dict[int, list[str]] = {}
            for document in documents(plain):
                start = getattr(document, "start", 0)
                first = _first_line(separators, line_number(start))
                found.setdefault(first, [])
                for key in _ends(document):
                    found.setdefault(line_number(key), [])
                for name, (index, _) in named_parts(file, document):
                    alone = index == start
                    found.setdefault(first if alone else line_number(index), []).append(_restored(marks, name))
            return sorted((line, tuple(names)) for line, names in found.items())
        except (yaml.YAMLError, UnusableInput, ValueError, TypeError):
            continue
    return []


def _ends(document: Any) -> Iterator[int]:
    """Yield the start of each top-level key of a template. The last resource ends at the next such key."""
    if isinstance(document, dict) and "Resources" in document and "kind" not in document:
        yield from (key.start for key in document)


def _first_line(separators: list[int], own: int) -> int:
    """Return the line after the separator before a document, or its own if it begins there; 0 without a separator."""
    place = bisect_right(separators, own) - 1
    return min(separators[place] + 1, own) if place >= 0 else 0


def _restored(marks: Marks, name: str) -> str:
    return str(marks.restore(name))
