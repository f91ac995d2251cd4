"""Agree: the result of `explain` for a pod on a NodePool is the decision of Karpenter and the scheduler."""

from __future__ import annotations

import copy
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from gpu_facts.labels import NODE_POOL
from gpu_preflight.case import Case
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.scheduling.fitting import TURNED_AWAY
from gpu_rehearsal.assemblies import Assembly
from gpu_rehearsal.cluster.client import Object
from gpu_rehearsal.report import Line, Outcome, Report
from gpu_rehearsal.stage import Stage
from tests.e2e.rehearsal.decisions import Decision, Decisions

SCENARIO = "Agree"
SLOTS = 100
# The share of pairs that preflight may call unknown.
MOST_UNKNOWN = 0.02

# Faults that only the kubelet rejects, and that scheduler and autoscaler ignore: by words of preflight, and why.
STRICTER = {
    # As `Offer.alone` of gpu_preflight/node/devices.py reads it: failRequestsGreaterThanOne, and MPS always.
    TURNED_AWAY: "the device plugin allocates one share to a container, and the kubelet ends the pod with its refusal",
}

# Among many pods at once, what may come of another pod's node; asked once more alone.
DISPUTED = ("false yes", "false no", "undecided")

Agreement = Literal["agree", "stricter", "false yes", "false no", "unknown", "undecided"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """A pod, and the only NodePool that it may go to.

    Attributes:
        pod: The pod, without a name.
        pool: Name of the NodePool.
    """

    pod: Object
    pool: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """Preflight's result for a pair.

    Attributes:
        answer: Whether the pod runs.
        reasons: Why not, or the unknown facts.
    """

    answer: Answer
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """A pair, and both results for it.

    Attributes:
        pod: The pod in the form that both got.
        pool: Name of the NodePool.
        said: Preflight's result.
        decision: The decision of the real programs.
    """

    pod: Object
    pool: str
    said: Said
    decision: Decision

    @property
    def agreement(self) -> Agreement:
        """How the two stand to each other."""
        if self.decision.runs is None:
            return "undecided"
        if self.said.answer is Answer.UNKNOWN:
            return "unknown"
        if (self.said.answer is Answer.YES) is self.decision.runs:
            return "agree"
        if self.said.answer is Answer.YES:
            return "false yes"
        return "stricter" if stricter(self.said) else "false no"


def stricter(said: Said) -> str:
    """Return why the pod would not run on the node that is started for it; empty unless that is all there is."""
    refusing = [each for each in said.reasons if each.answer is Answer.NO]
    told = {why for each in refusing for text, why in STRICTER.items() if text in each.text}
    rest = [each for each in refusing if not any(text in each.text for text in STRICTER)]
    return "" if rest else "; ".join(sorted(told))


def agree(stage: Stage, assemblies: Sequence[Assembly], pairs: Sequence[Pair], report: Report) -> list[Told]:
    """Ask both of all pairs, and report how often they agree.

    Args:
        stage: The stage, after creation.
        assemblies: The created stacks.
        pairs: The pairs to try.
        report: Where to write.
    """
    told: list[Told] = []
    decisions = Decisions(stage, slots=SLOTS)
    with decisions.ready():
        for batch in batches(pairs, alone=decisions.static):
            pods = [
                _asked(each, decisions.namespace(slot), f"asked-{len(told) + slot}") for slot, each in enumerate(batch)
            ]
            done = decisions.of(pods)
            said = verdicts(assemblies, pods, [each.pool for each in batch])
            told += [
                Told(pod=pod, pool=pair.pool, said=one, decision=decision)
                for pod, pair, one, decision in zip(pods, batch, said, done, strict=True)
            ]
        told = [_again(each, decisions) if each.agreement in DISPUTED else each for each in told]
    report.add(lines(told))
    return told


def _again(told: Told, decisions: Decisions) -> Told:
    """Ask once more of a pair on which both differ, without the nodes of other pods."""
    pod = copy.deepcopy(told.pod)
    pod["metadata"]["name"] += "-again"
    return replace(told, decision=decisions.alone(pod))


def batches(pairs: Iterable[Pair], *, alone: set[str], size: int = SLOTS) -> Iterator[list[Pair]]:
    """Yield pairs that may be asked at once: of pools with nodes that are there already, one pod at a time."""
    left = list(pairs)
    while left:
        taken: list[Pair] = []
        later: list[Pair] = []
        for each in left:
            crowded = each.pool in alone and any(one.pool == each.pool for one in taken)
            (later if crowded or len(taken) == size else taken).append(each)
        yield taken
        left = later


def verdicts(assemblies: Iterable[Assembly], pods: Sequence[Object], pools: Sequence[str]) -> list[Said]:
    """Return preflight's results for pods next to an assembly's objects, each on its only possible pool."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pods.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(pods)}))
        read = read_input([*sorted({str(each.folder) for each in assemblies}), str(file)])
    case = next(each for each in map(Case, clusters(read)) if each.cluster.workloads)
    by_name = {each.name: each for each in case.cluster.workloads}
    found = []
    for pod, pool in zip(pods, pools, strict=True):
        verdict = case.verdict(by_name[f"Pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"])
        of_pool = [one for each in verdict.pools if each.pool.name == pool for one in each.reasons]
        found.append(Said(answer=verdict.answer, reasons=(*verdict.reasons, *of_pool)))
    return found


def lines(told: Sequence[Told]) -> Iterator[Line]:
    """Return what to report of all pairs, and of each that must not be."""
    counts = Counter(each.agreement for each in told)
    for kind in DISPUTED:
        found = [each for each in told if each.agreement == kind]
        yield Line(
            scenario=SCENARIO,
            promise=f"no {kind} in {len(told)} pairs of pod and NodePool",
            outcome=Outcome.FAILED if found else Outcome.HELD,
            text="; ".join(_described(each) for each in found[:5]),
        )
    for why, number in sorted(Counter(stricter(each.said) for each in told if each.agreement == "stricter").items()):
        yield Line(
            scenario=SCENARIO,
            promise="preflight says no where Karpenter starts a node in vain",
            outcome=Outcome.HELD,
            text=f"{number} of {len(told)}: {why}",
        )
    yield Line(
        scenario=SCENARIO,
        promise=f"at most {MOST_UNKNOWN:.0%} unknown",
        outcome=Outcome.HELD if counts["unknown"] <= MOST_UNKNOWN * len(told) else Outcome.FAILED,
        text=f"{counts['unknown']} of {len(told)}",
    )


def _described(told: Told) -> str:
    reasons = " / ".join(each.text for each in told.said.reasons)
    return f"{told.pool}: preflight {told.said.answer.value} ({reasons}), done {told.decision.message or 'a node'}"


def _asked(pair: Pair, namespace: str, name: str) -> Object:
    """Return a pod with a unique name and only one possible NodePool."""
    made = copy.deepcopy(pair.pod)
    made["metadata"] = {**made.get("metadata", {}), "namespace": namespace, "name": name}
    made["spec"]["nodeSelector"] = {**made["spec"].get("nodeSelector", {}), NODE_POOL: pair.pool}
    return made
