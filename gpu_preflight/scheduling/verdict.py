"""The result for a workload: in each pool, and for all pools together."""

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
    """Whether a pool has nodes for a workload.

    Attributes:
        pool: The pool.
        answer: Whether a pod of the workload runs there.
        reasons: Every reason against it, and everything that isn't known.
        instance_types: The types whose nodes accept the pod.
        per_node: Pods that fit on a node. If there are several types, the fewest.
        nodes: Nodes that all replicas need; ``None`` if that isn't known.
        binding: The limit that applies first, if this pool alone leaves replicas without a node.
        nodes_taking: A fresh node of each of those types.
        holds: Min number of pods that the pool has room for; ``None`` without limit.
        may_hold: Max number of pods that the pool has room for; ``None`` if it is unlimited or unknown.
        nodes_refusing: A fresh node of each type, if the pool accepts none of the pods and the pods are spread.
        growth: How the pool gets more nodes than the nodes that always run.
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
        """Return the same result for another pool. `dataclasses.replace` takes three times as long."""
        return self._like(pool, self.answer, self.reasons)

    def because(self, answer: Answer, reasons: tuple[Reason, ...]) -> PoolVerdict:
        """Return the result with another answer and the reasons for it."""
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
        """Whether the pool accepts the pods, at least under a condition."""
        open_ones = (each for each in self.reasons if each.answer is Answer.UNKNOWN)
        return self.answer is not Answer.NO and all(each.condition for each in open_ones)

    @property
    def refusing(self) -> tuple[str, ...]:
        """Why the pool certainly doesn't accept the pods."""
        return tuple(dict.fromkeys(each.sentence for each in self.reasons if each.answer is Answer.NO))

    @property
    def distance(self) -> tuple[int, int]:
        """How far the pool is from a fit: the weighted sum of its faults."""
        if self.answer is not Answer.NO:
            return int(self.answer is Answer.UNKNOWN), 0
        return 2, sum([each.weight for each in self.reasons if each.answer is Answer.NO])


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the pods of a workload run.

    Attributes:
        workload: The pods.
        answer: Yes if the pools accept all of the pods, no if they don't.
        pools: Result of each pool, the nearest first.
        reasons: Reasons that apply to the workload in every pool.
        demand: The requests of one of its pods, or of one pod with the same shape.
        rests_on: Assumptions that the result depends on and that aren't known.
        runs_if: Conditions under which an unknown result is a yes. Empty if more is unknown than a component.
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
        """The answer in the words of `explain`. Some workloads that don't run get nodes and fail there."""
        if self.answer is not Answer.NO:
            return "runs" if self.answer is Answer.YES else "unknown"
        against = {each.kind for each in self.reasons if each.answer is Answer.NO}
        if against != {"program"} or (self.pools and all(each.answer is Answer.NO for each in self.pools)):
            return "pending"
        return "failsAtStart"
