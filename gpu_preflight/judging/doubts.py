"""Names what isn't known about a finding that may be true: a value, an object, or a part of the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from gpu_preflight.case import Case
from gpu_preflight.cluster.open_values import OpenValue
from gpu_preflight.rule import Finding

_SHOWN = 3
_GENERAL = "may be true: something isn't in the input, or is known only at deployment"


def cases_by_title(cases: Iterable[Case]) -> Mapping[str, Case]:
    """Return clusters by the name that findings have. Of two versions of a cluster, the last one counts."""
    return {each.cluster.title: each for each in cases}


def doubt(finding: Finding, cases: Mapping[str, Case]) -> str:
    """Return what isn't known about a finding, in words; empty if it is certain.

    Args:
        finding: The finding.
        cases: The clusters, by name.
    """
    problem = finding.problem
    if not problem.unknown:
        return ""
    if problem.condition:
        return f"isn't true if {problem.condition}"
    values = _open_values(finding, cases[finding.cluster]) if finding.cluster in cases else []
    if values and not problem.doubt:
        return f"may be true: {_listed(values)} {'is' if len(values) == 1 else 'are'} known only at deployment"
    return f"may be true: {problem.doubt}" if problem.doubt else _GENERAL


def _open_values(finding: Finding, case: Case) -> list[str]:
    """Return the open values that the rule checks, in the object of a finding and in objects that its message names."""
    problem = finding.problem
    checked = (each for each in case.open_values if finding.rule.id in each.rules)
    places = {problem.origin, problem.place}
    found = (each for each in checked if each.origin in places or _is_named(each.origin.path, problem.message))
    return list(dict.fromkeys(map(_text, found)))


def _is_named(path: str, message: str) -> bool:
    """Whether a message has a path, and not only as the beginning of a longer one, such as ``gpu`` in ``gpu-2``."""
    return re.search(rf"(?<![\w/.-]){re.escape(path)}(?![\w/-])", message) is not None


def _text(value: OpenValue) -> str:
    return f"the condition of {value.origin.path}" if value.is_condition else value.text


def _listed(texts: Sequence[str]) -> str:
    left = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {left} more" if left > 0 else "")
