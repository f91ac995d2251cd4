"""What names no cluster beside several: it is judged in each, and meant for one that nobody names.

A manifest that stands by itself does not say where it is applied. What is wrong with it in one cluster and not in
another only may be wrong; what is wrong in all of them is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.reason import Reason
from gpu_constructs.preflight.reading.objects import Origin
from gpu_constructs.preflight.rules.rule import Finding
from gpu_constructs.preflight.scheduling.verdict import Verdict


class Shared:
    """What several clusters share, and what becomes of it in each.

    Args:
        cases: The clusters.
    """

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = cases

    def findings(self, found: Iterable[Finding]) -> list[Finding]:
        """Return findings of which those that hold in some clusters only are not certain."""
        findings, origins = list(found), self._origins()
        if not origins:
            return findings
        clusters: dict[tuple[str, Origin], set[str]] = {}
        for each in findings:
            if each.problem.origin in origins and not each.problem.unknown:
                clusters.setdefault((each.rule.id, each.problem.origin), set()).add(each.cluster)
        some = {key for key, names in clusters.items() if len(names) < len(self._cases)}
        return [_not_certain(each) if (each.rule.id, each.problem.origin) in some else each for each in findings]

    def _origins(self) -> set[Origin]:
        if len(self._cases) == 1:
            return set()
        cluster = self._cases[0].cluster
        objects = {each.origin for each in cluster.objects if each.cluster is None}
        return objects | {each.origin for each in cluster.charts if each.cluster is None}

    def verdicts(self, case: Case, verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
        """Return verdicts on workloads of a cluster, of which no is not known where another cluster takes the pods."""
        taken = self._taken(case)
        return tuple(_maybe_there(each, taken) for each in verdicts) if taken else tuple(verdicts)

    def _taken(self, case: Case) -> Mapping[tuple[Origin, str], str]:
        """Return a cluster that takes the pods, or may, by origin and name of workloads that name no cluster."""
        origins = self._origins()
        return {
            (each.workload.origin, each.workload.name): other.cluster.name
            for other in (each for each in self._cases if origins and each is not case)
            for each in other.verdicts
            if each.answer is not Answer.NO and each.workload.origin in origins
        }


def _not_certain(finding: Finding) -> Finding:
    return replace(finding, problem=replace(finding.problem, unknown=True))


def _maybe_there(verdict: Verdict, taken: Mapping[tuple[Origin, str], str]) -> Verdict:
    other = taken.get((verdict.workload.origin, verdict.workload.name))
    if verdict.answer is not Answer.NO or other is None:
        return verdict
    text = f"its file names no cluster: it would stay Pending here, and cluster {other} may take it"
    return replace(verdict, answer=Answer.UNKNOWN, reasons=(Reason(Answer.UNKNOWN, "pod", text), *verdict.reasons))
