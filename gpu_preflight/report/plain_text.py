"""Parts of a text as plain lines, as rich writes them, without loading it: that takes a fifth of a short check."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpu_facts.light_patterns import regex
from gpu_preflight.report.text_parts import Listing, Part, Text

# A word with the blanks around it.
_WORD = regex(r"\s*\S+\s*")
_GAP = 2


def write(parts: Sequence[Part], width: int) -> str | None:
    """Return some parts as lines of a width; ``None`` for tables, and for characters that may not be one cell wide."""
    if not all(map(_is_plain, parts)):
        return None
    return "".join(f"{each}\n" for part in parts for each in _lines(part, width))


def _is_plain(part: Part) -> bool:
    if isinstance(part, Text):
        return part.plain.isascii()
    return isinstance(part, Listing) and all(each.plain.isascii() for row in part.rows for each in row)


def _lines(part: Part, width: int) -> Iterator[str]:
    if isinstance(part, Text):
        yield from (each for line in part.plain.split("\n") for each in wrap(line, width))
    elif isinstance(part, Listing):
        yield ""
        rows = [(name.plain, told.plain) for name, told in part.rows]
        names = max(len(name) for name, _ in rows) + _GAP
        for name, told in rows:
            first, *more = wrap(told, width - names)
            yield f"{name.ljust(names)}{first}"
            yield from (f"{'':{names}}{each}" for each in more)


def wrap(text: str, width: int) -> list[str]:
    """Return a line in parts of a width, cut before words; a longer word begins a line and is cut anywhere.

    ``wrap("ab cd efghijkl", 5)`` is ``["ab cd", "efghi", "jkl"]``, as rich 15 wraps.
    """
    starts, used = [0], 0
    for word in _WORD.finditer(text):
        length = len(word.group().rstrip())
        if length <= width - used:
            used += len(word.group())
        elif length > width:
            # Its blanks are cut with it.
            folded = range(word.start(), word.end(), width)
            starts += [each for each in folded if each]
            used = word.end() - folded[-1]
        else:
            starts += [word.start()] if used and word.start() else []
            used = len(word.group()) if used and word.start() else used
    return [each.rstrip() for each in _parts(text, starts)]


def _parts(text: str, starts: Iterable[int]) -> Iterator[str]:
    ordered = list(starts)
    for start, end in zip(ordered, [*ordered[1:], len(text)], strict=True):
        yield text[start:end]
