"""Applies all rules to all clusters of an input, with acknowledgements.

A manifest without a cluster is checked in each cluster. A finding that is true only in some of them is uncertain.

Users can accept findings, see `acknowledgements`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from gpu_facts.light import dataclass
from gpu_preflight.case import Case
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.cluster.open_values import OpenValue
from gpu_preflight.judging.acknowledgements import (
    Acknowledgement,
    acknowledgements,
    comment_acknowledgements,
    mistaken,
    with_acceptance,
)
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import Workload
from gpu_preflight.reading.folder_files import Skipped
from gpu_preflight.reading.inputs import Input
from gpu_preflight.reading.objects import Origin, Unread
from gpu_preflight.rule import SEVERITIES, Finding, Rule
from gpu_preflight.rules import rules
from gpu_preflight.rules.pods import pending_problem
from gpu_preflight.schema.fields import INSTALL, can_ask, has_rules

if TYPE_CHECKING:
    from gpu_preflight.judging.explain import Explanation
    from gpu_preflight.scheduling.verdict import Verdict

# The rule that reports a Pending workload if no other rule does.
PENDING_RULE = "GPU120"
# The rules that report results of the scheduler.
_OF_VERDICTS = (PENDING_RULE, "GPU121", "GPU374")
_FILES = (".yaml", ".yml", ".json")


class Shared:
    """Findings and results of several clusters, corrected for objects that name no cluster.

    Args:
        cases: The clusters.
        found: The findings of rules in them.
    """

    def __init__(self, cases: Sequence[Case], found: Iterable[Finding]) -> None:
        self._cases, self._found = cases, list(found)
        # Alternatives of one cluster share its name. Objects that they have in common are in each alternative.
        self._explanations: dict[int, Explanation] = {}
        self._names = {each.cluster.title: each.cluster.name for each in cases}

    def explanation(self, case: Case) -> Explanation:
        """Return the results of the GPU workloads of a cluster, computed once."""
        if id(case) not in self._explanations:
            # Imported here, and below, because a check without GPU workloads doesn't need the scheduler.
            from gpu_preflight.judging.explain import explain

            self._explanations[id(case)] = explain(case, self.findings)
        return self._explanations[id(case)]

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """The findings. A finding that is true only in some clusters is uncertain."""
        clusters: dict[tuple[str, Origin, str], set[str]] = {}
        for each in self._found if self._origins else ():
            if each.problem.origin in self._origins and not each.problem.unknown:
                clusters.setdefault(_key(each), set()).add(self._names[each.cluster])
        some = {key for key, names in clusters.items() if len(names) < len(set(self._names.values()))}
        doubt = "its file names no cluster, and not every cluster has the fault"
        return tuple(_not_certain(each, doubt) if some and _key(each) in some else each for each in self._found)

    @cached_property
    def _origins(self) -> frozenset[Origin]:
        """Origins of objects and charts that name no cluster; empty if there is only one cluster."""
        if len(set(self._names.values())) < 2:
            return frozenset()
        cluster = self._cases[0].cluster
        objects = {each.origin for each in cluster.objects if each.cluster is None}
        return frozenset(objects | {each.origin for each in cluster.charts if each.cluster is None})

    def verdicts(self, case: Case, verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
        """Return the results of workloads in a cluster. A no becomes unknown if another cluster can run the pods."""
        return tuple(self._maybe_there(each, case) if self._origins else each for each in verdicts)

    def _maybe_there(self, verdict: Verdict, case: Case) -> Verdict:
        taking = self._taking.get((verdict.workload.origin, verdict.workload.name), ())
        other = next((each for each in taking if each != case.cluster.name), None)
        if verdict.answer is not Answer.NO or other is None:
            return verdict
        here = "its program fails" if verdict.result == "failsAtStart" else "it would stay Pending"
        text = f"its file names no cluster: {here} here, and cluster {other} may run it"
        return replace(verdict, answer=Answer.UNKNOWN, reasons=(Reason(Answer.UNKNOWN, "pod", text), *verdict.reasons))

    @cached_property
    def _taking(self) -> Mapping[tuple[Origin, str], list[str]]:
        """Clusters that can or may run the pods, by origin and name of each workload that names no cluster."""
        found: dict[tuple[Origin, str], list[str]] = {}
        for case in self._cases:
            for each in self.explanation(case).verdicts:
                if each.answer is not Answer.NO and each.workload.origin in self._origins:
                    found.setdefault((each.workload.origin, each.workload.name), []).append(case.cluster.name)
        return found


def _key(finding: Finding) -> tuple[str, Origin, str]:
    subject = finding.problem.subject
    return finding.rule.id, finding.problem.origin, str(getattr(subject, "title", ""))


def _not_certain(finding: Finding, doubt: str) -> Finding:
    """Return a finding that may be true, with the reason unless it has one."""
    problem = finding.problem
    return finding if problem.unknown else replace(finding, problem=replace(problem, unknown=True, doubt=doubt))


@dataclass(frozen=True)
class Report:
    """The result of a check.

    Attributes:
        cases: The checked clusters.
        findings: The findings, the most severe first.
        shared: Results that depend on more than one cluster.
        unread: Parts of the input that can't be read before deployment.
        unused: Lines of acknowledgement files and comments that accept nothing.
        mistaken: Errors in acknowledgements in metadata, annotations and comments.
        waived: Workloads that would stay Pending and don't fail the check, each as cluster name and origin.
        selected: Number of rules whose findings are reported; ``None`` for all.
        unselected: Findings of rules and clusters that aren't selected.
        skipped: Parts of folders that weren't read.
    """

    cases: tuple[Case, ...]
    findings: tuple[Finding, ...]
    shared: Shared
    unread: tuple[Unread, ...] = ()
    unused: tuple[Acknowledgement, ...] = ()
    mistaken: tuple[str, ...] = ()
    waived: frozenset[tuple[str, Origin]] = frozenset()
    selected: int | None = None
    unselected: tuple[Finding, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    def explanation(
        self, case: Case, workloads: Iterable[Workload] | None = None, *, named: bool = False
    ) -> Explanation:
        """Return the results of the workloads of a cluster, with its findings taken into account.

        Args:
            case: The cluster.
            workloads: Some of its workloads. Default: the workloads that request a GPU.
            named: Whether the user states that they are meant for this cluster.
        """
        from gpu_preflight.judging.explain import explain

        found = self.shared.explanation(case) if workloads is None else explain(case, self.findings, workloads)
        return found if named else replace(found, verdicts=self.shared.verdicts(case, found.verdicts))

    @property
    def fails(self) -> bool:
        """Whether there is a certain error that isn't accepted."""
        return any(each.counts for each in self.findings)

    @property
    def pending(self) -> tuple[Verdict, ...]:
        """The GPU workloads that would stay Pending, except workloads with an accepted error."""
        return tuple(each for _, each in self.pending_by_case(accepted=False))

    def pending_by_case(self, *, accepted: bool = True) -> Iterator[tuple[Case, Verdict]]:
        """Yield each GPU workload that would stay Pending, with its cluster.

        Args:
            accepted: Whether to include workloads with an accepted error.
        """
        found = self.waived | {
            (each.cluster, each.problem.origin)
            for each in self.findings
            if each.acknowledged is not None and each.rule.severity == "error" and _explains_pending(each)
        }
        verdicts = ((case, each) for case in self.cases for each in self.explanation(case).verdicts)
        for case, each in verdicts:
            if each.answer is Answer.NO and (accepted or (case.cluster.title, each.workload.origin) not in found):
                yield case, each

    @cached_property
    def open_values(self) -> tuple[OpenValue, ...]:
        """The values that only the deployment sets, in fields that rules check."""
        found = {(each.origin, each.field): each for case in self.cases for each in case.open_values}
        return tuple(found.values())

    @property
    def unasked(self) -> tuple[str, ...]:
        """Checks that weren't made, and the command that installs the library for them."""
        ruled = any(has_rules(each) for case in self.cases for each in case.cluster.objects)
        return () if not ruled or can_ask() else (f"CEL rules of Karpenter's CRDs; {INSTALL}",)

    @property
    def unknown(self) -> bool:
        """Whether a result is unknown before deployment."""
        return bool(self.unread) or any(each.problem.unknown for each in self.findings if each.acknowledged is None)


