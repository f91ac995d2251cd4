"""A field that a service rejects as it is written."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Any, Literal

from gpu_facts.light import dataclass, regex
from gpu_facts.refusals import near

FaultKind = Literal["value", "unknown", "missing"]
# Max number of words in a listed choice, so that it fits on a line.
_LISTED = 8
_LONGEST = 60
# Words, and numbers in them: AL2023_x86_64, WhenEmpty, on-demand.
_PARTS = regex(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_CLOSE = 0.7


@dataclass(frozen=True, slots=True)
class Fault:
    """A field that a service rejects as it is written.

    Attributes:
        kind: Whether its value is wrong, the service doesn't have the field, or it is missing.
        path: Its path, e.g. ``spec.template.spec.taints[0].effect``; empty for the whole value.
        rule: The rule for its value, after "must". For a missing or unknown field, the text after its name.
        got: Its value as it is written.
        nearest: The right value or field that the user most likely meant.
        newer: Whether the service may accept it in a version newer than the schema.
    """

    kind: FaultKind
    path: str
    rule: str
    got: Any = None
    nearest: str | None = None
    newer: bool = False

    @property
    def text(self) -> str:
        """The fault in one line."""
        hint = f"; did you mean {self.nearest!r}?" if self.nearest is not None else ""
        if self.kind == "value":
            return f"{self.path or 'it'} must {self.rule}, got {_format_value(self.got)}{hint}"
        return f"{self.path} {self.rule}{hint}"


def _format_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def choice_rule(words: Iterable[Any]) -> str:
    """Return a choice in words. A long choice is a number."""
    listed = [str(each) or "''" for each in words]
    return f"be one of {', '.join(listed)}" if len(listed) <= _LISTED else f"be one of {len(listed)} known values"


def meant(text: Any, words: Iterable[Any]) -> str | None:
    """Return the word that was most likely meant: with other case or separators, or with nearly the same spelling."""
    if not isinstance(text, str):
        return None
    known = [each for each in words if isinstance(each, str) and each]
    plain = _plain(text)
    return next((each for each in known if _plain(each) == plain), None) or near(text, known)


def is_slip(text: Any, word: str | None) -> bool:
    """Whether a word can only be a typo for a known word, and not a word that a service adds later.

    New words are longer than earlier ones, or have an additional part: ``AL2023_x86_64_NEURON`` was added after
    ``AL2023_x86_64_NVIDIA``, and both after ``AL2023_x86_64``.
    """
    if not isinstance(text, str) or word is None:
        return False
    if _plain(text) == _plain(word):
        return True
    parts, known = _parts(text), _parts(word)
    if len(parts) == len(known):
        return _are_typos(parts, known)
    rest = iter(known)
    return len(parts) > 1 and all(each in rest for each in parts)


def is_typo(text: str, word: str) -> bool:
    """Whether a name can only be another name with different letters in one word."""
    return _plain(text) == _plain(word) or _are_typos(_parts(text), _parts(word))


def is_slip_for_one(text: str, words: Iterable[str]) -> bool:
    """Whether a name can only be a typo for the nearest of some words."""
    nearest = near(text, words)
    return nearest is not None and is_typo(text, nearest)


def _plain(word: str) -> str:
    return "".join(each for each in word.lower() if each.isalnum())


def _parts(word: str) -> list[str]:
    return [each.lower() for each in _PARTS.findall(word)]


def _are_typos(text: list[str], words: list[str]) -> bool:
    return len(text) == len(words) and all(map(_is_typo, text, words))


def _is_typo(text: str, word: str) -> bool:
    if text.isdigit() or word.isdigit():
        return text == word
    return text == word or SequenceMatcher(None, text, word).ratio() >= _CLOSE
