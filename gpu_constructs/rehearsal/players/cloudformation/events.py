"""What became of each resource, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# CloudFormation knows the first two. NOT_PLAYED: nothing here plays the type, or what it refers to. NOT_BEGUN: another
# resource had failed before.
Status = Literal["CREATE_COMPLETE", "CREATE_FAILED", "NOT_PLAYED", "NOT_BEGUN"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """The end of a resource's creation.

    Attributes:
        logical_id: Its name in the template.
        type: What it is, e.g. ``AWS::EC2::VPC``.
        status: How it ended.
        reason: Why it is not complete, or how it was played.
        started: Seconds from the start of the stack's creation to its own.
        ended: Seconds from the start of the stack's creation to its end.
        after: Logical ids it waited for.
        physical_id: What ``Ref`` gives; empty where it does not exist.
    """

    logical_id: str
    type: str
    status: Status
    reason: str = ""
    started: float = 0.0
    ended: float = 0.0
    after: tuple[str, ...] = ()
    physical_id: str = ""
