"""Every rule over every cluster of an input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.cluster.clusters import clusters
from gpu_constructs.preflight.judging.acknowledgements import Acknowledgement, acknowledged, acknowledgements
from gpu_constructs.preflight.reading.inputs import Input
from gpu_constructs.preflight.reading.objects import Origin
from gpu_constructs.preflight.rules import rules
from gpu_constructs.preflight.rules.rule import SEVERITIES, Finding


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found.

    Attributes:
        cases: The clusters that were judged.
        findings: What is wrong, the gravest first.
        unread: What could not be read before deployment: where, and why.
    """

    cases: tuple[Case, ...]
    findings: tuple[Finding, ...]
    unread: tuple[tuple[Origin, str], ...] = ()

    @property
    def fails(self) -> bool:
        """Whether an error stands that nobody accepts."""
        return any(each.counts for each in self.findings)

    @property
    def unknown(self) -> bool:
        """Whether something could not be told before deployment."""
        return bool(self.unread) or any(each.problem.unknown for each in self.findings if each.acknowledged is None)


def check(given: Input) -> Report:
    """Judge an input by every rule.

    Raises:
        UnusableInput: An acknowledgement names no rule or gives no reason.
    """
    listed = acknowledgements(given.acknowledgements)
    cases = tuple(map(Case, clusters(given)))
    findings = [finding for case in cases for finding in findings_of(case, listed, given.accepted)]
    findings.sort(key=lambda each: (each.acknowledged is not None, SEVERITIES.index(each.rule.severity), each.rule.id))
    return Report(cases, tuple(findings), given.problems)


def findings_of(
    case: Case, listed: Iterable[Acknowledgement] = (), accepted: Mapping[str, Mapping[str, str]] | None = None
) -> list[Finding]:
    """Return what every rule finds in a cluster."""
    lines = tuple(listed)
    found = [
        Finding(rule, case.cluster.name, problem)
        for rule in rules().values()
        for problem in {each.key: each for each in rule.check(case)}.values()
    ]
    return [replace(each, acknowledged=acknowledged(each, case.cluster, lines, accepted or {})) for each in found]
