"""Writes parts of a text with rich: with colors, tables, and characters of any width."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO

from rich import box
from rich import table as tables
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.text import Text as RichText

from gpu_preflight.report.plain_text import GAP, WORD, Listing, Part, Table, Text, line_starts


def write(parts: Iterable[Part], width: int, *, colour: bool) -> str:
    """Return parts as lines of a width."""
    written = StringIO()
    console = Console(
        file=written,
        width=width,
        color_system="standard" if colour else None,
        force_terminal=colour,
        highlight=False,
        legacy_windows=False,
        _environ={},
    )
    for part in parts:
        widths = _column_widths(part, width) if isinstance(part, Table) else None
        if isinstance(part, Table) and widths is not None:
            console.print(_table(part, widths))
        else:
            for each in _lines(part, width):
                console.print(each, crop=False, no_wrap=True, overflow="ignore")
    return written.getvalue()


def _table(part: Table, widths: Iterable[int]) -> RenderableType:
    made = tables.Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for name, width in zip(part.columns, widths, strict=True):
        made.add_column(name, justify="right" if name in part.right else "left", width=width)
    for row in part.rows:
        made.add_row(*map(_text, row))
    return made


def _column_widths(part: Table, width: int) -> list[int] | None:
    """Return the widths of columns in which no word breaks; ``None`` if they don't fit next to each other.

    The widest column is reduced first. Example: two columns need 40 and 9 characters, and their longest words have 12
    and 9. In a width of 40, with 3 characters between them, they get 28 and 9.
    """
    cells = [[name, *(row[place].plain for row in part.rows)] for place, name in enumerate(part.columns)]
    words = [
        max((cell_len(word.group().rstrip()) for cell in column for word in WORD.finditer(cell)), default=0)
        for column in cells
    ]
    widths = [max(cell_len(line) for cell in column for line in cell.split("\n")) for column in cells]
    # A blank, a line and a blank between columns.
    excess = sum(widths) + 3 * (len(widths) - 1) - width
    while excess > 0:
        widest = max(range(len(widths)), key=lambda each: (widths[each] > words[each], widths[each]))
        if widths[widest] <= words[widest]:
            return None
        widths[widest] -= 1
        excess -= 1
    return widths


def _lines(part: Part, width: int) -> Iterable[RichText]:
    if isinstance(part, Text):
        yield from _wrapped(part, width)
        return
    if isinstance(part, Table):
        # Words aren't broken. If the longest words don't fit next to each other, each row becomes a listing.
        labels = [Text(name.replace("\n", " "), "dim") for name in part.columns]
        for row in part.rows:
            filled = [(name, cell) for name, cell in zip(labels, row, strict=True) if cell.plain]
            yield from _lines(Listing(filled), width) if filled else ()
        return
    yield RichText()
    names = max(cell_len(name.plain) for name, _ in part.rows) + GAP
    for name, text in part.rows:
        # The line itself has no style, because all of it would get that style.
        label = RichText().append_text(_text(name))
        for each in _wrapped(text, width - names):
            label.pad_right(names - cell_len(label.plain))
            yield label.append_text(each)
            label = RichText()


def _wrapped(text: Text, width: int) -> Iterable[RichText]:
    if text.is_command:
        yield _text(text)
        return
    for each in _text(text).split("\n", allow_blank=True):
        for part in each.divide(line_starts(each.plain, width, cell_len)[1:]):
            part.rstrip()
            yield part


def _text(text: Text) -> RichText:
    made = RichText(text.text, style=text.style)
    for each in text.added:
        made.append_text(_text(each))
    return made
