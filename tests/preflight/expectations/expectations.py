"""The cases, the checker's reports about them, and their differences from the expected results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpu_preflight.judging.check import Report, check
from gpu_preflight.reading.inputs import Input, read_input
from gpu_preflight.remedies.remedy import fixes_by_workload
from gpu_preflight.report.json import render
from gpu_preflight.report.view import NEAREST, check_view, explain_view

HERE = Path(__file__).parent
CONDITIONAL, ABSENT = "conditional", "absent"
# A workload of several roles or clusters is as bad as the worst of them.
WORST_FIRST = ("no", "unknown", CONDITIONAL, "yes")


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """An input and its expected results; `cases.yaml` describes the fields."""

    name: str
    group: str
    why: str
    explain: Mapping[str, str | list[str]] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()
    restsOn: tuple[str, ...] = ()
    mentions: Mapping[str, list[str]] = field(default_factory=dict)
    omits: Mapping[str, list[str]] = field(default_factory=dict)
    finds: tuple[Mapping[str, Any], ...] = ()
    once: bool = False
    clean: bool | str = False

    @property
    def path(self) -> Path:
        """Return the file or folder that the case reads."""
        return HERE / "cases" / self.name

    @property
    def is_kustomized(self) -> bool:
        """Return whether kubectl must render a part of the input."""
        return any(self.path.rglob("kustomization.yaml"))


def read_cases() -> list[Case]:
    """Return all cases."""
    return [Case(**each) for each in yaml.safe_load((HERE / "cases.yaml").read_text())]


def read_known_misses() -> dict[str, str]:
    """Return what is wrong today, by the name of its case."""
    return yaml.safe_load((HERE / "known_misses.yaml").read_text()) or {}


def find_differences(case: Case) -> list[str]:
    """Return the differences between the reports of `check` and `explain` and the expected results of a case."""
    given = read_input([str(case.path)])
    report = check(given)
    workloads = [each for cluster in _explain(given, report)["clusters"] for each in cluster["workloads"]]
    findings = json.loads(render(check_view(report)))["findings"]
    return [*_explain_differences(case, workloads), *_check_differences(case, findings)]


def _explain(given: Input, report: Report) -> Any:
    explanations = [report.explanation(case, None) for case in report.cases]
    remedies = {
        key: remedy
        for each in explanations
        for key, remedy in fixes_by_workload(given, each.case, each.verdicts).items()
    }
    view = explain_view(explanations, given.problems, most_pools=NEAREST, remedies=remedies)
    return json.loads(render(view))


def _explain_differences(case: Case, workloads: list[dict[str, Any]]) -> Iterator[str]:
    for name, expected in case.explain.items():
        accepted = [expected] if isinstance(expected, str) else expected
        found = _roles(workloads, name)
        if (answer := _worst_answer(found)) not in _with_conditional(accepted):
            yield f"explain {name}: expected {' or '.join(accepted)}, got {answer}"
            continue
        if case.once and len(found) != 1:
            yield f"explain {name}: is listed {len(found)} times"
        for each in found:
            stated = _texts(each, "runsIf")
            yield from _lacking(f"runsIf of {name}", case.conditions, stated)
            yield from _lacking(f"restsOn of {name}", case.restsOn, stated + _texts(each, "restsOn"))
    for name, words in case.mentions.items():
        yield from _lacking(f"explain {name}", words, json.dumps(_roles(workloads, name)))
    for name, words in case.omits.items():
        text = json.dumps(_roles(workloads, name))
        yield from (f"explain {name}: mentions {word!r}" for word in words if word in text)


def _roles(workloads: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [each for each in workloads if each["name"] == name or each["name"].startswith(f"{name} ")]


def _worst_answer(workloads: list[dict[str, Any]]) -> str:
    return min(map(_answer, workloads), key=WORST_FIRST.index, default=ABSENT)


def _answer(workload: dict[str, Any]) -> str:
    is_conditional = workload["answer"] == "unknown" and workload.get("runsIf")
    return CONDITIONAL if is_conditional else str(workload["answer"])


def _with_conditional(accepted: list[str]) -> list[str]:
    # A conditional result is "unknown" in JSON, so it also meets that expectation.
    return [*accepted, CONDITIONAL] if "unknown" in accepted else accepted


def _texts(workload: dict[str, Any], key: str) -> str:
    return "\n".join(map(str, workload.get(key, ())))


def _lacking(where: str, words: Any, text: str) -> Iterator[str]:
    yield from (f"{where}: lacks {word!r}" for word in words if word.lower() not in text.lower())


def _check_differences(case: Case, findings: list[dict[str, Any]]) -> Iterator[str]:
    for expected in case.finds:
        if not any(_matches(expected, each) for each in findings):
            yield f"check: no finding is {dict(expected)}"
    if case.clean:
        errors = [each for each in findings if each["severity"] == "error"]
        yield from (
            f"check: {each['id']} {each['message']}" for each in errors if case.clean is True or not each["unknown"]
        )


def _matches(expected: Mapping[str, Any], finding: dict[str, Any]) -> bool:
    text = f"{finding['title']} {finding['message']}".lower()
    return (
        expected.get("severity", finding["severity"]) == finding["severity"]
        and expected.get("certain", not finding["unknown"]) == (not finding["unknown"])
        and all(word.lower() in text for word in expected["contains"])
    )
