"""Results of a workload after candidate changes. Each set of changes is checked once."""

from __future__ import annotations

from gpu_preflight.case import Case
from gpu_preflight.judging.check import check
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.inputs import Input
from gpu_preflight.remedies.change import Change, changed
from gpu_preflight.scheduling.verdict import Verdict


class Trials:
    """Trials of changes for one workload.

    Args:
        given: What was read.
        case: The cluster.
        workload: The workload.
        running: Names of the workloads that run and must keep running.
        max_trials: How many sets of changes are checked.
    """

    def __init__(self, given: Input, case: Case, workload: Workload, running: frozenset[str], max_trials: int) -> None:
        self._given, self._cluster, self._workload = given, case.cluster.title, workload
        self._running, self._left = running, max_trials
        self._seen: dict[str, tuple[Case, tuple[Verdict, ...]] | None] = {}

    def runs(self, changes: tuple[Change, ...]) -> bool:
        """Whether all pods run after the changes and no running workload stops.

        They may run on conditions, which :meth:`conditions` returns.
        """
        judged = self._judged(changes)
        return judged is not None and all(each.answer is Answer.YES or each.runs_if for each in judged[1])

    def conditions(self, changes: tuple[Change, ...]) -> tuple[str, ...]:
        """Return on which conditions the pods run with some changes made."""
        judged = self._judged(changes)
        return tuple(dict.fromkeys(one for each in judged[1] for one in each.runs_if)) if judged else ()

    def after(self, changes: tuple[Change, ...]) -> tuple[Case, Verdict] | None:
        """Return the cluster and the verdict with some changes made, where it is one and still no."""
        judged = self._judged(changes)
        if judged is None or len(judged[1]) != 1 or judged[1][0].answer is not Answer.NO:
            return None
        return judged[0], judged[1][0]

    def _judged(self, changes: tuple[Change, ...]) -> tuple[Case, tuple[Verdict, ...]] | None:
        """Return the verdicts with some changes made; ``None`` where there is none, or enough was tried."""
        key = repr([(each.key, each.origin, each.property, each.value) for each in changes])
        if key not in self._seen:
            asks = bool(changes) and self._left > 0
            self._seen[key] = self._judge(changes) if asks else None
            self._left -= asks
        return self._seen[key]

    def _judge(self, changes: tuple[Change, ...]) -> tuple[Case, tuple[Verdict, ...]] | None:
        report = check(changed(self._given, self._workload.owner, changes), every_rule=False)
        for case in report.cases:
            if case.cluster.title == self._cluster:
                verdicts = report.explanation(case, named=True).verdicts
                found = tuple(each for each in verdicts if each.workload.name == self._workload.name)
                return (case, found) if found and not self._stops_others(verdicts) else None
        return None

    def _stops_others(self, verdicts: tuple[Verdict, ...]) -> bool:
        return any(each.answer is Answer.NO and each.workload.name in self._running for each in verdicts)
