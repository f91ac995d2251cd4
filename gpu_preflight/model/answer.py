"""The three answers."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Answer(Enum):
    """Yes, no, or what cannot be known before deployment."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


def all_of(answers: Iterable[Answer]) -> Answer:
    """Return yes when every answer is yes, and no as soon as one is no."""
    seen = set(answers)
    if Answer.NO in seen:
        return Answer.NO
    return Answer.UNKNOWN if Answer.UNKNOWN in seen else Answer.YES


def any_of(answers: Iterable[Answer]) -> Answer:
    """Return yes as soon as one answer is yes, and no when every answer is no."""
    seen = set(answers)
    if Answer.YES in seen:
        return Answer.YES
    return Answer.UNKNOWN if Answer.UNKNOWN in seen else Answer.NO


def yes_if(condition: bool) -> Answer:
    """Return yes or no."""
    return Answer.YES if condition else Answer.NO
