"""Preflight's results for a pod: on each node that pools may create, and on all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from gpu_preflight.case import Case
from gpu_preflight.judging.check import collect_findings
from gpu_preflight.judging.explain import Stops
from gpu_preflight.model.answer import Answer, Reason, worst
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.pod import Workload
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.rule import Finding
from gpu_preflight.scheduling.demand import Demand, demand
from gpu_preflight.scheduling.fitting import Memory, fits
from gpu_preflight.scheduling.verdict import PoolVerdict, Verdict
from tests.preflight.strategies.vocabulary import Json
from tests.preflight.world_files import read

# The scheduler's decisions about a pod.
Fate = Literal["runs", "waits", "refused", "unknown"]
# All existing nodes together.
ANYWHERE = "anywhere"
_FATES: dict[Answer, Fate] = {Answer.YES: "runs", Answer.NO: "waits", Answer.UNKNOWN: "unknown"}
# The scheduler's reasons that apply to existing nodes only.
_OF_NODES = ("taint", "label", "resource", "port", "topology")


class Told:
    """Preflight's results for some pods of one cluster.

    Args:
        world: The cluster.
        pods: The pods, each with a unique name.
    """

    def __init__(self, world: Json, pods: Iterable[Json]) -> None:
        listed = list(pods)
        self.case = Case(read(world, listed))
        self.cluster, self._memory = self.case.cluster, Memory()
        names = {each["metadata"]["name"] for each in listed}
        self.workloads = {
            each.owner.name: each
            for each in self.cluster.workloads
            if each.owner.kind == "Pod" and each.owner.name in names
        }
        findings = [each for each in collect_findings(self.case) if _is_of_a_pod(each, self.workloads)]
        stops = Stops(self.case, findings)
        # Results of `explain` for a pod that is alone: others may take the room that it needs.
        self.verdicts = {name: stops.apply(self.case.verdict(each)) for name, each in self.workloads.items()}

    def nodes(self) -> Iterator[tuple[str, Pool, NodeToBe]]:
        """Yield a fresh node of each type of each pool, by the name of its pool and its type."""
        for pool in self.cluster.pools:
            for node in self.case.nodes(pool):
                yield f"{pool.name} {node.instance_type}", pool, node

    def demand(self, name: str) -> Demand:
        """Return what a pod asks for, as it is let in."""
        return demand(self.case.admitted(self.workloads[name]).workload, self.cluster)

    def fates(self, name: str) -> dict[str, Fate]:
        """Return what becomes of a pod on each node alone, and where all of them are there.

        The latter is left out if it depends on autoscalers, which the scheduler doesn't know about.
        """
        verdict, wanted = self.verdicts[name], self.demand(name)
        if _is_refused(verdict):
            return dict.fromkeys((*(each for each, _, _ in self.nodes()), ANYWHERE), "refused")
        held = worst(_held(verdict))
        found = {
            each: _FATES[held if held is not Answer.YES else fits(wanted, node, pool, self._memory.ask).answer]
            for each, pool, node in self.nodes()
        }
        if not _rests_on_autoscalers(verdict):
            found[ANYWHERE] = _FATES[verdict.answer]
        return found


def _is_of_a_pod(finding: Finding, workloads: Mapping[str, Workload]) -> bool:
    origin = finding.problem.subject.origin
    return any(origin in (each.origin, each.owner.origin) for each in workloads.values())


def _held(verdict: Verdict) -> list[Reason]:
    """Return the certain and the unknown reasons against every node."""
    return [each for each in verdict.reasons if each.kind in ("refused", "gate", "scheduler", "pod", "rule")]


def _is_refused(verdict: Verdict) -> bool:
    return any(each.kind == "refused" and each.answer is Answer.NO for each in verdict.reasons)


def _rests_on_autoscalers(verdict: Verdict) -> bool:
    return verdict.answer is Answer.NO and any(map(_is_of_autoscaler, verdict.pools))


def _is_of_autoscaler(verdict: PoolVerdict) -> bool:
    refusing = [each for each in verdict.reasons if each.answer is Answer.NO]
    return bool(refusing) and not any(each.kind in _OF_NODES for each in refusing)


def agrees(told: Fate, decided: Fate) -> bool:
    """Whether the decision matches the result: a pod that waits may be rejected too, a rejected pod must be."""
    return told == decided or told == "unknown" or (told == "waits" and decided == "refused")
