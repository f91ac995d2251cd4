"""Answers yes, no and unknown, with reasons."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from gpu_facts.light import dataclass


class Answer(Enum):
    """Yes, no, or what cannot be known before deployment."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


def all_yes(answers: Iterable[Answer]) -> Answer:
    """Return yes when every answer is yes, and no as soon as one is no."""
    seen = set(answers)
    if Answer.NO in seen:
        return Answer.NO
    return Answer.UNKNOWN if Answer.UNKNOWN in seen else Answer.YES


def any_yes(answers: Iterable[Answer]) -> Answer:
    """Return yes as soon as one answer is yes, and no when every answer is no."""
    seen = set(answers)
    if Answer.YES in seen:
        return Answer.YES
    return Answer.UNKNOWN if Answer.UNKNOWN in seen else Answer.NO


def yes_if(condition: bool) -> Answer:
    """Return yes or no."""
    return Answer.YES if condition else Answer.NO


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a pool does not take a pod, or why it is not known.

    Attributes:
        answer: No or unknown.
        kind: What it is about: ``taint``, ``label``, ``resource``, ``port``, ``autoscaler``, ``limit``, ``claim``,
            ``scheduler``, ``gate``, ``topology``, ``volume``, ``pool``, ``pod``, ``refused``, ``rule``, or
            ``program`` for one that fails at its start on a node.
        text: What is wrong and what to do, in one line.
        weight: How far it is from being mended; a renamed resource is nearer than one that does not exist.
        condition: What would have to be true for an unknown reason to vanish, such as a component that the input lacks;
            empty where more is unknown.
        rule: The rule that finds it, where one does beside saying that a pod stays Pending.
    """

    answer: Answer
    kind: str
    text: str
    weight: int = 2
    rule: str = ""
    condition: str = ""


def worst(reasons: Iterable[Reason]) -> Answer:
    """Return yes without reasons, no as soon as one says no."""
    answer = Answer.YES
    for each in reasons:
        if each.answer is Answer.NO:
            return Answer.NO
        answer = Answer.UNKNOWN
    return answer
