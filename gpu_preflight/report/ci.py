"""Findings in the formats that CI systems read: annotations of GitHub, GitLab's code quality, JUnit, one line each.

Acknowledged findings are left out and counted. The level of a possible finding is one lower.

Sources, 2026-11: actions/toolkit packages/core/src/command.ts (GitHub),
https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format,
https://docs.gitlab.com/ci/testing/unit_test_reports/ (JUnit)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal
from xml.etree import ElementTree

from gpu_facts.light import dataclass, regex
from gpu_preflight.reading.objects import Position
from gpu_preflight.report.finding_view import FindingOrigin
from gpu_preflight.report.review_headline import limit_name, limit_outcome
from gpu_preflight.report.sarif import (
    CHANGES,
    change_id,
    fingerprint,
    level,
    message,
    reported,
    reported_changes,
    repository_path,
)
from gpu_preflight.report.wording import headline, hidden_text, printable, skipped_text
from gpu_preflight.rule import POSSIBLE, Severity

if TYPE_CHECKING:
    from gpu_preflight.report.review_view import ReviewView
    from gpu_preflight.report.view import CheckView

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
_GITLAB_SEVERITIES = {"error": "critical", "warning": "minor", "note": "info"}
_HIDDEN = "hidden"
# Place of results about the whole input.
_NO_FILE = "."
# Characters that XML 1.0 doesn't allow.
_NOT_XML = regex("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class _Result:
    """A finding, a part of the input that isn't checked, or a change that requires an action before the deployment.

    Attributes:
        level: ``error``, ``warning`` or ``note``.
        fails: Whether it is a certain error that isn't accepted.
        possible: The severity of its rule if it only may be true, which has a lower level; otherwise empty.
    """

    id: str
    level: str
    title: str
    text: str
    fix: str
    origin: FindingOrigin
    fails: bool
    possible: Severity | Literal[""] = ""

    @property
    def kind(self) -> str:
        """Its severity for people: ``error``, ``possible error``."""
        return f"{POSSIBLE}{self.possible}" if self.possible else self.level


def concise(view: CheckView | ReviewView) -> str:
    """Return a line for each result, as compilers write them, and the outcome."""
    found = [each for each in _new(view) if each.id != _HIDDEN]
    lines = [f"{_place(each.origin)}: {each.kind}: {each.id} {each.text} [{each.origin.path}]" for each in found]
    told = headline(view) if view.command == "review" else hidden_text(view)
    return "\n".join(
        [*map(printable, lines), printable(f"{view.command}: {view.outcome}{'; ' if told else ''}{told}"), ""]
    )


def github(view: CheckView | ReviewView) -> str:
    """Return workflow commands that annotate files, errors first: GitHub shows ten of each level and step."""
    results = sorted(_new(view), key=lambda each: list(_COMMANDS).index(each.level))
    return "".join(map(_annotation, results))


def _annotation(result: _Result) -> str:
    place = _place(result.origin)
    found = {"file": place.file if place.file != _NO_FILE else None, "line": place.line or None, "col": place.column}
    found["title"] = f"{result.id} {result.title}"
    properties = ",".join(f"{key}={_property(str(value))}" for key, value in found.items() if value is not None)
    return f"::{_COMMANDS[result.level]} {properties}::{_data(f'{result.text}. Fix: {result.fix}')}\n"


def gitlab(view: CheckView | ReviewView) -> str:
    """Return a code quality report."""
    seen: Counter[str] = Counter()
    rows = []
    for each in _results(view):
        place = "\n".join((each.id, each.origin.path, each.text))
        seen[place] += 1
        where = _place(each.origin)
        rows.append(
            {
                "description": f"{each.text}. Fix: {each.fix}",
                "check_name": each.id,
                "fingerprint": fingerprint(f"{place}\n{seen[place]}"),
                "severity": _GITLAB_SEVERITIES[each.level],
                "location": {"path": where.file, "lines": {"begin": where.line or 1}},
            }
        )
    return json.dumps(rows, indent=2) + "\n"


def junit(view: CheckView | ReviewView) -> str:
    """Return a test report: a failed test for each certain error that isn't accepted, a passed test for each other."""
    results = list(_results(view))
    suite = ElementTree.Element("testsuite", name=f"gpu-constructs {view.command}")
    for each in results:
        case = _xml(suite, "testcase", classname=each.id, name=f"{each.title}: {each.origin.path}")
        text = f"{each.text}\nFix: {each.fix}\nat {each.origin}"
        if each.fails:
            _xml(case, "failure", message=each.text, type=each.level).text = _NOT_XML.sub("\ufffd", text)
        else:
            _xml(case, "system-out").text = _NOT_XML.sub("\ufffd", f"{each.level}: {text}")
    if not results:
        _xml(suite, "testcase", classname="gpu-constructs", name=f"{view.command} finds nothing")
    suite.set("tests", str(max(len(results), 1)))
    suite.set("failures", str(sum(each.fails for each in results)))
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _xml(parent: ElementTree.Element, tag: str, **attributes: str) -> ElementTree.Element:
    safe = {key: _NOT_XML.sub("\ufffd", value) for key, value in attributes.items()}
    return ElementTree.SubElement(parent, tag, safe)


