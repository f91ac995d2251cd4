"""What names no cluster beside several: it is judged in each, and meant for one that nobody names.

A manifest that stands by itself does not say where it is applied. What is wrong with it in one cluster and not in
another only may be wrong; what is wrong in all of them is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from gpu_preflight.case import Case
from gpu_preflight.judging.explain import Explanation, explain
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.reason import Reason
from gpu_preflight.reading.objects import Origin
from gpu_preflight.rules.rule import Finding
from gpu_preflight.scheduling.verdict import Verdict


class Shared:
    """What several clusters share, and what becomes of it in each.

    Args:
        cases: The clusters.
        found: What rules find in them.
    """

    def __init__(self, cases: Sequence[Case], found: Iterable[Finding]) -> None:
        self._cases, self._found = cases, list(found)
        # Alternatives of one cluster share its name: what they have in common is applied in each of them.
        self._explanations: dict[int, Explanation] = {}
        self._names = {each.cluster.title: each.cluster.name for each in cases}

    def explanation(self, case: Case) -> Explanation:
        """Return what becomes of the GPU workloads of one of the clusters, computed once."""
        if id(case) not in self._explanations:
            self._explanations[id(case)] = explain(case, self.findings)
        return self._explanations[id(case)]

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, of which those that hold in some clusters only are not certain."""
        clusters: dict[tuple[str, Origin, str], set[str]] = {}
        for each in self._found if self._origins else ():
            if each.problem.origin in self._origins and not each.problem.unknown:
                clusters.setdefault(_key(each), set()).add(self._names[each.cluster])
        some = {key for key, names in clusters.items() if len(names) < len(set(self._names.values()))}
        return tuple(_not_certain(each) if some and _key(each) in some else each for each in self._found)

    @cached_property
    def _origins(self) -> frozenset[Origin]:
        """Where what names no cluster stands; nothing of one cluster alone."""
        if len(set(self._names.values())) < 2:
            return frozenset()
        cluster = self._cases[0].cluster
        objects = {each.origin for each in cluster.objects if each.cluster is None}
        return frozenset(objects | {each.origin for each in cluster.charts if each.cluster is None})

    def verdicts(self, case: Case, verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
        """Return verdicts on workloads of a cluster, of which no is not known where another cluster takes the pods."""
        return tuple(self._maybe_there(each, case) if self._origins else each for each in verdicts)

    def _maybe_there(self, verdict: Verdict, case: Case) -> Verdict:
        taking = self._taking.get((verdict.workload.origin, verdict.workload.name), ())
        other = next((each for each in taking if each != case.cluster.name), None)
        if verdict.answer is not Answer.NO or other is None:
            return verdict
        here = "its program fails" if verdict.result == "failsAtStart" else "it would stay Pending"
        text = f"its file names no cluster: {here} here, and cluster {other} may take it"
        return replace(verdict, answer=Answer.UNKNOWN, reasons=(Reason(Answer.UNKNOWN, "pod", text), *verdict.reasons))

    @cached_property
    def _taking(self) -> Mapping[tuple[Origin, str], list[str]]:
        """The clusters that take the pods, or may, by origin and name of workloads that name no cluster."""
        found: dict[tuple[Origin, str], list[str]] = {}
        for case in self._cases:
            for each in self.explanation(case).verdicts:
                if each.answer is not Answer.NO and each.workload.origin in self._origins:
                    found.setdefault((each.workload.origin, each.workload.name), []).append(case.cluster.name)
        return found


def _key(finding: Finding) -> tuple[str, Origin, str]:
    subject = finding.problem.subject
    return finding.rule.id, finding.problem.origin, str(getattr(subject, "title", ""))


def _not_certain(finding: Finding) -> Finding:
    return replace(finding, problem=replace(finding.problem, unknown=True))
