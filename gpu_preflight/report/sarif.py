"""A view as SARIF 2.1.0, which code scanning reads.

Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/sarif-v2.1.0-os.html
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gpu_preflight.report.wording import acceptance_text, hidden_text, skipped_text

if TYPE_CHECKING:
    from gpu_preflight.report.finding_view import FindingOrigin, FindingView, LocatedUnread
    from gpu_preflight.report.review_view import LocatedChange, ReviewView
    from gpu_preflight.report.view import CheckView

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_Object = dict[str, Any]
# Changes of resources and objects that require an action before the deployment.
CHANGES = {
    "destructive": ("warning", "The deployment loses data, or stops a run that has not ended"),
    "fails": ("error", "AWS or Kubernetes rejects the update"),
    "left behind": ("warning", "The object keeps running, and no stack owns it"),
}
_IN_SOURCE = ("comment",)
_UNSURE_LEVELS = {"error": "warning", "warning": "note", "note": "note"}


def render(view: CheckView | ReviewView) -> str:
    """Return the findings of a check or a review as SARIF."""
    findings = list(reported(view))
    changes = reported_changes(view)
    rules = {each.id: _rule(each) for each, _ in reversed(findings)}
    rules |= {change_id(each.change): _change_rule(each.change) for each in changes}
    order = sorted(rules)
    run = {
        "tool": {"driver": asdict(view.tool) | {"rules": [rules[each] for each in order]}},
        "columnKind": "unicodeCodePoints",
        "automationDetails": {"id": f"gpu-constructs/{view.command}/"},
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [*map(_notification, view.unread), *_hidden(view)],
            }
        ],
        **({"properties": {"headline": view.headline}} if view.command == "review" else {}),
        "results": [*_results(findings, order), *(_change(each, order) for each in changes)],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def reported(view: CheckView | ReviewView) -> Iterator[tuple[FindingView, str | None]]:
    """Yield findings. In a review, each has its state: new or unchanged."""
    if view.command == "check":
        yield from ((each, None) for each in view.findings)
    else:
        # Fixed findings are left out: code scanning closes alerts that aren't reported, and opens alerts that are.
        yield from ((each, "new") for each in view.new)
        yield from ((each, "unchanged") for each in view.standing)


def reported_changes(view: CheckView | ReviewView) -> list[LocatedChange]:
    """Return the changes of a review that require an action before the deployment."""
    return [each for each in view.changes if each.change in CHANGES] if view.command == "review" else []


def level(finding: FindingView) -> str:
    """Return the level of a finding: one lower if the finding is uncertain."""
    return _UNSURE_LEVELS[finding.severity] if finding.unknown else finding.severity


def message(finding: FindingView) -> str:
    """Return the message of a finding, with a note if the finding is uncertain."""
    return f"{finding.message} ({finding.doubt})" if finding.unknown else finding.message


def _rule(finding: FindingView) -> _Object:
    link = finding.source
    rule = {
        "id": finding.id,
        "shortDescription": {"text": finding.title},
        "fullDescription": {"text": finding.why},
        "help": {"text": f"{finding.why}\n\nSource: {link}"},
        "defaultConfiguration": {"level": finding.severity},
    }
    return rule | ({"helpUri": link} if link.startswith("https://") else {})


def _results(findings: list[tuple[FindingView, str | None]], rules: list[str]) -> Iterator[_Object]:
    seen: Counter[str] = Counter()
    for finding, state in findings:
        place = "\n".join((finding.id, finding.cluster, finding.origin.path))
        seen[place] += 1
        yield _result(finding, rules.index(finding.id), fingerprint(f"{place}\n{seen[place]}"), state)


def change_id(change: str) -> str:
    """Return the rule id for a class of changes."""
    return f"change-{change.replace(' ', '-')}"


def _change_rule(change: str) -> _Object:
    severity, title = CHANGES[change]
    return {
        "id": change_id(change),
        "shortDescription": {"text": title},
        "help": {"text": f"{title}. See docs/reference/changes.md for each option."},
        "defaultConfiguration": {"level": severity},
    }


def _change(change: LocatedChange, rules: list[str]) -> _Object:
    id, (severity, _) = change_id(change.change), CHANGES[change.change]
    own = fingerprint(f"{id}\n{change.what}")
    return {
        "ruleId": id,
        "ruleIndex": rules.index(id),
        "kind": "fail",
        "level": severity,
        "message": {"text": f"{change.what}: {change.detail}"},
        "locations": [_location(change.origin)] if change.origin else [],
        "partialFingerprints": {"primaryLocationLineHash": own, "gpuConstructs/v1": own},
        "baselineState": "new",
    }


def fingerprint(text: str) -> str:
    """Return a short hash of the text that identifies a result."""
    return sha256(text.encode(errors="replace")).hexdigest()[:32]


def _result(finding: FindingView, index: int, own: str, state: str | None) -> _Object:
    result: _Object = {
        "ruleId": finding.id,
        "ruleIndex": index,
        "kind": "fail",
        "level": level(finding),
        "message": {"text": f"{message(finding)}. Fix: {finding.fix}"},
        "locations": [_location(finding.origin)],
        # GitHub matches alerts by the first fingerprint, other tools by either one.
        "partialFingerprints": {"primaryLocationLineHash": own, "gpuConstructs/v1": own},
    }
    if state is not None:
        result["baselineState"] = state
    if finding.acknowledged is not None:
        kind = "inSource" if finding.accepted_by in _IN_SOURCE else "external"
        result["suppressions"] = [{"kind": kind, "status": "accepted", "justification": acceptance_text(finding)}]
    return result


def _notification(unread: LocatedUnread) -> _Object:
    message = f"{unread.origin.path}: {unread.reason}"
    return {"level": "warning", "message": {"text": message}, "locations": [_location(unread.origin)]}


def _hidden(view: CheckView | ReviewView) -> Iterator[_Object]:
    skipped = skipped_text(view)
    for text in filter(None, (f"skipped: {skipped}" if skipped else "", hidden_text(view))):
        yield {"level": "note", "message": {"text": text}}


def _location(origin: FindingOrigin) -> _Object:
    position = origin.position
    # Code scanning requires a line.
    named = ((origin.path, "resource"), (origin.template, "template"))
    region = {"startLine": position.line if position else 1}
    if position and position.column:
        region["startColumn"] = position.column
    return {
        "physicalLocation": {
            "artifactLocation": _artifact(position.file if position else origin.file),
            "region": region,
        },
        "logicalLocations": [{"fullyQualifiedName": each, "kind": kind} for each, kind in named if each],
    }


def repository_path(file: str) -> Path:
    """Return the path of a file relative to the working directory; unchanged if the file is elsewhere."""
    path = Path(file)
    return path.relative_to(Path.cwd()) if path.is_absolute() and path.is_relative_to(Path.cwd()) else path


def _artifact(file: str) -> _Object:
    path = repository_path(file)
    if path.is_absolute():
        return {"uri": path.as_uri()}
    return {"uri": quote(path.as_posix(), errors="replace"), "uriBaseId": "%SRCROOT%"}
