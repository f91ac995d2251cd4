"""What becomes of a workload: in each pool, and all in all."""

from __future__ import annotations

from typing import Literal

from gpu_facts.light import dataclass
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.pod import Workload
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.scheduling.demand import Demand
from gpu_preflight.scheduling.pool_limits import GROWS, Growth

Result = Literal["runs", "failsAtStart", "pending", "unknown"]


@dataclass(frozen=True, slots=True)
class PoolVerdict:
    """Whether a pool gives a workload nodes.

    Attributes:
        pool: The pool.
        answer: Whether a pod of the workload runs there.
        reasons: Every reason against it, and everything that is not known.
        instance_types: The types whose nodes take the pod.
        per_node: Pods that a node takes; of several types, the fewest.
        nodes: Nodes that all replicas need; ``None`` where it is not known.
        binding: The limit that stops first, when the pool alone leaves replicas without a node.
        nodes_taking: A fresh node of each of those types.
        holds: Pods for which it surely has room; ``None`` without bound.
        may_hold: Pods for which it has room at most; ``None`` without bound, or where it is not known.
        nodes_refusing: A fresh node of each type where the pool takes none of the pods, and these are spread.
        growth: How it comes to more nodes than run always.
    """

    pool: Pool
    answer: Answer
    reasons: tuple[Reason, ...]
    instance_types: tuple[str, ...] = ()
    per_node: int | None = None
    nodes: int | None = None
    binding: str | None = None
    nodes_taking: tuple[NodeToBe, ...] = ()
    holds: int | None = None
    may_hold: int | None = None
    nodes_refusing: tuple[NodeToBe, ...] = ()
    growth: Growth = GROWS

    def with_pool(self, pool: Pool) -> PoolVerdict:
        """Return the same verdict on another pool; `dataclasses.replace` takes three times as long."""
        return self._like(pool, self.answer, self.reasons)

    def because(self, answer: Answer, reasons: tuple[Reason, ...]) -> PoolVerdict:
        """Return the verdict with another answer and its reasons."""
        return self._like(self.pool, answer, reasons)

    def _like(self, pool: Pool, answer: Answer, reasons: tuple[Reason, ...]) -> PoolVerdict:
        return PoolVerdict(
            pool,
            answer,
            reasons,
            self.instance_types,
            self.per_node,
            self.nodes,
            self.binding,
            self.nodes_taking,
            self.holds,
            self.may_hold,
            self.nodes_refusing,
            self.growth,
        )

    @property
    def is_conditional(self) -> bool:
        """Whether it takes the pods, at least on a condition."""
        open_ones = (each for each in self.reasons if each.answer is Answer.UNKNOWN)
        return self.answer is not Answer.NO and all(each.condition for each in open_ones)

    @property
    def refusing(self) -> tuple[str, ...]:
        """Why it surely does not take the pods."""
        return tuple(dict.fromkeys(each.text for each in self.reasons if each.answer is Answer.NO))

    @property
    def distance(self) -> tuple[int, int]:
        """How near the pool comes: what it fails by, weighed."""
        if self.answer is not Answer.NO:
            return int(self.answer is Answer.UNKNOWN), 0
        return 2, sum([each.weight for each in self.reasons if each.answer is Answer.NO])


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the pods of a workload run.

    Attributes:
        workload: The pods.
        answer: Yes when the pools take all of them, no when they do not.
        pools: Verdict of each pool, the nearest first.
        reasons: What holds of the workload wherever it runs.
        demand: What one of its pods, or of pods like them, asks for.
        rests_on: What has to hold for it that is not known.
        runs_if: Conditions under which an unknown result is a yes; empty where more is unknown than a component.
    """

    workload: Workload
    answer: Answer
    pools: tuple[PoolVerdict, ...]
    reasons: tuple[Reason, ...]
    demand: Demand
    rests_on: tuple[str, ...] = ()
    runs_if: tuple[str, ...] = ()

    @property
    def result(self) -> Result:
        """The answer as people use it: of the workloads that don't run, some get nodes and fail there."""
        if self.answer is not Answer.NO:
            return "runs" if self.answer is Answer.YES else "unknown"
        against = {each.kind for each in self.reasons if each.answer is Answer.NO}
        if against != {"program"} or (self.pools and all(each.answer is Answer.NO for each in self.pools)):
            return "pending"
        return "failsAtStart"
