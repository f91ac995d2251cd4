"""Every rule over every cluster of an input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpu_constructs.preflight.acknowledgements import Acknowledgement, acknowledged, acknowledgements
from gpu_constructs.preflight.clusters import clusters
from gpu_constructs.preflight.inputs import Input
from gpu_constructs.preflight.model import Cluster, Origin
from gpu_constructs.preflight.rules import rules
from gpu_constructs.preflight.rules.rule import Finding

_SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found.

    Attributes:
        clusters: The clusters that were judged.
        findings: What is wrong, the gravest first.
        unread: What could not be read before deployment: where, and why.
    """

    clusters: tuple[Cluster, ...]
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
    found = clusters(given)
    findings = [finding for cluster in found for finding in findings_of(cluster, listed, given.accepted)]
    findings.sort(key=lambda each: (each.acknowledged is not None, _SEVERITIES.index(each.rule.severity), each.rule.id))
    return Report(found, tuple(dict.fromkeys(findings)), given.problems)


def findings_of(
    cluster: Cluster, listed: Iterable[Acknowledgement] = (), accepted: Mapping[str, Mapping[str, str]] | None = None
) -> list[Finding]:
    """Return what every rule finds in a cluster."""
    lines = tuple(listed)
    found = [
        Finding(rule, cluster.name, problem)
        for rule in rules().values()
        for problem in dict.fromkeys(rule.check(cluster))
    ]
    return [replace(each, acknowledged=acknowledged(each, cluster, lines, accepted or {})) for each in found]
