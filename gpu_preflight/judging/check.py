"""Every rule over every cluster of an input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from gpu_facts.light_dataclasses import dataclass
from gpu_preflight.case import Case
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.cluster.open_values import OpenValue
from gpu_preflight.judging.acknowledgements import Acknowledgement, acknowledged, acknowledgements, mistaken
from gpu_preflight.judging.explain import Explanation, explain
from gpu_preflight.judging.shared import Shared
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.inputs import Input
from gpu_preflight.reading.objects import Unread
from gpu_preflight.rules import rules
from gpu_preflight.rules.pods.pending_pods import pending_problem
from gpu_preflight.rules.rule import SEVERITIES, Finding, Rule
from gpu_preflight.scheduling.verdict import Verdict
from gpu_preflight.schema.expressions import INSTALL, can_ask, has_rules

# The rule that reports a Pending workload where no other rule does.
_PENDING = "GPU120"
# The rules that report verdicts of the scheduler.
_OF_VERDICTS = (_PENDING, "GPU121", "GPU374")
_FILES = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class Report:
    """What a check found.

    Attributes:
        cases: The clusters that were judged.
        findings: What is wrong, the gravest first.
        shared: What the clusters share.
        unread: Parts of the input that can not be read before deployment.
        unused: Lines of acknowledgement files that accept nothing.
        mistaken: What is wrong with acknowledgements in metadata and annotations.
    """

    cases: tuple[Case, ...]
    findings: tuple[Finding, ...]
    shared: Shared
    unread: tuple[Unread, ...] = ()
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
        found = self.shared.explanation(case) if workloads is None else explain(case, self.findings, workloads)
        return found if named else replace(found, verdicts=self.shared.verdicts(case, found.verdicts))

    @property
    def fails(self) -> bool:
        """Whether an error stands that nobody accepts."""
        return any(each.counts for each in self.findings)

    @property
    def pending(self) -> tuple[Verdict, ...]:
        """The GPU workloads that would stay Pending, without those of which somebody accepts an error."""
        accepted = {
            (each.cluster, each.problem.origin)
            for each in self.findings
            if each.acknowledged is not None and each.rule.severity == "error"
        }
        verdicts = ((case, each) for case in self.cases for each in self.explanation(case).verdicts)
        return tuple(
            each
            for case, each in verdicts
            if each.answer is Answer.NO and (case.cluster.title, each.workload.origin) not in accepted
        )

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
    listed = acknowledgements(given.acknowledgements)
    cases = tuple(map(Case, clusters(given) if told is None else told))
    chosen = [each for each in rules().values() if every_rule or (each.stops and each.severity == "error")]
    found = [findings_of(case, listed, given.accepted, chosen) for case in cases]
    shared = Shared(cases, _across_versions(cases, found))
    pending = (one for case in cases for one in _of_pending(case, shared, listed, given.accepted))
    added = list(pending) if every_rule else []
    findings = sorted(
        (*shared.findings, *added),
        key=lambda each: (each.acknowledged is not None, SEVERITIES.index(each.rule.severity), each.rule.id),
    )
    unused = tuple(line for line in listed if not any(map(line.accepts, findings)))
    wrong = mistaken(each.cluster for each in cases)
    unread = (*given.problems, *(one for each in given.alternatives.values() for one in each))
    return Report(cases, tuple(findings), shared, unread, unused, wrong)


def _of_pending(
    case: Case, shared: Shared, listed: Iterable[Acknowledgement], accepted: Mapping[str, Mapping[str, str]]
) -> Iterator[Finding]:
    """Yield a finding for each workload that would stay Pending for a reason that no rule reports."""
    verdicts = shared.verdicts(case, shared.explanation(case).verdicts)
    pending = [each for each in verdicts if each.answer is Answer.NO]
    errors = [each for each in shared.findings if each.rule.severity == "error"] if pending else []
    stopping = (each for each in errors if not each.problem.unknown or each.rule.id in _OF_VERDICTS)
    here = {each.problem.origin for each in stopping if each.cluster == case.cluster.title}
    ids = {each.rule.id for each in errors if each.cluster == case.cluster.title}
    known: dict[int, frozenset[str | None]] = {}
    for verdict in pending:
        if verdict.workload.origin in here or any(each & ids for each in _rules_against(verdict, known)):
            continue
        maybe = bool(verdict.rests_on) or bool(case.cluster.hidden)
        found = Finding(rules()[_PENDING], case.cluster.title, pending_problem(verdict, unknown=maybe))
        yield replace(found, acknowledged=acknowledged(found, case.cluster, tuple(listed), accepted))


def _rules_against(verdict: Verdict, known: dict[int, frozenset[str | None]]) -> Iterator[frozenset[str | None]]:
    """Yield the rules by which a workload has no node: its own, and those of its pools, which many workloads share."""
    yield frozenset(each.rule for each in verdict.reasons if each.answer is Answer.NO)
    key = id(verdict.pools)
    if key not in known:
        of_pools = (one for pool in verdict.pools for one in pool.reasons)
        known[key] = frozenset(each.rule for each in of_pools if each.answer is Answer.NO)
    yield known[key]


def findings_of(
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
    return [replace(each, acknowledged=acknowledged(each, case.cluster, lines, accepted or {})) for each in found]


def _across_versions(cases: Sequence[Case], found: Sequence[list[Finding]]) -> Iterator[Finding]:
    """Yield findings; one about an object beside several files of versions is certain only if each version has it.

    Any of the files may be applied with that object, or none.
    """
    files = [place for place, each in enumerate(cases) if each.cluster.alternative.endswith(_FILES)]
    counted = Counter(_told(each) for place in files for each in found[place])
    for place, findings in enumerate(found):
        for each in findings:
            own = each.problem.origin.file.endswith(cases[place].cluster.alternative)
            if place in files and not own and counted[_told(each)] < len(files):
                yield replace(each, problem=replace(each.problem, unknown=True))
            else:
                yield each


def _told(finding: Finding) -> tuple[str, object]:
    return finding.rule.id, finding.problem.key
