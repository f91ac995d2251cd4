"""A cause, its evidence and how certain it is.

Confidence follows one rule. Proven: the component that owns the object reports it in its current status, or our own
computation over complete lists agrees with that component's text. Likely: one signal, and the alternatives are
excluded. Possible: it fits, and alternatives are open. A cause that needs "there is no such object" is at most possible
without the list of these objects, and at most likely if it isn't certain that the list is complete.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeVar

from gpu_facts.light import dataclass
from gpu_preflight.remedies.change import Change

Confidence = Literal["proven", "likely", "possible"]
CONFIDENCES: tuple[Confidence, ...] = ("proven", "likely", "possible")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A value that shows a cause.

    Attributes:
        source: Title of the object, e.g. ``Pod default/train``, the command of the AWS CLI, or ``log`` with a name.
        field: The field, e.g. ``status.conditions[PodScheduled].message``; empty if the object itself is the evidence.
        value: The value as it is written.
        time: When it was written, in UTC, as RFC 3339; empty if that isn't known.
    """

    source: str
    field: str
    value: str
    time: str = ""


@dataclass(frozen=True, slots=True)
class Clock:
    """A component that waits for something.

    Attributes:
        waits_for: The event for which it waits, and the action that follows.
        since: When it began, in UTC, as RFC 3339; empty if that isn't known.
        takes: How long that takes, in words.
        source: Where the duration is documented.
    """

    waits_for: str
    since: str
    takes: str
    source: str


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a pod doesn't run.

    Attributes:
        id: Its id in the catalogue of causes, such as ``P5``.
        subject: Title of the faulty object, such as ``Pod default/train`` or ``NodePool gpu``.
        message: The subject, its fault and the value, in one sentence without a period.
        confidence: How certain it is.
        evidence: The values that show it.
        fix: One action that removes it, or the reason to wait, in one sentence without a period.
        command: A command that does this; empty if there is no single command.
        change: The change that the fix makes, to try it on the dump; ``None`` if the fix changes no object of it.
        excluded: Look-alikes that the evidence excludes, each in a sentence.
        clock: The time for which something waits; ``None`` if nothing waits.
        because: Why a pod doesn't run on which this cause rests; ``None`` if there is none, or it isn't known.
    """

    id: str
    subject: str
    message: str
    confidence: Confidence
    evidence: tuple[Evidence, ...]
    fix: str
    command: str = ""
    change: Change | None = None
    excluded: tuple[str, ...] = ()
    clock: Clock | None = None
    because: Cause | None = None


@dataclass(frozen=True, slots=True)
class Symptom:
    """Texts of a component, and the cause that they show.

    Attributes:
        id: Id of the cause.
        texts: Parts of the component's text. One of them is enough.
        fault: The fault, to follow its subject in a message.
        fix: One action that removes the fault.
    """

    id: str
    texts: tuple[str, ...]
    fault: str
    fix: str


_AnySymptom = TypeVar("_AnySymptom", bound=Symptom)


def first_symptom(table: Iterable[_AnySymptom], text: str) -> _AnySymptom | None:
    """Return the first entry of a table with a part that a text contains; ``None`` without one."""
    return next((each for each in table if any(part in text for part in each.texts)), None)


def weaker(left: Confidence, right: Confidence) -> Confidence:
    """Return the lower one of two confidences."""
    return max(left, right, key=CONFIDENCES.index)
