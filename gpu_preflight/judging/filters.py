"""Findings that options hide: rules and clusters that aren't selected, and acknowledgements outside of the input.

Filters apply to a finished report, so they can't change the result of `explain`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from gpu_facts.light import dataclass
from gpu_preflight.judging.acknowledgements import Acceptance, Acknowledgement, accept
from gpu_preflight.judging.check import PENDING_RULE, Report, finding_order
from gpu_preflight.reading.objects import Origin
from gpu_preflight.rule import Finding
from gpu_preflight.rules import rules
from gpu_preflight.rules.pods import pending_problem


@dataclass(frozen=True, slots=True)
class FileAcknowledgement(Acknowledgement):
    """An acknowledgement of findings in certain files.

    Attributes:
        within: Pattern of the finding's file, or of a folder around it, relative to the folder of ``file``.
        anywhere: Whether the finding's file may be in another folder, such as another checkout of the repository. The
            pattern then matches the end of the file's path.
    """

    within: str = "*"
    anywhere: bool = False

    def accepts(self, finding: Finding) -> bool:
        """Whether it accepts a finding: one of its rule, path and file."""
        return Acknowledgement.accepts(self, finding) and self.is_within(finding.problem.origin)

    def is_within(self, origin: Origin) -> bool:
        """Whether the file of an origin matches the pattern."""
        if self.within == "*":
            return True
        place = relative_file(origin.file, os.path.dirname(self.file))
        within = (
            [_without_parents(self.within), f"*/{_without_parents(self.within)}"] if self.anywhere else [self.within]
        )
        return any(fnmatchcase(place, each) or fnmatchcase(place, f"{each.rstrip('/')}/*") for each in within)


def _without_parents(pattern: str) -> str:
    """Return a pattern without the ``../`` at its beginning."""
    while pattern.startswith("../"):
        pattern = pattern[3:]
    return pattern


def relative_file(file: str, folder: str) -> str:
    """Return the path of a file relative to a folder, with slashes; ``<stdin>`` stays unchanged."""
    if file.startswith("<"):
        return file
    try:
        return Path(os.path.relpath(os.path.abspath(file), os.path.abspath(folder))).as_posix()
    except ValueError:
        # The file is on another Windows drive.
        return Path(os.path.abspath(file)).as_posix()


@dataclass(frozen=True, slots=True)
class Filters:
    """Selects the findings of a report, and accepts findings outside of the input.

    Attributes:
        accepted: Acknowledgements on the command line, in settings and in a baseline.
        selected: Ids of the rules whose findings are reported; ``None`` for all.
        clusters: Names of the clusters whose findings are reported; empty for all.
    """

    accepted: tuple[Acknowledgement, ...] = ()
    selected: frozenset[str] | None = None
    clusters: tuple[str, ...] = ()

    def applied(self, report: Report) -> Report:
        """Return a report with these filters. It keeps the hidden findings, so that outputs can count them."""
        chosen = tuple(each for each in report.cases if not self.clusters or each.cluster.title in self.clusters)
        kept = [each for each in report.findings if self._is_selected(each)]
        pending = pending_findings(replace(report, cases=chosen))
        waived = [each for each in _accept(pending, self.accepted) if each.acknowledged is not None]
        waived += [each for each in pending if not self._is_selected(each)]
        result = replace(
            report,
            cases=chosen,
            findings=tuple(_accept(kept, self.accepted)),
            selected=None if self.selected is None else len(self.selected),
            unselected=tuple(each for each in report.findings if not self._is_selected(each)),
            waived=frozenset((each.cluster, each.problem.origin) for each in waived),
        )
        findings = (*result.findings, *_unexplained(result, pending, {id(each) for each in report.findings}))
        return replace(result, findings=tuple(sorted(findings, key=finding_order)))

    def _is_selected(self, finding: Finding) -> bool:
        ruled = self.selected is None or finding.rule.id in self.selected
        return ruled and (not self.clusters or finding.cluster in self.clusters)

    def unused(self, report: Report) -> tuple[Acknowledgement, ...]:
        """Return the entries of a baseline that accept nothing in a report.

        Args:
            report: The report, before or after these filters.
        """
        found = (*report.findings, *report.unselected, *pending_findings(report))
        baseline = (each for each in self.accepted if each.accepted_by == "baseline")
        return tuple(each for each in baseline if not any(map(each.accepts, found)))


def pending_findings(report: Report) -> list[Finding]:
    """Return a finding for each GPU workload that would stay Pending, even if another rule reports the cause."""
    return [
        Finding(rules()[PENDING_RULE], case.cluster.title, pending_problem(verdict, unknown=False))
        for case, verdict in report.pending_by_case()
    ]


def _unexplained(result: Report, pending: Iterable[Finding], known: Container[int]) -> list[Finding]:
    """Return findings for Pending workloads that make the check fail although filters hide their errors.

    Args:
        result: The report after the filters.
        pending: A finding for each Pending workload.
        known: Identities of the findings before the filters. An accepted finding is a new object.
    """
    hidden = [each for each in result.findings if id(each) not in known] + [*result.unselected]
    if not any(each.rule.severity == "error" for each in hidden):
        return []
    open_ones = {(each.cluster, each.problem.origin) for each in result.findings if each.counts}
    left = {(case.cluster.title, each.workload.origin) for case, each in result.pending_by_case(accepted=False)}
    return [each for each in pending if (each.cluster, each.problem.origin) in left - open_ones]


def _accept(findings: Iterable[Finding], lines: Sequence[Acknowledgement]) -> list[Finding]:
    """Return findings, each accepted by the first line that matches and hasn't reached its max number."""
    used: Counter[tuple[int, str]] = Counter()
    found = []
    for finding in findings:
        place = next(
            (
                number
                for number, line in enumerate(lines if finding.acknowledged is None else ())
                if line.accepts(finding) and (line.most is None or used[number, finding.cluster] < line.most)
            ),
            None,
        )
        if place is not None:
            used[place, finding.cluster] += 1
            line = lines[place]
            finding = accept(finding, Acceptance(line.reason, line.not_true, line.accepted_by))
        found.append(finding)
    return found
