"""All rules applied to all clusters of an input, with acknowledgements.

A manifest without a cluster is checked in each cluster. A finding that holds only in some of them is uncertain.

You can accept findings, each with a reason that every output shows: in a file with ``acknowledgements:``, in metadata
of a template's resource, in an annotation of a Kubernetes object, or on a construct with
``Validations.of(...).acknowledge(...)``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, NamedTuple

from gpu_facts.light import dataclass
from gpu_facts.refusals import did_you_mean
from gpu_preflight.case import Case
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.cluster.open_values import OpenValue
from gpu_preflight.judging.explain import Explanation, explain
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import Workload
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.documents import Document, UnusableInput
from gpu_preflight.reading.inputs import ACKNOWLEDGEMENTS, Input
from gpu_preflight.reading.objects import Object, Origin, Unread
from gpu_preflight.reading.unknown import as_written, known_text, mapping
from gpu_preflight.rule import SEVERITIES, Finding, Rule, id_hint
from gpu_preflight.rules import rules
from gpu_preflight.rules.pods import pending_problem
from gpu_preflight.scheduling.verdict import Verdict
from gpu_preflight.schema.fields import INSTALL, can_ask, has_rules

# Key of a resource's metadata: {"gpu-constructs": {"acknowledge": {"GPU010": "reason"}}}.
METADATA = "gpu-constructs"
# Prefix of an object's annotation: gpu-constructs.io/acknowledge.GPU010: reason.
ANNOTATION = "gpu-constructs.io/acknowledge."
NOT_TRUE_ANNOTATION = "gpu-constructs.io/not-true."
_KEYS_OF_METADATA = ("reason", "not_true")
_KEYS = ("id", "path", *_KEYS_OF_METADATA)
# The rule that reports a Pending workload where no other rule does.
_PENDING = "GPU120"
# The rules that report verdicts of the scheduler.
_OF_VERDICTS = (_PENDING, "GPU121", "GPU374")
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


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """One line of an acknowledgement file.

    Attributes:
        id: The rule.
        reason: Why it is accepted.
        path: Pattern of the origin's path, with ``*``.
        not_true: Whether the finding is wrong. Such a finding doesn't stop pods.
        file: The file of the line.
    """

    id: str
    reason: str
    path: str = "*"
    not_true: bool = False
    file: str = ""

    def accepts(self, finding: Finding) -> bool:
        """Whether a finding is one of those that it accepts."""
        return self.id == finding.rule.id and fnmatchcase(finding.problem.origin.path, self.path)


def acknowledgements(documents: Iterable[Document]) -> tuple[Acknowledgement, ...]:
    """Return the lines of acknowledgement files.

    Raises:
        UnusableInput: A line has an unknown key, names no rule, has no reason, or its ``not_true`` is no boolean.
    """
    return tuple(
        _line(document.file, line)
        for document in documents
        for line in mapping(document.content).get(ACKNOWLEDGEMENTS, [])
    )


def _line(file: str, line: Any) -> Acknowledgement:
    for key in mapping(line):
        # A misspelt path would accept the rule everywhere.
        if key not in _KEYS:
            hint = did_you_mean(str(key), _KEYS)
            raise UnusableInput(f"{file}: acknowledgements: keys must be {', '.join(_KEYS)}, got {key!r}{hint}")
    rule = known_text(mapping(line).get("id"))
    if why := _rejection(rule, line, _KEYS):
        raise UnusableInput(f"{file}: acknowledgements: {why}")
    accepted = _acceptance(line)
    path = known_text(mapping(line).get("path")) or "*"
    return Acknowledgement(str(rule), accepted.reason, path, accepted.not_true, file)


class Acceptance(NamedTuple):
    """Why a finding is accepted: the reason, and whether the finding isn't true."""

    reason: str
    not_true: bool = False


def _acceptance(written: Any) -> Acceptance:
    """Parse a reason, or a mapping with ``reason`` and ``not_true``. A blank reason becomes an empty one."""
    reason = known_text(mapping(written).get("reason") if isinstance(written, Mapping) else written)
    return Acceptance((reason or "").strip(), mapping(written).get("not_true") is True)


def _rejection(rule: str | None, written: Any, keys: Sequence[str] = _KEYS_OF_METADATA) -> str | None:
    if rule not in rules():
        return f"id must be a rule's id, got {rule!r}{id_hint(rule or '', rules())}"
    if wrong := next((key for key in mapping(written) if key not in keys), None):
        return f"keys of {rule} must be {', '.join(keys)}, got {wrong!r}{did_you_mean(str(wrong), keys)}"
    not_true = mapping(written).get("not_true", False)
    if not isinstance(not_true, bool):
        return f"not_true of {rule} must be true or false, got {not_true!r}"
    reason = mapping(written).get("reason") if isinstance(written, Mapping) else written
    return None if _acceptance(written).reason else f"{rule} must have a reason, got {as_written(reason)!r}"


