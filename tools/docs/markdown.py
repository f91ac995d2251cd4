"""Pieces of Markdown, and the links of a page that moves."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
Pages = dict[str, str]

_LINK = re.compile(r'(\]\(|\bsrc="|\bsrcset="|\bhref=")([^)#"\s]*)(#[^)"\s]*)?([)"])')
_FENCE = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)


def fenced(language: str, text: str) -> str:
    """Return a code block."""
    return f"```{language}\n{text.rstrip()}\n```\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a vertical bar in a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def linked_source(source: str) -> str:
    """Return a source as a link if it is a URL, otherwise as code."""
    return f"<{source}>" if source.startswith("https://") else f"`{source}`"


def title_of(text: str) -> str:
    """Return the heading of a page."""
    found = re.search(r"^# (.+)$", _FENCE.sub("", text), re.MULTILINE)
    return found[1] if found else ""


def summary_of(text: str) -> str:
    """Return the first sentence of the first paragraph of a page, without links."""
    for paragraph in re.split(r"\n\s*\n", _FENCE.sub("", text)):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
        if plain and plain[0] not in "#|<!*-[":
            return re.split(r"(?<=[.!?]) (?=[A-Z`*])", plain)[0]
    return ""


def moved_links(text: str, old: str, new: str, homes: Mapping[str, str], repository: str) -> str:
    """Return a page with links that are right at its new path.

    Args:
        text: The page.
        old: Its path in the repository.
        new: Its path in the site's source.
        homes: Path in the site's source of each file of the repository that the site has.
        repository: URL of the repository, for files that the site doesn't have.

    Raises:
        ValueError: A link leads to a file that doesn't exist.
    """

    def move(link: re.Match[str]) -> str:
        target, anchor = link[2], link[3] or ""
        if not target or "://" in target or target.startswith("mailto:"):
            return link[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(old), target))
        if home := homes.get(path):
            rule = re.fullmatch(r"#(gpu\d{3})", anchor)
            if path == "docs/reference/rules.md" and rule:
                home, anchor = f"reference/rules/{rule[1]}.md", ""
            target = posixpath.relpath(home, posixpath.dirname(new) or ".")
        elif (ROOT / path).exists():
            kind = "tree" if (ROOT / path).is_dir() else "blob"
            target = f"{repository}/{kind}/main/{path}"
        else:
            raise ValueError(f"{old}: a link must lead to a file, got {link[2]!r}")
        return f"{link[1]}{target}{anchor}{link[4]}"

    parts = _FENCE.split(text)
    return "".join(part if index % 2 else _LINK.sub(move, part) for index, part in enumerate(parts))


def write(pages: Mapping[str, str], folder: Path) -> None:
    """Write pages into a folder."""
    for name, text in pages.items():
        file = folder / name
        os.makedirs(file.parent, exist_ok=True)
        file.write_text(text, encoding="utf-8")
