"""The base of every view, findings with their positions, and the attributes that an output shows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Literal, get_args

from gpu_facts._version import __version__
from gpu_facts.light import dataclass
from gpu_preflight.case import Case
from gpu_preflight.cluster.open_values import OpenValue
from gpu_preflight.judging.doubts import cases_by_title, doubt
from gpu_preflight.model.answer import Reason
from gpu_preflight.model.software import Autoscaler
from gpu_preflight.reading.objects import Origin, Position, Unread
from gpu_preflight.rule import AcceptedBy, Finding, Rule, Severity

Outcome = Literal["pass", "fail", "unknown"]
# Attributes in the output of values that have more. Any other dataclass has all its fields in the output.
SHOWN: dict[type, tuple[str, ...]] = {
    Autoscaler: ("kind", "version"),
    OpenValue: ("origin", "field", "value", "rules"),
    Reason: ("answer", "kind", "text"),
    Rule: ("id", "severity", "title", "why", "fix", "source", "place"),
    Unread: ("origin", "reason"),
}


@dataclass(frozen=True, slots=True)
class Tool:
    """The program that writes the report."""

    name: Literal["gpu-constructs"] = "gpu-constructs"
    version: str = __version__


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """The report of a command.

    Attributes:
        schema_version: Changes only when a key is renamed, removed or means something else.
        tool: The program.
        command: The command.
    """

    schema_version: Literal[1] = 1
    tool: Tool = Tool()
    command: str


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeView(View):
    """The report of a command that checks something.

    Attributes:
        outcome: ``fail`` if there is an error that isn't acknowledged, or a workload would stay Pending or fail at its
            start; ``unknown`` if only the deployment decides something.
    """

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Counts:
    """How many findings there are; unknown and acknowledged ones are not counted by severity.

    Attributes:
        unknown: Findings that may be true, depending on a value that only the deployment sets.
    """

    errors: int
    warnings: int
    notes: int
    unknown: int
    acknowledged: int


HiddenBy = Literal["acknowledgements", "comments", "--ignore", "settings", "baseline", "selection"]
_HIDDEN_BY: Mapping[AcceptedBy, HiddenBy] = {
    "comment": "comments",
    "--ignore": "--ignore",
    "settings": "settings",
    "baseline": "baseline",
}


@dataclass(frozen=True, slots=True)
class Hidden:
    """How many findings don't count, because they are accepted or their rule or cluster isn't selected.

    Attributes:
        by: Where that is set. For ``acknowledgements`` in the input, only errors are counted. Findings that
            ``selection`` hides are in no list.
        errors: Certain errors.
        possible_errors: Errors that may be true, depending on a value that only the deployment sets.
    """

    by: HiddenBy
    errors: int
    possible_errors: int
    warnings: int
    notes: int


@dataclass(frozen=True, slots=True)
class RuleSelection:
    """Number of rules whose findings are reported, and of all rules."""

    selected: int
    known: int


@dataclass(frozen=True, slots=True)
class FindingOrigin(Origin):
    """Where a finding is.

    Attributes:
        line: Its line in the file, from 1; ``None`` if it isn't known, and in files that CDK wrote.
        column: Its column in the file, from 1; ``None`` if it isn't known.
        code: Where the app's own code created the construct; ``None`` without stack traces in CDK's metadata.
        field: The only field that is wrong, e.g. ``spec.replicas``, whose line it is where the file has it; ``None``
            where it is the whole, or several.
    """

    line: int | None = None
    column: int | None = None
    code: Position | None = None
    field: str | None = None

    @property
    def position(self) -> Position | None:
        """The line that a person edits."""
        return self.code or (Position(self.file, self.line, self.column) if self.line else None)

    def __str__(self) -> str:
        rendered = f" (rendered from {self.template})" if self.is_rendered_text else ""
        return f"{self.path} in {self.position or self.file}{rendered}"

    @property
    def is_rendered_text(self) -> bool:
        """Whether its file is what helm printed of a template, rather than the template."""
        return self.template is not None and not self.file.endswith(self.template.partition("/")[2])


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingView:
    """A finding with everything that its rule says.

    Attributes:
        unknown: Whether it may be true, depending on a value that only the deployment sets.
        doubt: What isn't known about it, for people; empty if it is certain.
        acknowledged: The reason for accepting it; ``None`` if it isn't accepted.
        accepted_by: Where that reason is; ``None`` if it isn't accepted.
        fails: Whether it makes a check fail.
    """

    id: str
    severity: Severity
    title: str
    why: str
    fix: str
    source: str
    cluster: str
    origin: FindingOrigin
    message: str
    unknown: bool
    acknowledged: str | None
    accepted_by: AcceptedBy | None
    fails: bool
    doubt: str = ""


SHOWN[FindingView] = tuple(each.name for each in fields(FindingView) if each.name != "doubt")


@dataclass(frozen=True, slots=True)
class LocatedUnread(Unread):
    """A part of the input that isn't checked, with its line."""

    origin: FindingOrigin