def _results(view: CheckView | ReviewView, *, standing: bool = True) -> list[_Result]:
    """Return the results, and the headline if the command fails without a certain error, for a Pending workload."""
    found = list(_parts(view, standing=standing))
    if view.outcome == "fail" and not any(each.fails for each in found):
        fix, place = f"see the text of gpu-constructs {view.command}", FindingOrigin(_NO_FILE, _NO_FILE)
        found.append(_Result("outcome", "error", f"Result of the {view.command}", headline(view), fix, place, True))
    return found


def _parts(view: CheckView | ReviewView, *, standing: bool) -> Iterator[_Result]:
    for each, state in reported(view):
        if each.acknowledged is None and (standing or state != "unchanged"):
            rendered = f" (rendered from {each.origin.template})" if each.origin.is_rendered_text else ""
            text = f"{message(each)}{rendered}"
            possible = each.severity if each.unknown and level(each) != each.severity else ""
            yield _Result(each.id, level(each), each.title, text, each.fix, each.origin, each.fails, possible)
    for part in view.unread:
        fix = "give the checker what is deployed in its place"
        yield _Result(
            "unread", "note", "Part that isn't checked", f"not checked: {part.reason}", fix, part.origin, False
        )
    if skipped := skipped_text(view):
        fix = "name the path of a file to read it"
        place = FindingOrigin(_NO_FILE, _NO_FILE)
        yield _Result("skipped", "note", "Files that aren't read", skipped, fix, place, False)
    if told := hidden_text(view):
        place = FindingOrigin(_NO_FILE, _NO_FILE)
        yield _Result(_HIDDEN, "note", "Findings that don't count", told, "see docs/how-to/adoption.md", place, False)
    for change in reported_changes(view):
        severity, title = CHANGES[change.change]
        text, fix = f"{change.what}: {change.detail}", "see docs/reference/changes.md for each option"
        origin = change.origin or FindingOrigin(".", change.what)
        yield _Result(change_id(change.change), severity, title, text, fix, origin, severity == "error")
    if view.command == "review":
        yield from _exceeded(view)


def _exceeded(view: ReviewView) -> Iterator[_Result]:
    """Yield the limits that a change doesn't keep, at the place of the first pool with GPUs."""
    pools = [pool for side in (view.clusters.after, view.clusters.before) for one in side for pool in one.pools]
    places = [each.origin for each in sorted(pools, key=lambda each: not each.gpus_per_node.most)]
    place = (
        FindingOrigin(places[0].file, places[0].path, places[0].resource)
        if places
        else FindingOrigin(_NO_FILE, _NO_FILE)
    )
    for each in view.limits:
        if each.result != "kept":
            text = f"{limit_name(each)}: {limit_outcome(each)}"
            fix = f"Change the pools, or the limit ({each.option})"
            yield _Result("limit", "error", "Limit of the review", text, fix, place, True)


def _new(view: CheckView | ReviewView) -> list[_Result]:
    """Yield the results of a check, or the new ones of a review."""
    return _results(view, standing=False)


def _place(origin: FindingOrigin) -> Position:
    """Return the file and line that a person edits; line 0 means unknown."""
    found = origin.position
    file = repository_path(found.file if found else origin.file).as_posix()
    return Position(file, found.line, found.column) if found else Position(file, 0, None)


def _data(text: str) -> str:
    return printable(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
