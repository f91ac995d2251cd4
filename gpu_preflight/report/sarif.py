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

from gpu_preflight.report.finding_view import View
from gpu_preflight.report.wording import MAY_BE

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
# What is fixed is left out: code scanning closes what is no longer reported, and would open what is named.
_STATES = {"new": "new", "standing": "unchanged"}
# What a deployment does to resources and objects, where somebody has to act before it.
_CHANGES = {
    "destructive": ("warning", "The deployment loses data, or stops a run that has not ended"),
    "fails": ("error", "AWS or Kubernetes rejects the update"),
    "left behind": ("warning", "The object keeps running, in no stack"),
}
_UNSURE_LEVELS = {"error": "warning", "warning": "note", "note": "note"}


def render(view: View) -> str:
    """Return the findings of a check or a review as SARIF."""
    findings = list(_findings(view))
    changes = [each for each in view.get("changes", ()) if each["change"] in _CHANGES and each["origin"]]
    rules = {each["id"]: _rule(each) for each, _ in reversed(findings)}
    rules |= {_change_id(each): _change_rule(each["change"]) for each in changes}
    order = sorted(rules)
    notifications = [_notification(each) for each in view.get("unread", ())]
    run = {
        "tool": {"driver": _driver(view, [rules[each] for each in order])},
        "columnKind": "unicodeCodePoints",
        "automationDetails": {"id": f"gpu-constructs/{view['command']}/"},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notifications}],
        "results": [*_results(findings, order), *(_change(each, order) for each in changes)],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _findings(view: View) -> Iterator[tuple[View, str | None]]:
    """Yield findings, in a review each with what became of it."""
    yield from ((each, None) for each in view.get("findings", ()))
    yield from ((each, state) for key, state in _STATES.items() for each in view.get(key, ()))


def _driver(view: View, rules: list[View]) -> View:
    return {
        "name": view["tool"]["name"],
        "version": view["tool"]["version"],
        "rules": rules,
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


def _change_id(change: View) -> str:
    return f"change-{change['change'].replace(' ', '-')}"


def _change_rule(change: str) -> View:
    level, title = _CHANGES[change]
    return {
        "id": _change_id({"change": change}),
        "shortDescription": {"text": title},
        "help": {"text": f"{title}. See docs/changes.md for each option."},
        "defaultConfiguration": {"level": level},
    }


def _change(change: View, rules: list[str]) -> View:
    id, (level, _) = _change_id(change), _CHANGES[change["change"]]
    fingerprint = _fingerprint(f"{id}\n{change['what']}")
    return {
        "ruleId": id,
        "ruleIndex": rules.index(id),
        "kind": "fail",
        "level": level,
        "message": {"text": f"{change['what']}: {change['detail']}"},
        "locations": [_location(change["origin"])],
        "partialFingerprints": {"primaryLocationLineHash": fingerprint, "gpuConstructs/v1": fingerprint},
        "baselineState": "new",
    }


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
