"""The node or the pool in question, the pods that it concerns, and why it doesn't take those that wait."""

from __future__ import annotations

from typing import Literal

from gpu_facts.labels import NODE_GROUP, NODE_POOL
from gpu_facts.light import dataclass
from gpu_facts.refusals import did_you_mean
from gpu_preflight.doctor.diagnosis import Diagnosis
from gpu_preflight.doctor.live import Live, Target
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.reading.documents import UnusableInput
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig

_MOST_REASONS = 3


@dataclass(frozen=True, slots=True)
class Place:
    """A node, or a NodePool or node group.

    Attributes:
        name: Its name.
        nodes: Names of its nodes.
        faults: Conditions of a NodePool that aren't True, as text.
    """

    kind: Literal["node", "pool"]
    name: str
    nodes: frozenset[str]
    faults: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Its kind and name."""
        return f"{self.kind} {self.name}"

    def idle_sentence(self, namespace: str | None) -> str:
        """Return the result if no pod that it concerns has a fault.

        Args:
            namespace: The only namespace in question; ``None`` for all.
        """
        pods = "GPU pod" if namespace is None else f"GPU pod of namespace {namespace}"
        if self.kind == "node":
            return f"Every {pods} on {self.title} runs, and none waits for a node"
        faults = f"; its condition {'; '.join(self.faults)}" if self.faults else ""
        why = f", so {self.title} has no reason to grow" if namespace is None else f" in {self.title}"
        return f"No {pods} waits for a node{why}{faults}"

    def concerns(self, target: Target) -> bool:
        """Whether a pod is on one of its nodes, or has no node."""
        return target.node is None or target.node in self.nodes

    def is_seen_as(self, pool: Pool) -> bool:
        """Whether it is a pool of the simulation. A running node is a pool with a fixed size."""
        if pool.observed is not None and pool.observed.names:
            return self.kind == "node" and not self.nodes.isdisjoint(pool.observed.names)
        return self.kind == "pool" and pool.name == self.name

    def result(self, diagnosis: Diagnosis) -> str:
        """Return whether it takes a pod that waits, and why not; empty for other pods, and if that isn't simulated."""
        if diagnosis.verdict is None or diagnosis.target.node is not None:
            return ""
        found = next((each for each in diagnosis.verdict.pools if self.is_seen_as(each.pool)), None)
        # A cause of the pool itself is more than "unknown".
        is_explained = any(each.subject.endswith(f" {self.name}") for each in diagnosis.ranking.roots)
        if found is None or (found.answer is Answer.UNKNOWN and is_explained):
            return ""
        if found.answer is Answer.YES:
            return f"{self.title} takes the pod in the simulation"
        texts = dict.fromkeys(each.sentence for each in found.reasons if each.answer is found.answer)
        reasons = "; ".join(list(texts)[:_MOST_REASONS])
        if found.answer is Answer.NO:
            return f"{self.title} doesn't take the pod: {reasons}"
        return f"it isn't known whether {self.title} takes the pod{f': {reasons}' if reasons else ''}"


def node_place(live: Live, name: str) -> Place:
    """Return the node with a name.

    Raises:
        UnusableInput: The dump has no such node.
    """
    known = [each.name for each in live.nodes]
    if name in known:
        return Place("node", name, frozenset({name}))
    claim = live.object("NodeClaim", name)
    if claim is not None:
        raise UnusableInput(f"--node must be a node, got NodeClaim {name}, {_state(live, claim)}; name its pool")
    raise UnusableInput(f"--node must be a node of the dump, got {name!r}{_hint(live, name, known)}")


def pool_place(live: Live, name: str) -> Place:
    """Return the NodePool or node group with a name.

    Raises:
        UnusableInput: The dump has no such pool, and no node of it.
    """
    nodes: dict[str, set[str]] = {}
    for each in live.nodes:
        nodes.setdefault(str(each.labels.get(NODE_POOL) or each.labels.get(NODE_GROUP) or ""), set()).add(each.name)
    pools = {each.name for each in live.case.cluster.pools if each.observed is None or not each.observed.names}
    known = sorted({*nodes, *pools} - {""})
    if name not in known:
        raise UnusableInput(
            f"--pool must be a NodePool or node group of the dump, got {name!r}{_hint(live, name, known)}"
        )
    own = live.object("NodePool", name)
    bad = [each for each in live.conditions(own) if each.status == "False"] if own is not None else []
    faults = tuple(f"{each.type} is False: {each.message or each.reason}" for each in bad)
    return Place("pool", name, frozenset(nodes.get(name, ())), faults)


def _state(live: Live, claim: Object) -> str:
    node = dig(claim.content, "status", "nodeName")
    return f"whose node is {node}" if node else "which has no node yet"


def _hint(live: Live, name: str, known: list[str]) -> str:
    """Return what a name that isn't found probably means, or why it isn't known."""
    if live.certainty("Node") is None and not known:
        return "; it doesn't have the list of nodes"
    return did_you_mean(name, known) or (f"; it has {', '.join(known[:5])}" if known else "; it has none")
