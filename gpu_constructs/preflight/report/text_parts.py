"""Parts of texts for a terminal; what somebody else wrote never becomes markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpu_constructs.preflight.report.finding_view import View
from gpu_constructs.preflight.report.wording import MAY_BE, printable, where, with_short_names

_MOST_PLACES = 50
STYLES = {
    **{"error": "bold red", "warning": "yellow", "note": "cyan"},
    **{"no": "bold red", "unknown": "yellow", "yes": "green"},
    **{"fail": "bold red", "pass": "green"},
}


def line(text: object, style: str = "", *, whole: bool = False) -> Text:
    """Return one line of text; long names are cut, unless they are whole as in a command."""
    return Text(printable(text if whole else with_short_names(text)), style=STYLES.get(style, style))


def heading(text: object, style: str = "bold") -> Text:
    """Return a heading with an empty line above it."""
    return Text("\n").append_text(line(text, style))


def table(columns: Sequence[str], rows: Iterable[Sequence[object | Text]], *, right: Sequence[str] = ()) -> Table:
    """Return a table; the columns in ``right`` hold figures."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else line(cell) for cell in row))
    return made


def findings_alike(views: Sequence[View], *, advice: bool) -> Padding:
    """Return findings of one rule: what and where each, then once, as advice, why, what to do, and who says so."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for each in views[:_MOST_PLACES]:
        grid.add_row(line(each["id"], each["severity"]), line(each["message"], "bold"))
        grid.add_row(line("at", "dim"), line(where(each)))
        if each["unknown"]:
            grid.add_row(line("unsure", "dim"), line(MAY_BE))
    if len(views) > _MOST_PLACES:
        grid.add_row(line("more", "dim"), line(f"{len(views) - _MOST_PLACES} more places; --format json lists all"))
    if views[0]["acknowledged"] is not None:
        grid.add_row(line("accepted", "dim"), line(views[0]["acknowledged"]))
    for name in ("why", "fix", "source") if advice and views[0]["acknowledged"] is None else ():
        grid.add_row(line(name, "dim"), line(views[0][name]))
    return Padding(grid, (1, 0, 0, 0))
