"""Keeps names out of an input from becoming commands of the CI system that shows the output.

The runner of GitHub Actions reads each line that a step prints. ``::error::text`` at the beginning of a line, after
blanks, is a command, and so is ``##[error]text`` anywhere in a line. Azure Pipelines reads ``##vso[...]``. A report
wraps its lines, so a name such as ``y ::error::x`` can begin one.

Source: https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs (TryParseV2, TryParse; 2026-11)
"""

from __future__ import annotations

import re

# It has no width, and isn't one of the blanks that the runner removes.
_BREAK = "\N{WORD JOINER}"
_LINE_START = re.compile(r"^(?=\s*::)", re.MULTILINE)
_ANYWHERE = re.compile(r"#(?=#\w*\[)")


def without_commands(text: str, *, escaped: bool = False) -> str:
    """Return a text in which no line is a command of a CI system.

    Args:
        text: Lines as they are printed.
        escaped: Whether the text is JSON, which reads the same with an escape in it.
    """
    if "::" not in text and "##" not in text:
        return text
    if escaped:
        return _ANYWHERE.sub(r"\\u0023", text)
    return _ANYWHERE.sub(f"#{_BREAK}", _LINE_START.sub(_BREAK, text))
