"""HTML elements; every text in them is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from gpu_preflight.report.wording import printable


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


_EMPTY = ("meta", "link", "input", "br")


def tag(name: str, /, *children: object, cls: str = "", **attributes: str) -> Html:
    """Return an element; children that are no `Html` are escaped.

    Args:
        name: Name of the element.
        children: What it holds; ``None`` is left out.
        cls: Its classes.
        attributes: Its attributes; ``_`` in a name stands for ``-``, and one at the end is left out.
    """
    given = ({"class": cls} if cls else {}) | attributes
    listed = "".join(f' {key.rstrip("_").replace("_", "-")}="{_escaped(value)}"' for key, value in given.items())
    inner = "".join(each if isinstance(each, Html) else _escaped(each) for each in children if each is not None)
    return Html(f"<{name}{listed}>" if name in _EMPTY else f"<{name}{listed}>{inner}</{name}>")


def _escaped(text: object) -> str:
    return escape(printable(text))


def joined(*parts: Html | None) -> Html:
    """Return elements one after the other."""
    return Html("".join(each for each in parts if each is not None))


def table(columns: tuple[str, ...], rows: Iterable[tuple[object, ...]], *, caption: str) -> Html:
    """Return a table that scrolls by itself where the page is narrow."""
    head = tag("tr", *(tag("th", each, scope="col") for each in columns))
    body = joined(*(tag("tr", *(tag("td", cell) for cell in row)) for row in rows))
    made = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", body))
    return tag("div", made, cls="scroll", tabindex="0", role="region", aria_label=caption)
