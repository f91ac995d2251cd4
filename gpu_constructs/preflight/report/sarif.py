"""A view as SARIF 2.1.0, which code scanning reads.

Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/sarif-v2.1.0-os.html
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from gpu_constructs.preflight.report.finding_view import View
from gpu_constructs.preflight.report.wording import MAY_BE

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
# What is fixed is left out: code scanning closes what is no longer reported, and would open what is named.
_STATES = {"new": "new", "standing": "unchanged"}
_UNSURE_LEVELS = {"error": "warning", "warning": "note", "note": "note"}


def render(view: View) -> str:
    """Return the findings of a check or a review as SARIF."""
    findings = list(_findings(view))
    rules = {each["id"]: each for each, _ in reversed(findings)}
    notifications = [_notification(each) for each in view.get("unread", ())]
    run = {
        "tool": {"driver": _driver(view, rules)},
        "columnKind": "unicodeCodePoints",
        "automationDetails": {"id": f"gpu-constructs/{view['command']}/"},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notifications}],
        "results": list(_results(findings, sorted(rules))),
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _findings(view: View) -> Iterator[tuple[View, str | None]]:
    """Yield findings, in a review each with what became of it."""
    yield from ((each, None) for each in view.get("findings", ()))
    yield from ((each, state) for key, state in _STATES.items() for each in view.get(key, ()))


def _driver(view: View, rules: dict[str, View]) -> View:
    return {
        "name": view["tool"]["name"],
        "version": view["tool"]["version"],
        "rules": [_rule(each) for _, each in sorted(rules.items())],
    }


def _rule(finding: View) -> View:
    link = finding["source"]
    told = {
        "id": finding["id"],
        "shortDescription": {"text": finding["title"]},
        "fullDescription": {"text": finding["why"]},
        "help": {"text": f"{finding['why']}\n\nSource: {link}"},
        "defaultConfiguration": {"level": finding["severity"]},
    }
    return told | ({"helpUri": link} if link.startswith("https://") else {})


def _results(findings: list[tuple[View, str | None]], rules: list[str]) -> Iterator[View]:
    seen: Counter[str] = Counter()
    for finding, state in findings:
        place = "\n".join((finding["id"], finding["cluster"], finding["origin"]["path"]))
        seen[place] += 1
        yield _result(finding, rules.index(finding["id"]), _fingerprint(f"{place}\n{seen[place]}"), state)


def _fingerprint(text: str) -> str:
    return sha256(text.encode(errors="replace")).hexdigest()[:32]


def _result(finding: View, index: int, fingerprint: str, state: str | None) -> View:
    unsure = finding["unknown"]
    result: View = {
        "ruleId": finding["id"],
        "ruleIndex": index,
        "kind": "fail",
        "level": _UNSURE_LEVELS[finding["severity"]] if unsure else finding["severity"],
        "message": {"text": f"{finding['message']}{f' ({MAY_BE})' if unsure else ''}. Fix: {finding['fix']}"},
        "locations": [_location(finding["origin"])],
        # GitHub matches alerts by the first, everybody else by either.
        "partialFingerprints": {"primaryLocationLineHash": fingerprint, "gpuConstructs/v1": fingerprint},
    }
    if state is not None:
        result["baselineState"] = state
    if finding["acknowledged"] is not None:
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": finding["acknowledged"]}]
    return result


def _notification(unread: View) -> View:
    message = f"{unread['origin']['path']}: {unread['reason']}"
    return {"level": "warning", "message": {"text": message}, "locations": [_location(unread["origin"])]}


def _location(origin: View) -> View:
    # Code scanning wants a line; where in a template something stands is told by its path.
    region = {"startLine": 1}
    return {
        "physicalLocation": {"artifactLocation": _artifact(origin["file"]), "region": region},
        "logicalLocations": [{"fullyQualifiedName": origin["path"], "kind": "resource"}],
    }


def _artifact(file: str) -> View:
    path = Path(file)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    if path.is_absolute():
        return {"uri": path.as_uri()}
    return {"uri": quote(path.as_posix(), errors="replace"), "uriBaseId": "%SRCROOT%"}
