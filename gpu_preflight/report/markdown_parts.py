"""Parts of Markdown; what somebody else wrote neither formats the text nor mentions anybody."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gpu_facts.light_patterns import regex
from gpu_preflight.report.finding_view import View
from gpu_preflight.report.wording import MAY_BE, alike, printable

_FORMATTING = regex(r"[\\`*_\[\]<>|~&$]")
_MENTION = regex(r"(@|#|GH-)(?=\w)")
_LONGEST = 300
# A comment holds 65,536 characters.
MOST_FINDINGS = 60


def told(text: object) -> str:
    """Return a text that shows as it is written."""
    line = printable(text)
    line = line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
    # An invisible word joiner parts the sign from the name that it would mention.
    parted = _MENTION.sub("\\1\N{WORD JOINER}", line)
    return _FORMATTING.sub(lambda found: f"&#{ord(found.group())};", parted)


def code(text: object) -> str:
    """Return a name as code."""
    escaped = _FORMATTING.sub(lambda found: f"&#{ord(found.group())};", printable(text)[:_LONGEST])
    return f"<code>{escaped}</code>"


def cut(parts: Sequence[str], most: int) -> str:
    """Return the first parts, and how many are left out."""
    left = len(parts) - most
    return ", ".join(parts[:most]) + (f" and {left} more" if left > 0 else "")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown already."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def details(summary: str, content: str) -> str:
    """Return content that is folded in."""
    return f"<details><summary>{summary}</summary>\n\n{content}\n\n</details>"


def findings_table(findings: Sequence[View], *, most: int = MOST_FINDINGS) -> str:
    """Return findings as a table of at most so many rows."""
    ordered = [each for group in alike(findings) for each in group]
    rows = [_finding(each) for each in ordered[:most]]
    listed = table(("Rule", "What", "Where", "Fix"), rows)
    left = len(ordered) - len(rows)
    return f"{listed}\n\nAnd {left} more; `gpu-constructs check` lists them all." if left else listed


def _finding(finding: View) -> tuple[str, ...]:
    source = finding["source"]
    rule = f"[{finding['id']}]({source})" if re.fullmatch(r"https://[\w./#?=&%~:+-]+", source) else finding["id"]
    unsure = f" ({MAY_BE})" if finding["unknown"] else ""
    fix = told(finding["fix"])
    if finding["acknowledged"] is not None:
        fix = f"accepted: {told(finding['acknowledged'])}"
    return f"{rule} {finding['severity']}", told(finding["message"]) + unsure, code(finding["origin"]["path"]), fix
