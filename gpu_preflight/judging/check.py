"""All rules applied to all clusters of an input, with acknowledgements.

A manifest without a cluster is checked in each cluster. A finding that holds only in some of them is uncertain.

You can accept findings, see `acknowledgements`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

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
from gpu_preflight.judging.explain import Explanation, explain
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import Workload
from gpu_preflight.reading.folder_files import Skipped
from gpu_preflight.reading.inputs import Input
from gpu_preflight.reading.objects import Origin, Unread
from gpu_preflight.rule import SEVERITIES, Finding, Rule
from gpu_preflight.rules import rules
from gpu_preflight.rules.pods import pending_problem
from gpu_preflight.scheduling.verdict import Verdict
from gpu_preflight.schema.fields import INSTALL, can_ask, has_rules

# The rule that reports a Pending workload where no other rule does.
PENDING_RULE = "GPU120"
# The rules that report verdicts of the scheduler.
_OF_VERDICTS = (PENDING_RULE, "GPU121", "GPU374")
_FILES = (".yaml", ".yml", ".json")


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


@dataclass(frozen=True)
class Report:
    """What a check found.

    Attributes:
        cases: The clusters that were judged.
        findings: What is wrong, the gravest first.
        shared: What the clusters share.
        unread: Parts of the input that can not be read before deployment.
        unused: Lines of acknowledgement files and comments that accept nothing.
        mistaken: What is wrong with acknowledgements in metadata, annotations and comments.
        waived: Workloads that would stay Pending and don't fail the check: name of the cluster, and origin.
        selected: Number of rules whose findings are reported; ``None`` for all.
        unselected: Findings of other rules and clusters.
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
        """Return what becomes of the workloads of one of the clusters, beside what was found there.

        Args:
            case: The cluster.
            workloads: Some of its workloads. Default: those that ask for a GPU.
            named: Whether somebody says that they are meant for this cluster.
        """
        found = self.shared.explanation(case) if workloads is None else explain(case, self.findings, workloads)
        return found if named else replace(found, verdicts=self.shared.verdicts(case, found.verdicts))

    @property
    def fails(self) -> bool:
        """Whether an error stands that nobody accepts."""
        return any(each.counts for each in self.findings)

    @property
    def pending(self) -> tuple[Verdict, ...]:
        """The GPU workloads that would stay Pending, without those of which somebody accepts an error."""
        return tuple(each for _, each in self.pending_by_case(accepted=False))

    def pending_by_case(self, *, accepted: bool = True) -> Iterator[tuple[Case, Verdict]]:
        """Yield each GPU workload that would stay Pending, with its cluster.

        Args:
            accepted: Whether to yield a workload too of which an error is accepted.
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
        """The values that only deployment sets, in fields that rules judge."""
        found = {(each.origin, each.field): each for case in self.cases for each in case.open_values}
        return tuple(found.values())

    @property
    def unasked(self) -> tuple[str, ...]:
        """What was not judged, and the command that installs what judges it."""
        ruled = any(has_rules(each) for case in self.cases for each in case.cluster.objects)
        return () if not ruled or can_ask() else (f"rules in CEL of Karpenter's definitions; {INSTALL}",)

    @property
    def unknown(self) -> bool:
        """Whether something could not be told before deployment."""
        return bool(self.unread) or any(each.problem.unknown for each in self.findings if each.acknowledged is None)


def check(given: Input, told: Iterable[Cluster] | None = None, *, every_rule: bool = True) -> Report:
    """Judge an input by every rule, or only by those whose errors keep pods from running.

    Args:
        given: The input.
        told: Its clusters, as they are to be judged. Default: as it describes them.
        every_rule: Whether all findings are wanted. What becomes of the workloads of a cluster needs fewer.

    Raises:
        UnusableInput: An acknowledgement names no rule or gives no reason.
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
    """Return the order of a finding in reports: accepted ones are last, otherwise the most severe are first."""
    return finding.acknowledged is not None, SEVERITIES.index(finding.rule.severity), finding.rule.id


def _pending_findings(
    case: Case, shared: Shared, listed: Iterable[Acknowledgement], accepted: Mapping[str, Mapping[str, str]]
) -> Iterator[Finding]:
    """Yield a finding for each workload that would stay Pending for a reason that no rule reports."""
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
        found = Finding(rules()[PENDING_RULE], case.cluster.title, pending_problem(verdict, unknown=maybe))
        yield with_acceptance(found, case.cluster, tuple(listed), accepted)


def _explains_pending(finding: Finding) -> bool:
    """Return whether a finding may be why its workload is Pending: not if it is wrong, unless it states just that."""
    return not finding.not_true or finding.rule.id in _OF_VERDICTS


def _rules_against(verdict: Verdict, known: dict[int, frozenset[str | None]]) -> Iterator[frozenset[str | None]]:
    """Yield the rules by which a workload has no node: its own, and those of its pools, which many workloads share."""
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
    """Return what every rule, or each of some rules, finds in a cluster."""
    lines = tuple(listed)
    found = [
        Finding(rule, case.cluster.title, problem)
        for rule in (rules().values() if chosen is None else chosen)
        for problem in {each.key: each for each in rule.check(case)}.values()
    ]
    return [with_acceptance(each, case.cluster, lines, accepted or {}) for each in found]


def _across_versions(cases: Sequence[Case], found: Sequence[list[Finding]]) -> Iterator[Finding]:
    """Yield findings; one about an object beside several files of versions is certain only if each version has it.

    Any of the files may be applied with that object, or none.
    """
    files = [place for place, each in enumerate(cases) if each.cluster.alternative.endswith(_FILES)]
    counted = Counter(_finding_key(each) for place in files for each in found[place])
    for place, findings in enumerate(found):
        for each in findings:
            own = each.problem.origin.file.endswith(cases[place].cluster.alternative)
            if place in files and not own and counted[_finding_key(each)] < len(files):
                yield replace(each, problem=replace(each.problem, unknown=True))
            else:
                yield each


def _finding_key(finding: Finding) -> tuple[str, object]:
    return finding.rule.id, finding.problem.key
