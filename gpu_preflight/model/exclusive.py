"""Groups of pods of which each has a topology domain to itself, as JobSet and LeaderWorkerSet place them."""

from __future__ import annotations

from typing import Any

from gpu_facts.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Exclusive:
    """Groups that keep apart, each of them whole in one domain.

    Attributes:
        key: Label of the nodes that tells domains apart.
        groups: How many groups there are; ``None`` where it is not known.
        size: Pods of each; ``None`` where it is not known.
        beside: Groups of the same owner's other parts, which want domains too; ``None`` where it is not known.
        shared: Whether pods of another part run in the domain of each group.
        labelled: Whether nodes are labelled for the groups beforehand, by somebody.
    """

    key: Any
    groups: int | None
    size: int | None
    beside: int | None = 0
    shared: bool = False
    labelled: bool = False
