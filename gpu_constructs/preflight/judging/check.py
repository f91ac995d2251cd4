"""Every rule over every cluster of an input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.cluster.clusters import clusters
from gpu_constructs.preflight.judging.acknowledgements import Acknowledgement, acknowledged, acknowledgements, mistaken
from gpu_constructs.preflight.judging.explain import Explanation, explain
from gpu_constructs.preflight.judging.shared import Shared
from gpu_constructs.preflight.model.cluster import Cluster
from gpu_constructs.preflight.model.workload import Workload
from gpu_constructs.preflight.reading.inputs import Input
from gpu_constructs.preflight.reading.objects import Origin
from gpu_constructs.preflight.rules import rules
from gpu_constructs.preflight.rules.rule import SEVERITIES, Finding
from gpu_constructs.preflight.schema.expressions import INSTALL, can_ask, has_rules


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found.

    Attributes:
        cases: The clusters that were judged.
        findings: What is wrong, the gravest first.
        shared: What the clusters share.
        unread: What could not be read before deployment: where, and why.
        unused: Lines of acknowledgement files that accept nothing.
        mistaken: What is wrong with acknowledgements in metadata and annotations.
    """

    cases: tuple[Case, ...]
    findings: tuple[Finding, ...]
    shared: Shared
    unread: tuple[tuple[Origin, str], ...] = ()
    unused: tuple[Acknowledgement, ...] = ()
    mistaken: tuple[str, ...] = ()

    def explanation(
        self, case: Case, workloads: Iterable[Workload] | None = None, *, named: bool = False
    ) -> Explanation:
        """Return what becomes of the workloads of one of the clusters, beside what was found there.

        Args:
            case: The cluster.
            workloads: Some of its workloads. Default: those that ask for a GPU.
            named: Whether somebody says that they are meant for this cluster.
        """
        found = explain(case, self.findings, workloads)
        return found if named else replace(found, verdicts=self.shared.verdicts(case, found.verdicts))

    @property
    def fails(self) -> bool:
        """Whether an error stands that nobody accepts."""
        return any(each.counts for each in self.findings)

    @property
    def unasked(self) -> tuple[str, ...]:
        """What was not judged, and the command that installs what judges it."""
        ruled = any(has_rules(each) for case in self.cases for each in case.cluster.objects)
        return () if not ruled or can_ask() else (f"rules in CEL of Karpenter's definitions; {INSTALL}",)

    @property
    def unknown(self) -> bool:
        """Whether something could not be told before deployment."""
        return bool(self.unread) or any(each.problem.unknown for each in self.findings if each.acknowledged is None)


def check(given: Input, told: Iterable[Cluster] | None = None) -> Report:
    """Judge an input by every rule.

    Args:
        given: The input.
        told: Its clusters, as they are to be judged. Default: as it describes them.

    Raises:
        UnusableInput: An acknowledgement names no rule or gives no reason.
    """
    listed = acknowledgements(given.acknowledgements)
    cases = tuple(map(Case, clusters(given) if told is None else told))
    every = (finding for case in cases for finding in findings_of(case, listed, given.accepted))
    shared = Shared(cases, every)
    findings = sorted(
        shared.findings,
        key=lambda each: (each.acknowledged is not None, SEVERITIES.index(each.rule.severity), each.rule.id),
    )
    unused = tuple(line for line in listed if not any(map(line.accepts, findings)))
    wrong = mistaken(each.cluster for each in cases)
    return Report(cases, tuple(findings), shared, given.problems, unused, wrong)


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