def mistaken(told: Iterable[Cluster]) -> tuple[str, ...]:
    """Return what metadata and annotations acknowledge in vain: what is no rule, or without a reason."""
    written = list(told)
    resources = {each.key: each for cluster in written for each in cluster.resources.values()}
    objects = {each.origin: each for cluster in written for each in cluster.objects if each.annotations}
    lines = [
        *((each.origin, *line) for each in resources.values() for line in _template_acknowledgements(each).items()),
        *((each.origin, *line) for each in objects.values() for line in _object_acknowledgements(each)),
    ]
    wrong = ((origin, _rejection(rule, written)) for origin, rule, written in lines)
    return tuple(f"{origin.file}: {origin.path}: acknowledge: {why}" for origin, why in wrong if why)


def with_acceptance(
    finding: Finding, cluster: Cluster, listed: Iterable[Acknowledgement], accepted: Mapping[str, Mapping[str, str]]
) -> Finding:
    """Return a finding with the reason for which it is accepted, if it is.

    Args:
        finding: The finding.
        cluster: The cluster it was found in.
        listed: Lines of acknowledgement files.
        accepted: What constructs acknowledge, by construct path.
    """
    found = _acceptance_of_finding(finding, cluster, listed, accepted)
    return replace(finding, acknowledged=found.reason, not_true=found.not_true) if found else finding


def _acceptance_of_finding(
    finding: Finding, cluster: Cluster, listed: Iterable[Acknowledgement], accepted: Mapping[str, Mapping[str, str]]
) -> Acceptance | None:
    for each in listed:
        if each.accepts(finding):
            return Acceptance(each.reason, each.not_true)
    rule, origin = finding.rule.id, finding.problem.origin
    given = _in_template(rule, origin, cluster), _in_object(rule, origin, cluster)
    written = next((_acceptance(each) for each in given if not _rejection(rule, each)), None)
    return written or _above(rule, origin, cluster, accepted)


def _above(rule: str, origin: Origin, cluster: Cluster, accepted: Mapping[str, Mapping[str, str]]) -> Acceptance | None:
    """Return the reason that the construct, or one around it, gives."""
    resource = cluster.resources.get(origin.resource or "")
    parts = resource.path.split("/") if resource and accepted else []
    paths = ("/".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((Acceptance(reason) for path in paths if (reason := accepted.get(path, {}).get(rule))), None)


def _in_template(rule: str, origin: Origin, cluster: Cluster) -> Any:
    resource = cluster.resources.get(origin.resource or "")
    return _template_acknowledgements(resource).get(rule) if resource else None


def _template_acknowledgements(resource: Resource) -> Mapping[str, Any]:
    return mapping(mapping(resource.metadata.get(METADATA)).get("acknowledge"))


def _in_object(rule: str, origin: Origin, cluster: Cluster) -> Any:
    found = cluster.find_object(origin)
    written = _object_acknowledgements(found) if found is not None else ()
    valid = [each for id, each in written if id == rule and not _rejection(id, each)]
    # An object may have both annotations.
    return max(valid, key=lambda each: bool(each["not_true"]), default=None)


def _object_acknowledgements(each: Object) -> Iterator[tuple[str, Any]]:
    for key, reason in each.annotations.items():
        for prefix, not_true in ((ANNOTATION, False), (NOT_TRUE_ANNOTATION, True)):
            if str(key).startswith(prefix):
                yield str(key).removeprefix(prefix), {"reason": reason, "not_true": not_true}


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
            if each.acknowledged is not None and each.rule.severity == "error" and _explains_pending(each)
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
    found = [collect_findings(case, listed, given.accepted, chosen) for case in cases]
    shared = Shared(cases, _across_versions(cases, found))
    pending = (one for case in cases for one in _pending_findings(case, shared, listed, given.accepted))
    added = list(pending) if every_rule else []
    findings = sorted(
        (*shared.findings, *added),
        key=lambda each: (each.acknowledged is not None, SEVERITIES.index(each.rule.severity), each.rule.id),
    )
    unused = tuple(line for line in listed if not any(map(line.accepts, findings)))
    wrong = mistaken(each.cluster for each in cases)
    unread = (*given.problems, *(one for each in given.alternatives.values() for one in each))
    return Report(cases, tuple(findings), shared, unread, unused, wrong)


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
        found = Finding(rules()[_PENDING], case.cluster.title, pending_problem(verdict, unknown=maybe))
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
