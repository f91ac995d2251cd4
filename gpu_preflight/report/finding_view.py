"""Findings as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpu_preflight.cluster.open_values import OpenValue
from gpu_preflight.reading.objects import Origin, Unread
from gpu_preflight.rule import Finding, Rule

View = dict[str, Any]


def origin_view(origin: Origin) -> View:
    """Return where something stands."""
    return {"file": origin.file, "path": origin.path, "resource": origin.resource}


def rule_view(rule: Rule) -> View:
    """Return what a rule says."""
    return {
        "id": rule.id,
        "severity": rule.severity,
        "title": rule.title,
        "why": rule.why,
        "fix": rule.fix,
        "source": rule.source,
    }


def finding_view(finding: Finding) -> View:
    """Return a finding with everything that its rule says."""
    return {
        **rule_view(finding.rule),
        "fix": finding.fix,
        "cluster": finding.cluster,
        "origin": origin_view(finding.problem.origin),
        "message": finding.problem.message,
        "unknown": finding.problem.unknown,
        "acknowledged": f"not true: {finding.acknowledged}" if finding.not_true else finding.acknowledged,
        "fails": finding.counts,
    }


def unread_view(unread: Iterable[Unread]) -> list[View]:
    """Return what could not be read before deployment."""
    return [{"origin": origin_view(each.origin), "reason": each.reason} for each in unread]


def open_values_view(values: Iterable[OpenValue]) -> list[View]:
    """Return the values that only deployment sets, with the rules that judge them."""
    return [
        {"origin": origin_view(each.origin), "field": each.field, "value": each.expression, "rules": list(each.rules)}
        for each in values
    ]


def counts(findings: Iterable[Finding]) -> View:
    """Return how many findings there are of each severity; acknowledged and unknown ones are counted apart."""
    listed = list(findings)
    open_ones = [each for each in listed if each.acknowledged is None]
    sure = [each.rule.severity for each in open_ones if not each.problem.unknown]
    return {
        "errors": sure.count("error"),
        "warnings": sure.count("warning"),
        "notes": sure.count("note"),
        "unknown": len(open_ones) - len(sure),
        "acknowledged": len(listed) - len(open_ones),
    }