def check(given: Input, told: Iterable[Cluster] | None = None, *, every_rule: bool = True) -> Report:
    """Check an input against all rules, or only against the rules whose errors keep pods from running.

    Args:
        given: The input.
        told: The clusters to check. Default: the clusters that the input describes.
        every_rule: Whether to return all findings. The results of workloads need fewer rules.

    Raises:
        UnusableInput: An acknowledgement doesn't name a rule, or has no reason.
    """
    in_comments, wrong_comments = comment_acknowledgements(given.comments)
    listed = (*acknowledgements(given.acknowledgements), *in_comments)
    cases = tuple(map(Case, clusters(given) if told is None else told))
    chosen = [each for each in rules().values() if every_rule or (each.stops and each.severity == "error")]
    found = [collect_findings(case, listed, given.accepted, chosen) for case in cases]
    shared = Shared(cases, _across_versions(cases, found))
    pending = (one for case in cases for one in _pending_findings(case, shared, listed, given.accepted))
    added = list(pending) if every_rule else []
    findings = sorted((*shared.findings, *added), key=finding_order)
    unused = tuple(line for line in listed if not any(map(line.accepts, findings)))
    wrong = (*mistaken(each.cluster for each in cases), *wrong_comments)
    unread = (*given.problems, *(one for each in given.alternatives.values() for one in each))
    return Report(cases, tuple(findings), shared, unread, unused, wrong, skipped=given.skipped)


