"""Count phrases that are hard to read, in docs, docstrings, comments and messages.

    python -m tools.prose [--list] [PATH...]

The patterns find headless clauses (`what it takes`), personified software (`is told`) and idioms (`likewise`). 70 to
90 % of the hits are real, so the limit is a rate per 1,000 words. `make lint` fails if the rate grows.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PATTERNS = (
    r"\b(is|are|was|were|be|been|it) told\b|\btells? (of|only|it|them)\b|\b(is|are) said\b"
    r"|\bsays? (of|so|otherwise|it|what|which|who)\b",
    r"(^|[.;:(|] )([Ww]hat|[Ww]ho|[Ww]hose) (?!(is|are|does|do|can|would) (the|this|it|I|you)\b)\w+"
    r"|\b(of|for|by|to|from|with|than|on|in|and|or|nor|as) (what|who|whatever|whoever) \w+",
    r"\b(?i:nobody|somebody|anybody|everybody|whoever)('s|s)?\b",
    r"(?:^|[.;:] |\* )(Of|Beside|Behind) [^.\n]{3,70}",
    r"\b(?i:likewise|anew|hence|but for|for ever|until then|from then on|whichever|wherever)\b",
    r"\b(stands?|stood|lies?|bears?) (on|in|at|by|there|here|beside|behind|with|under|again|where|for|elsewhere)\b",
    r"\b(that|those) of \w+|\bof (yours|ours|theirs|others|its own)\b|\bothers'\b|\bsaid so\b",
    r"\b(mend(s|ed)?|heed(s|ed)?|borne|asked of|is to (be|end|run|go|have|get)|may nothing|goes? by|to be had"
    r"|judg(e|es|ed|ing))\b",
)
HARD = re.compile("|".join(f"(?:{pattern})" for pattern in PATTERNS), re.MULTILINE)
NOT_PROSE = re.compile(
    r"```.*?```|^ {4,}\S[^\n]*$|`(?:[^`\n]|\n(?!\n|[-*#|] ))*`|https?://\S+|<[^>\n]+>|\{[^{}\s]*\}",
    re.DOTALL | re.MULTILINE,
)
# A string with fewer words is a name or a key.
MIN_WORDS = 4
MAX_LISTED_TEXT = 110


@dataclass(frozen=True)
class Passage:
    """A text that people read, and the line where it begins."""

    line: int
    text: str


@cache
def passages(path: Path) -> tuple[Passage, ...]:
    """Return the prose of a Markdown or Python file."""
    return tuple(_passages(path))


def _passages(path: Path) -> Iterator[Passage]:
    source = path.read_text()
    if path.suffix != ".py":
        yield Passage(1, _without(NOT_PROSE, source))
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_prose(node.value):
            text = "\n".join(line.strip() for line in node.value.split("\n"))
            yield Passage(node.lineno, _without(NOT_PROSE, text))
    with tokenize.open(path) as lines:
        for token in tokenize.generate_tokens(lines.readline):
            if token.type == tokenize.COMMENT:
                yield Passage(token.start[0], _without(NOT_PROSE, token.string.lstrip("#: ")))


def _is_prose(text: str) -> bool:
    """Whether a string has enough words, and isn't a regular expression with word boundaries."""
    return len(text.split()) >= MIN_WORDS and r"\b" not in text


def _without(pattern: re.Pattern[str], text: str) -> str:
    """Replace matches by spaces, and keep the lines."""
    return pattern.sub(lambda found: "\n" * found[0].count("\n") or " ", text)


@cache
def limits() -> dict[str, float]:
    """Return the highest rate of each folder or file, in hits per 1,000 words."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return dict(settings["tool"]["prose"]["most-hits-per-1000-words"])


def files(place: Path) -> list[Path]:
    """Return the Markdown and Python files of a folder, or the file itself."""
    if place.is_file():
        return [place]
    return sorted(
        each for each in place.rglob("*") if each.suffix in (".md", ".py") and "__snapshots__" not in each.parts
    )


def phrases(text: str) -> list[str]:
    """Return each hit in a text."""
    return [found[0].strip() for found in HARD.finditer(_without(NOT_PROSE, text))]


@cache
def hits(path: Path) -> tuple[tuple[int, str], ...]:
    """Return line and text of each hit in a file."""
    return tuple(
        (passage.line + passage.text[: found.start()].count("\n"), found[0].strip())
        for passage in passages(path)
        for found in HARD.finditer(passage.text)
    )


def main() -> int:
    """Print the rate of each place, and return 1 if one is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("places", nargs="*", metavar="PATH", help="Folders or files. Default: all that have a limit.")
    parser.add_argument("--list", action="store_true", help="Print each hit with its line.")
    given = parser.parse_args()
    failed = False
    for place in given.places or limits():
        if not (ROOT / place).exists():
            sys.exit(f"prose: {place}: must be a file or folder; correct the path, or the key in pyproject.toml")
        every = files(ROOT / place)
        words = sum(len(passage.text.split()) for path in every for passage in passages(path))
        found = [(path, line, text) for path in every for line, text in hits(path)]
        if given.list:
            for path, line, text in found:
                print(f"{path.relative_to(ROOT)}:{line}: {text[:MAX_LISTED_TEXT]}")
        rate = 1000 * len(found) / max(words, 1)
        limit = limits().get(place)
        above = limit is not None and rate > limit
        failed |= above
        note = "" if limit is None else f" (limit {limit}{', exceeded' if above else ''})"
        print(f"{place}: {len(found)} hits in {words} words, {rate:.1f} per 1,000{note}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
