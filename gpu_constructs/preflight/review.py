"""What a change means for GPUs and money: two inputs compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpu_constructs.preflight.answer import Answer
from gpu_constructs.preflight.model import PoolKind
from gpu_constructs.preflight.rules.rule import Finding

Change = Literal["added", "removed", "replaced", "changed"]


@dataclass(frozen=True, slots=True)
class PoolChange:
    """What becomes of a pool.

    Attributes:
        cluster: Name of its cluster.
        name: Its name.
        kind: Who makes its nodes.
        change: What becomes of it; one that is replaced drains its nodes.
        details: What differs, one line each.
    """

    cluster: str
    name: str
    kind: PoolKind
    change: Change
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Move:
    """A version that changes.

    Attributes:
        what: Of what.
        before: The version before; ``None`` where there was none.
        after: The version after; ``None`` where there is none.
    """

    what: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most that every GPU pool together can come to.

    Attributes:
        gpus: GPUs of the pools that have a bound.
        vcpus: vCPUs needed by quota code, with the quota's name.
        usd_per_hour: On-demand list price in us-east-1, US dollars an hour, of the pools that have a bound.
        unbounded: Pools without a bound.
        unpriced: Instance types without a list price.
    """

    gpus: int
    vcpus: Mapping[str, tuple[str, int]]
    usd_per_hour: float
    unbounded: tuple[str, ...] = ()
    unpriced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fate:
    """A workload whose verdict changes.

    Attributes:
        workload: Its name.
        before: The verdict before; ``None`` where it was not there.
        after: The verdict after; ``None`` where it is gone.
        reason: The nearest reason for the verdict after.
    """

    workload: str
    before: Answer | None
    after: Answer | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Review:
    """Everything a reviewer asks of a change.

    Attributes:
        pools: Pools that are added, removed, replaced or changed.
        moves: Versions that change.
        before: The ceiling before.
        after: The ceiling after.
        fates: Workloads whose verdict changes.
        new: Findings that come.
        fixed: Findings that go.
        standing: Findings that stay.
    """

    pools: tuple[PoolChange, ...] = ()
    moves: tuple[Move, ...] = ()
    before: Ceiling = field(default_factory=lambda: Ceiling(0, {}, 0.0))
    after: Ceiling = field(default_factory=lambda: Ceiling(0, {}, 0.0))
    fates: tuple[Fate, ...] = ()
    new: tuple[Finding, ...] = ()
    fixed: tuple[Finding, ...] = ()
    standing: tuple[Finding, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether the change leaves an error that nobody accepts, or a pod Pending."""
        pending = any(each.after is Answer.NO for each in self.fates)
        return pending or any(each.counts for each in (*self.new, *self.standing))
