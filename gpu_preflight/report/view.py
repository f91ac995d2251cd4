"""Results of `check`, `explain` and `rules` as data. Renderers use only these views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from gpu_facts.light import dataclass
from gpu_preflight.cluster.open_values import OpenValue
from gpu_preflight.judging.check import Report
from gpu_preflight.judging.explain import Explanation
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.folder_files import Skipped
from gpu_preflight.reading.objects import Unread
from gpu_preflight.report.cluster_view import ClusterView, cluster_views
from gpu_preflight.report.finding_view import (
    Counts,
    FindingView,
    Hidden,
    Lines,
    LocatedUnread,
    OutcomeView,
    RuleSelection,
    View,
    counts,
    finding_views,
    hidden,
    outcome,
    rule_selection,
)
from gpu_preflight.rule import Rule

if TYPE_CHECKING:
    from gpu_preflight.remedies.remedy import Remedies

NEAREST = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckView(OutcomeView):
    """The result of a check.

    Attributes:
        unread: Parts of the input that can't be read before deployment.
        skipped: Parts of folders that weren't read.
        open_values: Values that only the deployment sets, in fields that rules check.
        unasked: Checks that weren't made.
        hints: How to get lines of the app's own code.
        hidden: Findings that don't count, by where that is set.
        rule_selection: How many rules are selected; ``None`` if all are.
    """

    command: Literal["check"] = "check"
    counts: Counts
    hidden: tuple[Hidden, ...]
    rule_selection: RuleSelection | None
    findings: tuple[FindingView, ...]
    unread: tuple[LocatedUnread, ...]
    skipped: tuple[Skipped, ...]
    open_values: tuple[OpenValue, ...]
    unasked: tuple[str, ...]
    hints: tuple[str, ...]
    clusters: tuple[ClusterView, ...]

    @property
    def warnings(self) -> int:
        """Number of certain warnings that aren't acknowledged."""
        return self.counts.warnings


@dataclass(frozen=True, slots=True)
class AnswerCounts:
    """The number of workloads by answer."""

    yes: int
    no: int
    unknown: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainView(OutcomeView):
    """The result of each workload.

    Attributes:
        unread: Parts of the input that can't be read before deployment.
    """

    command: Literal["explain"] = "explain"
    counts: AnswerCounts
    unread: tuple[Unread, ...]
    clusters: tuple[ClusterView, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RulesView(View):
    """Rules, and where each of them is defined."""

    command: Literal["rules"] = "rules"
    rules: tuple[Rule, ...]


def check_view(report: Report) -> CheckView:
    """Return the result of a check."""
    explanations = list(map(report.explanation, report.cases))
    lines = Lines()
    findings, unread = finding_views(lines, report.findings, report.cases), lines.locate_unread(report.unread)
    undecided = any(each.answer is Answer.UNKNOWN for one in explanations for each in one.verdicts)
    return CheckView(
        outcome=outcome(fails=report.fails or bool(report.pending), unknown=report.unknown or undecided),
        counts=counts(report.findings),
        hidden=hidden(report.findings, report.unselected),
        rule_selection=rule_selection(report.selected),
        findings=findings,
        unread=unread,
        skipped=report.skipped,
        open_values=report.open_values,
        unasked=report.unasked,
        hints=lines.hints,
        clusters=cluster_views(explanations, most_pools=1),
    )


def explain_view(
    explanations: Iterable[Explanation],
    unread: Iterable[Unread] = (),
    *,
    most_pools: int | None = NEAREST,
    remedies: Remedies | None = None,
) -> ExplainView:
    """Return the result of each workload.

    Args:
        explanations: The results of each cluster.
        unread: Parts of the input that couldn't be read.
        most_pools: Max number of pools to list for a workload, the nearest first; ``None`` for all.
        remedies: Suggested fixes by workload, if they were requested.
    """
    results = list(explanations)
    answers = [each.answer for explanation in results for each in explanation.verdicts]
    return ExplainView(
        outcome=outcome(fails=Answer.NO in answers, unknown=Answer.UNKNOWN in answers),
        counts=AnswerCounts(*map(answers.count, (Answer.YES, Answer.NO, Answer.UNKNOWN))),
        unread=tuple(unread),
        clusters=cluster_views(results, most_pools=most_pools, remedies=remedies),
    )


def rules_view(rules: Mapping[str, Rule]) -> RulesView:
    """Return rules, and where each of them is defined."""
    return RulesView(rules=tuple(rules.values()))
