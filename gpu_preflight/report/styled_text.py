"""Parts of a text as rich writes them: with colours, tables, and characters of any width."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO

from rich import box
from rich import table as tables
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text as RichText

from gpu_preflight.report.plain_text import Part, Table, Text


def write(parts: Iterable[Part], width: int, *, colour: bool) -> str:
    """Return some parts as lines of a width."""
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
        console.print(_renderable(part))
    return written.getvalue()


def _renderable(part: Part) -> RenderableType:
    if isinstance(part, Text):
        return _text(part)
    if isinstance(part, Table):
        made = tables.Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
        for name in part.columns:
            made.add_column(name, justify="right" if name in part.right else "left", overflow="fold")
        for row in part.rows:
            made.add_row(*map(_text, row))
        return made
    grid = tables.Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, told in part.rows:
        grid.add_row(_text(label), _text(told))
    return Padding(grid, (1, 0, 0, 0))


def _text(text: Text) -> RichText:
    made = RichText(text.text, style=text.style)
    for each in text.added:
        made.append_text(_text(each))
    return made
