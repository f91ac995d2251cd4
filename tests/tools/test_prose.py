"""The count of phrases that are hard to read finds them in each kind of text, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from gpu_preflight.command_line.cli import cli
from tools import prose
from tools.prose import hits, phrases

MODULE = '''"""Nobody reads this.

A block in backquotes is code: `is told`.
"""
# Of a comment that begins badly.
KEY = "is told"
MESSAGE = f"{KEY}: the pool is told its size"
'''


def test_docstrings_comments_and_messages_of_a_module_are_read(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(MODULE)

    assert sorted(hits(module)) == [
        (1, "Nobody"),
        (5, "Of a comment that begins badly"),
        (7, "is told"),
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Karpenter launches a node.", []),
        ("A page.\n\n```sh\nwhoever runs\n```\n\nIt goes anew.\n", [(7, "anew")]),
        ("[who reads it](https://nobody.example)", []),
        ("It depends on what runs.", [(1, "on what runs")]),
        ("    code: is told\n\nNobody\n", [(3, "Nobody")]),
        ("- An odd ` sign, and 1 < 2.\n- Nobody is here, as `told`.\n", [(2, "Nobody")]),
    ],
)
def test_prose_of_a_page_is_read_without_its_code(tmp_path: Path, text: str, found: list[tuple[int, str]]) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)

    assert list(hits(page)) == found


@pytest.mark.parametrize("name", ["", *cli.commands])
def test_help_of_a_command_is_easy_to_read(name: str) -> None:
    command = cli.commands[name] if name else cli

    assert phrases(command.get_help(click.Context(command))) == []


def test_a_limit_of_a_missing_folder_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prose, "limits", lambda: {"gpu_renamed": 1.0})
    monkeypatch.setattr("sys.argv", ["prose"])

    with pytest.raises(SystemExit, match="gpu_renamed: must be a file or folder"):
        prose.main()