SHOWN[LocatedUnread] = SHOWN[Unread]


class Lines:
    """Finds lines of origins, and whether lines of code are missing for want of stack traces."""

    def __init__(self) -> None:
        """Begin without a file."""
        # These modules read files again, so they are loaded after the rules ran.
        from gpu_preflight.reading.creation_stacks import CreationStacks
        from gpu_preflight.reading.positions import Positions

        self._stacks, self._positions = CreationStacks(), Positions()

    @property
    def hints(self) -> tuple[str, ...]:
        """How to get lines that weren't found."""
        from gpu_preflight.reading.creation_stacks import HINT

        return (HINT,) if self._stacks.is_incomplete else ()

    def locate(self, origin: Origin, field: str = "") -> FindingOrigin:
        """Return an origin with its line, or the line of a field."""
        file, code = _template_file(origin), self._stacks.find(origin)
        # People don't edit files that CDK wrote, and a whole file has no line.
        has_none = (origin.resource and self._stacks.has_assembly(origin.file)) or origin.path == origin.file
        position = None if has_none else self._positions.find(replace(origin, file=file), field)
        line, column = (position.line, position.column) if position else (None, None)
        return FindingOrigin(file, origin.path, origin.resource, origin.template, line, column, code, field or None)

    def locate_unread(self, parts: Iterable[Unread]) -> tuple[LocatedUnread, ...]:
        """Return parts that aren't checked with their lines."""
        return tuple(LocatedUnread(self.locate(each.origin), each.reason, each.may_hold) for each in parts)


def finding_views(lines: Lines, findings: Iterable[Finding], cases: Iterable[Case]) -> tuple[FindingView, ...]:
    """Return findings with their lines and everything that their rules say.

    Args:
        lines: Finds their lines.
        findings: The findings.
        cases: The clusters that they are about.
    """
    known = cases_by_title(cases)
    return tuple(
        _finding(each, lines.locate(each.problem.place, each.problem.field), doubt(each, known)) for each in findings
    )


def _template_file(origin: Origin) -> str:
    """Return the file of an origin; of a chart that the checker rendered the template, whose file is in its folder."""
    file = Path(origin.file, (origin.template or "").partition("/")[2])
    return str(file) if origin.template and os.path.isdir(origin.file) and os.path.isfile(file) else origin.file


def _finding(finding: Finding, origin: FindingOrigin, unsure: str) -> FindingView:
    rule, problem = finding.rule, finding.problem
    return FindingView(
        id=rule.id,
        severity=rule.severity,
        title=rule.title,
        why=rule.why,
        fix=finding.fix,
        source=rule.source,
        cluster=finding.cluster,
        origin=origin,
        message=problem.message,
        unknown=problem.unknown,
        acknowledged=f"not true: {finding.acknowledged}" if finding.not_true else finding.acknowledged,
        accepted_by=finding.accepted_by,
        fails=finding.counts,
        doubt=unsure,
    )


def counts(findings: Iterable[Finding]) -> Counts:
    """Return how many findings there are of each severity; acknowledged and unknown ones are counted apart."""
    listed = list(findings)
    open_ones = [each for each in listed if each.acknowledged is None]
    sure = [each.rule.severity for each in open_ones if not each.problem.unknown]
    return Counts(
        sure.count("error"),
        sure.count("warning"),
        sure.count("note"),
        unknown=len(open_ones) - len(sure),
        acknowledged=len(listed) - len(open_ones),
    )


def hidden(findings: Iterable[Finding], unselected: Iterable[Finding]) -> tuple[Hidden, ...]:
    """Return how many findings don't count; without acknowledged ones that aren't true.

    Args:
        findings: The findings of a report.
        unselected: Findings that it leaves out.
    """
    groups: dict[HiddenBy, list[Finding]] = {each: [] for each in get_args(HiddenBy)}
    for each in findings:
        if each.acknowledged is not None and not each.not_true:
            groups[_HIDDEN_BY.get(each.accepted_by or "construct", "acknowledgements")].append(each)
    groups["selection"] += [each for each in unselected if each.acknowledged is None]
    # Acknowledged warnings and notes are counted by `counts`, and don't change the outcome.
    groups["acknowledgements"] = [each for each in groups["acknowledgements"] if each.rule.severity == "error"]
    return tuple(_hidden(by, found) for by, found in groups.items() if found)


def _hidden(by: HiddenBy, found: Sequence[Finding]) -> Hidden:
    severities = [each.rule.severity for each in found]
    possible = sum(each.rule.severity == "error" and each.problem.unknown for each in found)
    return Hidden(
        by, severities.count("error") - possible, possible, severities.count("warning"), severities.count("note")
    )


def rule_selection(selected: int | None) -> RuleSelection | None:
    """Return how many rules are selected; ``None`` if all are."""
    from gpu_preflight.rules import rules

    return None if selected is None else RuleSelection(selected, len(rules()))


def outcome(*, fails: bool, unknown: bool) -> Outcome:
    """Return how a command ends."""
    return "fail" if fails else "unknown" if unknown else "pass"