def finding_order(finding: Finding) -> tuple[bool, int, str]:
    """Return the sort key of a finding in reports: accepted findings are last, and the most severe are first."""
    return finding.acknowledged is not None, SEVERITIES.index(finding.rule.severity), finding.rule.id


def _pending_findings(
    case: Case, shared: Shared, listed: Iterable[Acknowledgement], accepted: Mapping[str, Mapping[str, str]]
) -> Iterator[Finding]:
    """Yield a finding for each workload that would stay Pending for a reason that no rule reports."""
    if not case.judged_workloads:
        return
    verdicts = shared.verdicts(case, shared.explanation(case).verdicts)
    pending = [each for each in verdicts if each.answer is Answer.NO]
    errors = [each for each in shared.findings if each.rule.severity == "error"] if pending else []
    stopping = (
        each
        for each in errors
        if _explains_pending(each) and (not each.problem.unknown or each.rule.id in _OF_VERDICTS)
    )
    here = {each.problem.origin for each in stopping if each.cluster == case.cluster.title}
    ids = {each.rule.id for each in errors if each.cluster == case.cluster.title}
    known: dict[int, frozenset[str | None]] = {}
    for verdict in pending:
        if verdict.workload.origin in here or any(each & ids for each in _rules_against(verdict, known)):
            continue
        maybe = bool(verdict.rests_on) or bool(case.cluster.hidden)
        doubt = "; ".join(verdict.rests_on) or case.cluster.doubt
        found = Finding(rules()[PENDING_RULE], case.cluster.title, pending_problem(verdict, unknown=maybe, doubt=doubt))
        yield with_acceptance(found, case.cluster, tuple(listed), accepted)


def _explains_pending(finding: Finding) -> bool:
    """Whether a finding may explain a Pending workload: if it may be true, or if its rule is in `_OF_VERDICTS`."""
    return not finding.not_true or finding.rule.id in _OF_VERDICTS


def _rules_against(verdict: Verdict, known: dict[int, frozenset[str | None]]) -> Iterator[frozenset[str | None]]:
    """Yield the ids of rules that explain why a workload has no node: for the workload, and for its (shared) pools."""
    yield frozenset(each.rule for each in verdict.reasons if each.answer is Answer.NO)
    key = id(verdict.pools)
    if key not in known:
        of_pools = (one for pool in verdict.pools for one in pool.reasons)
        known[key] = frozenset(each.rule for each in of_pools if each.answer is Answer.NO)
    yield known[key]


def collect_findings(
    case: Case,
    listed: Iterable[Acknowledgement] = (),
    accepted: Mapping[str, Mapping[str, str]] | None = None,
    chosen: Iterable[Rule] | None = None,
) -> list[Finding]:
    """Return the findings of all rules, or of the chosen rules, in a cluster."""
    lines = tuple(listed)
    found = [
        Finding(rule, case.cluster.title, problem)
        for rule in (rules().values() if chosen is None else chosen)
        for problem in {each.key: each for each in rule.check(case)}.values()
    ]
    return [with_acceptance(each, case.cluster, lines, accepted or {}) for each in found]


def _across_versions(cases: Sequence[Case], found: Sequence[list[Finding]]) -> Iterator[Finding]:
    """Yield findings. A finding about an object next to several file versions is certain only in all of them.

    A deployment may apply that object with any of the versions, or with none.
    """
    files = [place for place, each in enumerate(cases) if each.cluster.alternative.endswith(_FILES)]
    counted = Counter(_finding_key(each) for place in files for each in found[place])
    for place, findings in enumerate(found):
        for each in findings:
            own = each.problem.origin.file.endswith(cases[place].cluster.alternative)
            if place in files and not own and counted[_finding_key(each)] < len(files):
                yield _not_certain(each, "another version of a file in the input doesn't have the fault")
            else:
                yield each


def _finding_key(finding: Finding) -> tuple[str, object]:
    return finding.rule.id, finding.problem.key
