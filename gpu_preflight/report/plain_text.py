"""Writes parts of a text as plain lines like rich, without loading rich, which takes a fifth of a short check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from gpu_facts.light import dataclass, regex
from gpu_preflight.report.wording import acceptance_text, printable, with_short_names

if TYPE_CHECKING:
    from gpu_preflight.report.finding_view import FindingView

_MOST_PLACES = 50
STYLES = {
    **{"error": "bold red", "warning": "yellow", "note": "cyan"},
    **{"no": "bold red", "unknown": "yellow", "yes": "green"},
    **{"fail": "bold red", "pass": "green"},
}
# A word with the blanks around it.
WORD = regex(r"\s*\S+\s*")
GAP = 2


@dataclass(slots=True)
class Text:
    """A text with a style, and the texts that follow it.

    Attributes:
        text: The first text.
        style: Style of the whole.
        added: The texts that follow, each with its style.
        is_command: Whether it is a command, whose line doesn't break, so that it can be copied.
    """

    text: str = ""
    style: str = ""
    added: list[Text] = field(default_factory=list)
    is_command: bool = False

    def append(self, text: str) -> Text:
        """Add a text without a style."""
        return self.append_text(Text(text))

    def append_text(self, text: Text) -> Text:
        """Add a text."""
        self.added.append(text)
        return self

    @property
    def plain(self) -> str:
        """The whole text, without styles."""
        return self.text + "".join([each.plain for each in self.added])


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        columns: Names of its columns.
        rows: Its cells, row by row.
        right: Names of the columns with numbers.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Text]]
    right: Sequence[str]


@dataclass(frozen=True, slots=True)
class Listing:
    """Names, each with a text next to it, and an empty line above."""

    rows: Sequence[tuple[Text, Text]]


Part = Text | Table | Listing


def line(text: object, style: str = "", *, whole: bool = False) -> Text:
    """Return one line of text. Long names are cut, unless ``whole`` is true, as for a command."""
    return Text(printable(text if whole else with_short_names(text)), STYLES.get(style, style))


def command(text: str) -> Text:
    """Return an indented command."""
    return Text(printable(f"  {text}"), "dim", is_command=True)


def lines(each: Sequence[Text]) -> Text:
    """Return several lines as one text."""
    made = Text()
    for place, one in enumerate(each):
        made = (made.append("\n") if place else made).append_text(one)
    return made


def heading(text: object, style: str = "bold") -> Text:
    """Return a heading with an empty line above it."""
    return Text("\n").append_text(line(text, style))


def table(columns: Sequence[str], rows: Iterable[Sequence[object | Text]], *, right: Sequence[str] = ()) -> Table:
    """Return a table. The columns in ``right`` contain numbers."""
    cells = [[cell if isinstance(cell, Text) else line(cell) for cell in row] for row in rows]
    return Table(columns, cells, right)


def findings_alike(views: Sequence[FindingView], *, advice: bool) -> Listing:
    """Return findings of one rule: messages and places, then once its title, and as advice reason, fix and source."""
    first, rows = views[0], list[tuple[Text, Text]]()
    for each in views[:_MOST_PLACES]:
        rows.append((line(each.id, each.severity), line(each.message, "bold")))
        rows.append((line("at", "dim"), line(each.origin)))
        if each.unknown:
            rows.append((line("unsure", "dim"), line(each.doubt)))
    if len(views) > _MOST_PLACES:
        rows.append((line("more", "dim"), line(f"{len(views) - _MOST_PLACES} more places; --format json lists all")))
    rows.append((line("rule", "dim"), line(first.title)))
    if first.acknowledged is not None:
        rows.append((line("accepted", "dim"), line(acceptance_text(first))))
    elif advice:
        texts = (("why", first.why), ("fix", first.fix), ("source", first.source))
        rows += [(line(name, "dim"), line(text)) for name, text in texts]
    return Listing(rows)


def write(parts: Sequence[Part], width: int) -> str | None:
    """Return parts as lines of a width; ``None`` for tables, and for characters that may not be one cell wide."""
    if not all(map(_is_plain, parts)):
        return None
    return "".join(f"{each}\n" for part in parts for each in _lines(part, width))


def _is_plain(part: Part) -> bool:
    if isinstance(part, Text):
        return part.plain.isascii()
    return isinstance(part, Listing) and all(each.plain.isascii() for row in part.rows for each in row)


def _lines(part: Part, width: int) -> Iterator[str]:
    if isinstance(part, Text):
        written = part.plain.split("\n")
        yield from written if part.is_command else (each for line in written for each in wrap(line, width))
    elif isinstance(part, Listing):
        yield ""
        rows = [(name.plain, text.plain) for name, text in part.rows]
        names = max(len(name) for name, _ in rows) + GAP
        for name, text in rows:
            first, *more = wrap(text, width - names)
            yield f"{name.ljust(names)}{first}"
            yield from (f"{'':{names}}{each}" for each in more)


def wrap(text: str, width: int) -> list[str]:
    """Return the parts of a line that `line_starts` separates."""
    starts = line_starts(text, width, len)
    return [text[start:end].rstrip() for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]


def line_starts(text: str, width: int, measure: Callable[[str], int]) -> list[int]:
    """Return where to break a line, as the start of each part. Breaks are before words.

    A word that is longer than the width stays whole, so that an id, a path or an address can be copied and searched:
    "ab cd efghijkl m" in 5 columns is "ab cd", "efghijkl" and "m", which begin at 0, 6 and 15.

    Args:
        text: The line.
        width: Columns of a part.
        measure: Returns the columns of a text.
    """
    starts, used = [0], 0
    for word in WORD.finditer(text):
        if used and word.start() and measure(word.group().rstrip()) > width - used:
            starts.append(word.start())
            used = 0
        used += measure(word.group())
    return starts
