"""Answers yes, no and unknown, with reasons."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from gpu_facts.light import dataclass

# Beginnings of texts whose subject is the pod.
_OF_THE_POD = ("claims ", "doesn't tolerate ", "is evicted ", "may be evicted ", "requests ", "requires ")


class Answer(Enum):
    """Yes, no, or unknown before deployment."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


def all_yes(answers: Iterable[Answer]) -> Answer:
    """Return yes if every answer is yes, and no if any answer is no."""
    seen = set(answers)
    if Answer.NO in seen:
        return Answer.NO
    return Answer.UNKNOWN if Answer.UNKNOWN in seen else Answer.YES


def any_yes(answers: Iterable[Answer]) -> Answer:
    """Return yes if any answer is yes, and no if every answer is no."""
    seen = set(answers)
    if Answer.YES in seen:
        return Answer.YES
    return Answer.UNKNOWN if Answer.UNKNOWN in seen else Answer.NO


def yes_if(condition: bool) -> Answer:
    """Return yes if the condition is true, otherwise no."""
    return Answer.YES if condition else Answer.NO


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a pool doesn't accept a pod, or why that isn't known.

    Attributes:
        answer: No or unknown.
        kind: The subject: ``taint``, ``label``, ``resource``, ``port``, ``autoscaler``, ``limit``, ``claim``,
            ``scheduler``, ``gate``, ``topology``, ``volume``, ``pool``, ``pod``, ``refused``, ``rule``, or ``program``
            for a program that fails at its start on a node.
        text: The fault and its fix, in one line.
        weight: How hard the fault is to fix. A renamed resource has a lower weight than a resource that doesn't exist.
        condition: The condition under which an unknown reason disappears, such as a component that the input lacks.
            Empty if more is unknown.
        rule: The rule that finds the fault too, if there is one.
        pending_pods: Min number of the workload's pods that stay Pending; 0 if the reason is about every pod.
        fix: The fix, if it is more specific than the rule's own fix.
    """

    answer: Answer
    kind: str
    text: str
    weight: int = 2
    rule: str = ""
    condition: str = ""
    pending_pods: int = 0
    fix: str = ""

    @property
    def sentence(self) -> str:
        """The text with its subject, which the texts about a pod leave out."""
        return f"the pod {self.text}" if self.text.startswith(_OF_THE_POD) else self.text


def worst(reasons: Iterable[Reason]) -> Answer:
    """Return yes without reasons, and no if any reason is no."""
    answer = Answer.YES
    for each in reasons:
        if each.answer is Answer.NO:
            return Answer.NO
        answer = Answer.UNKNOWN
    return answer
