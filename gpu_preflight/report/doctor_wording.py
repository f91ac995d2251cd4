"""The words of a diagnosis, which text, Markdown and HTML share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpu_preflight.doctor.dump import parse_time, without_permission
from gpu_preflight.report.wording import ANSWERS, count, money

if TYPE_CHECKING:
    from gpu_preflight.doctor.cause import Evidence
    from gpu_preflight.doctor.difference import Difference
    from gpu_preflight.doctor.dump import NotLooked
    from gpu_preflight.report.doctor_view import CauseView, DiagnosisView, DoctorView

# Label, text, and style of a line.
Row = tuple[str, str, str]
_STYLES = {"proven": "no", "likely": "unknown", "possible": "dim"}
NODES = ("Node", "Pool", "Type", "Idle", "Unusable", "USD/h", "Why")
_MAX_EVIDENCE = 5
_MAX_NAMES = 5
# Messages of events have at most 1,024 characters. Those of conditions and containers may have many more.
_MAX_TEXT = 1_100


def age(time: str, at: str) -> str:
    """Return how long ago something was, e.g. ``4 min ago``; empty if a time isn't known."""
    then, now = parse_time(time), parse_time(at)
    if then is None or now is None:
        return ""
    seconds = max((now - then).total_seconds(), 0)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length or (unit == "min" and seconds >= length):
            return f"{int(seconds // length)} {unit} ago"
    return f"{int(seconds)} s ago"


def rows(view: DiagnosisView, at: str) -> Iterator[Row]:
    """Yield the lines of a diagnosis below its headline."""
    if len(view.pods) > 1:
        yield "pods", _listed(view.pods), ""
    if view.place:
        yield "place", view.place, ""
    for place, cause in enumerate(view.causes):
        label = "effect" if cause.is_effect else "cause"
        is_whole = not place and cause.message[-40:] in view.headline
        message = cause.message if len(cause.message) <= _MAX_TEXT else f"{cause.message[:_MAX_TEXT]}..."
        text = f"{cause.id}, {cause.confidence}: {cause.title if is_whole else message}"
        yield label, text, _STYLES[cause.confidence]
        yield from _cause_rows(cause, at)
        if not place and view.tried:
            yield "tried", view.tried, "yes"
    yield from _opinion_rows(view, at)


def _cause_rows(cause: CauseView, at: str) -> Iterator[Row]:
    for each in cause.evidence[: 1 if cause.is_effect else _MAX_EVIDENCE]:
        yield "evidence", evidence_text(each, at), ""
    if cause.is_effect:
        return
    for text in cause.excluded:
        yield "ruled out", text, "dim"
    if cause.clock is not None:
        begun = age(cause.clock.since, at).removesuffix(" ago")
        yield "waits", f"{cause.clock.waits_for}{f', for {begun}' if begun else ''}; {cause.clock.takes}", ""
        yield "source", cause.clock.source, "dim"
    yield "fix", cause.fix, ""
    if cause.command:
        yield "command", cause.command, "command"


def evidence_text(each: Evidence, at: str) -> str:
    """Return a value with its place and age in one line."""
    when = age(each.time, at)
    place = f"{each.source} {each.field}".strip()
    value = each.value if len(each.value) <= _MAX_TEXT else f"{each.value[:_MAX_TEXT]}..."
    return (f"{place} = {value}" if value else place) + (f" ({when})" if when else "")


def _opinion_rows(view: DiagnosisView, at: str) -> Iterator[Row]:
    for text in () if view.tried else view.alternatives[:1]:
        yield "or", f"with this change, the simulation runs the pod: {text}", "yes"
    if view.simulation is not None:
        yield "simulation", f"without a change: {ANSWERS[view.simulation]}", "dim"
    shown = {each.value for cause in view.causes for each in cause.evidence}
    for each in view.opinions:
        if each.value not in shown:
            yield "reported", evidence_text(each, at), "dim"
    if view.disagreement:
        yield "disagree", view.disagreement, "unknown"


def difference_rows(each: Difference, at: str) -> Iterator[Row]:
    """Yield the lines of a difference from the plan below its message."""
    if each.stops:
        them = "it" if len(each.stops) == 1 else "them"
        yield "stops", f"{_listed(each.stops)}: with the planned value, the simulation runs {them}", "no"
    if each.changed_by:
        when = age(each.changed_at, at)
        yield "written", f"last by {each.changed_by}{f', {when}' if when else ''}", ""
    if each.autoscaler:
        yield "autoscaler", each.autoscaler, "dim"
    yield "fix", each.fix, ""
    if each.command:
        yield "command", each.command, "command"


def not_compared_texts(view: DoctorView) -> list[str]:
    """Return the parts of the plan that weren't compared, one line for each reason."""
    found: dict[str, list[str]] = {}
    for each in view.not_compared:
        found.setdefault(each.why, []).append(each.what)
    return [f"{_listed(each)}: {why}" for why, each in found.items()]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_MAX_NAMES]) + (f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else "")


def plan_headline(view: DoctorView) -> str:
    """Return how many differences from the plan there are; empty without a plan."""
    if view.compared is None:
        return ""
    if not view.compared and not view.differences:
        return "Nothing of the plan was compared"
    found = count(len(view.differences), "difference") if view.differences else "No difference"
    rest = f"; not compared: {count(len(view.not_compared), 'part')}" if view.not_compared else ""
    return f"{found} from the plan: {count(view.compared, 'planned object')} compared{rest}"


def nodes_title(view: DoctorView) -> str:
    """Return the title of the table of nodes."""
    return f"Nodes with GPUs: {view.place}" if view.place else "Nodes with idle or unusable GPUs"


def node_rows(view: DoctorView) -> list[tuple[str, ...]]:
    """Return the cells of the table of nodes."""
    costs = ["unknown" if each.usd_per_hour is None else money(each.usd_per_hour) for each in view.nodes]
    return [
        (each.node, each.pool or "-", each.instance_type, str(each.idle), str(each.unusable), cost, each.why)
        for each, cost in zip(view.nodes, costs, strict=True)
    ]


def not_looked_text(each: NotLooked) -> str:
    """Return something that wasn't looked at, and the permission that it needs."""
    needs = f"; needs get and list of {each.what}" if without_permission(each) and " " not in each.what else ""
    return f"{each.what}: {each.why}{needs}"
