"""Findings as a list that can be filtered and searched; without a script it is simply whole."""

from __future__ import annotations

from gpu_preflight.report.finding_view import View
from gpu_preflight.report.html.element import Html, joined, tag
from gpu_preflight.report.wording import MAY_BE, where
from gpu_preflight.rules.rule import SEVERITIES

_STATES = {"new": "new", "fixed": "fixed", "standing": "standing"}


def findings(view: View) -> Html:
    """Return all findings of a check or a review."""
    states = [key for key in _STATES if key in view]
    listed = [(each, key) for key in states for each in view[key]] or [(each, "") for each in view.get("findings", ())]
    return tag(
        "section",
        tag("h2", "Findings"),
        _controls(),
        tag("p", f"{len(listed)} shown", id="shown", role="status"),
        tag("ol", *(_finding(each, state) for each, state in listed), cls="findings"),
        *([] if listed else [tag("p", "No findings.")]),
        id="findings",
    )


def _controls() -> Html:
    boxes = [
        tag("label", tag("input", type="checkbox", name="severity", value=each, checked=""), f" {name}")
        for each, name in [*((each, f"{each}s") for each in SEVERITIES), ("acknowledged", "acknowledged")]
    ]
    search = tag("label", "Search ", tag("input", type="search", id="search", autocomplete="off"))
    return tag("form", *boxes, search, id="controls", hidden="")


def _finding(finding: View, state: str) -> Html:
    accepted = finding["acknowledged"]
    severity = finding["severity"]
    badges = [tag("span", severity, cls=f"badge {severity}")]
    badges += [tag("span", state, cls=f"badge {state}")] if state else []
    badges += [tag("span", "acknowledged", cls="badge")] if accepted is not None else []
    return tag(
        "li",
        tag("h3", tag("code", finding["id"]), " ", *badges, " ", finding["title"]),
        tag("p", finding["message"], cls="message"),
        tag("p", where(finding), cls="quiet"),
        tag("p", MAY_BE, cls="quiet") if finding["unknown"] else None,
        tag("p", tag("b", "Accepted: "), accepted) if accepted is not None else None,
        tag("details", tag("summary", "Why, and what to do"), _advice(finding)),
        cls="finding",
        data_severity=severity if accepted is None else "acknowledged",
    )


def _advice(finding: View) -> Html:
    source = finding["source"]
    linked = tag("a", source, href=source, rel="noreferrer") if source.startswith("https://") else source
    return joined(
        tag("p", finding["why"]), tag("p", tag("b", "Fix: "), finding["fix"]), tag("p", tag("b", "Source: "), linked)
    )
