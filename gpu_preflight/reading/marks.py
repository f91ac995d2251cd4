"""Parts of a text that stand aside while the rest of it is parsed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

# Private-use characters, which manifests hardly hold, and which YAML takes for letters of a word.
_OPENING = tuple(map(chr, range(0xE000, 0xE010)))
_CLOSE = "\ue010"


class Marks:
    """Marks in a text, and the parts that they stand for.

    Args:
        text: The text, which may have marks of others.
    """

    def __init__(self, text: str) -> None:
        """Begin without a mark."""
        self._parts: list[str] = []
        self._open = next((each for each in _OPENING if each not in text), _OPENING[-1])
        self._pattern = re.compile(f"{self._open}([0-9]{{1,9}}){_CLOSE}")

    def mark(self, part: str) -> str:
        """Return the mark that stands for a part from now on."""
        self._parts.append(part)
        return f"{self._open}{len(self._parts) - 1}{_CLOSE}"

    def put_back(self, content: Any, made: Callable[[str], Any] = str) -> Any:
        """Return what was parsed with the parts back in their places.

        Args:
            content: What was parsed.
            made: What becomes of a value that had a mark in it; keys stay texts.
        """
        if isinstance(content, dict):
            return {self._text(key): self.put_back(value, made) for key, value in content.items()}
        if isinstance(content, list):
            return [self.put_back(each, made) for each in content]
        return made(self._text(content)) if isinstance(content, str) and self._open in content else content

    def _text(self, text: Any) -> Any:
        # An escape of the text may write a mark that nobody made.
        return self._pattern.sub(self._part, text) if isinstance(text, str) else text

    def _part(self, found: re.Match[str]) -> str:
        number = int(found.group(1))
        return self._parts[number] if number < len(self._parts) else found.group()
