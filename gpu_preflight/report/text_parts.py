"""Parts of texts for a terminal; what somebody else wrote never becomes markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from gpu_facts.light_dataclasses import dataclass
from gpu_preflight.report.finding_view import View
from gpu_preflight.report.wording import MAY_BE, printable, where, with_short_names

_MOST_PLACES = 50
STYLES = {
    **{"error": "bold red", "warning": "yellow", "note": "cyan"},
    **{"no": "bold red", "unknown": "yellow", "yes": "green"},
    **{"fail": "bold red", "pass": "green"},
}


@dataclass(slots=True)
class Text:
    """A text with a style, and what is added to it.

    Attributes:
        text: Its beginning.
        style: Style of all of it.
        added: What follows, each with a style of its own.
    """

    text: str = ""
    style: str = ""
    added: list[Text] = field(default_factory=list)

    def append(self, text: str) -> Text:
        """Add a text without a style."""
        return self.append_text(Text(text))

    def append_text(self, text: Text) -> Text:
        """Add a text."""
        self.added.append(text)
        return self

    @property
    def plain(self) -> str:
        """All of it, without styles."""
        return self.text + "".join([each.plain for each in self.added])


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        columns: Names of its columns.
        rows: Its cells, row by row.
        right: Names of the columns that hold figures.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Text]]
    right: Sequence[str]


@dataclass(frozen=True, slots=True)
class Listing:
    """Names, and next to each what is told of it, with an empty line above."""

    rows: Sequence[tuple[Text, Text]]


Part = Text | Table | Listing


def line(text: object, style: str = "", *, whole: bool = False) -> Text:
    """Return one line of text; long names are cut, unless they are whole as in a command."""
    return Text(printable(text if whole else with_short_names(text)), STYLES.get(style, style))


def lines(each: Sequence[Text]) -> Text:
    """Return some lines, one below the other."""
    made = Text()
    for place, one in enumerate(each):
        made = (made.append("\n") if place else made).append_text(one)
    return made


def heading(text: object, style: str = "bold") -> Text:
    """Return a heading with an empty line above it."""
    return Text("\n").append_text(line(text, style))


def table(columns: Sequence[str], rows: Iterable[Sequence[object | Text]], *, right: Sequence[str] = ()) -> Table:
    """Return a table; the columns in ``right`` hold figures."""
    cells = [[cell if isinstance(cell, Text) else line(cell) for cell in row] for row in rows]
    return Table(columns, cells, right)


def findings_alike(views: Sequence[View], *, advice: bool) -> Listing:
    """Return findings of one rule: what and where each, then once, as advice, why, what to do, and who says so."""
    rows: list[tuple[Text, Text]] = []
    for each in views[:_MOST_PLACES]:
        rows.append((line(each["id"], each["severity"]), line(each["message"], "bold")))
        rows.append((line("at", "dim"), line(where(each))))
        if each["unknown"]:
            rows.append((line("unsure", "dim"), line(MAY_BE)))
    if len(views) > _MOST_PLACES:
        rows.append((line("more", "dim"), line(f"{len(views) - _MOST_PLACES} more places; --format json lists all")))
    if views[0]["acknowledged"] is not None:
        rows.append((line("accepted", "dim"), line(views[0]["acknowledged"])))
    for name in ("why", "fix", "source") if advice and views[0]["acknowledged"] is None else ():
        rows.append((line(name, "dim"), line(views[0][name])))
    return Listing(rows)
