"""What a change means, as text: pools, ceilings, versions, workloads."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preflight.report.finding_view import View
from gpu_preflight.report.text_parts import Part, Text, heading, line, table
from gpu_preflight.report.wording import RESULTS, ceiling_notes, ceiling_rows, listed_changes, other_changes

_CEILING = ("At most", "Before", "After", "Change")
_STYLES = {
    "replaced": "no",
    "refused": "no",
    "removed": "unknown",
    "rolled back": "unknown",
    "too early": "unknown",
    "renamed": "unknown",
    "changed": "",
    "added": "yes",
}


def parts(view: View) -> Iterator[Part]:
    """Yield everything of a review but its findings."""
    yield from _control_planes(view)
    yield from _pools(view)
    yield from _changes(view)
    yield heading("All GPU pools together")
    yield table(_CEILING, ceiling_rows(view["ceiling"]), right=_CEILING[1:])
    yield from (line(each, "dim") for each in ceiling_notes(view["ceiling"]["after"]))
    yield from _versions(view)
    yield from _workloads(view)


def _control_planes(view: View) -> Iterator[Part]:
    for each in view["controlPlanes"]:
        yield heading(f"{each['change']}: cluster {each['cluster']}", _STYLES[each["change"]])
        yield line(f"  {each['detail']}")


def _pools(view: View) -> Iterator[Part]:
    if not view["pools"]:
        yield line("No pool changes.")
    for each in view["pools"]:
        drained = ", its nodes are drained" if each["change"] == "replaced" else ""
        yield heading(f"{each['change']}: pool {each['name']} of {each['cluster']}{drained}", _STYLES[each["change"]])
        yield from (line(f"  {detail}") for detail in each["details"])


def _changes(view: View) -> Iterator[Part]:
    """Yield each change that is not merely in place, then how many of each class there are."""
    if listed := listed_changes(view):
        yield heading("Resources and objects")
        yield table(("Change", "What", "Detail"), [(each["change"], each["what"], each["detail"]) for each in listed])
    if others := other_changes(view):
        yield line(others, "dim")


def _versions(view: View) -> Iterator[Part]:
    if view["versions"]:
        yield heading("Versions")
        rows = [(each["what"], each["before"] or "-", each["after"] or "-") for each in view["versions"]]
        yield table(("", "Before", "After"), rows)


def _workloads(view: View) -> Iterator[Part]:
    if view["workloads"]:
        yield heading("Workloads whose verdict changes")
        rows = [
            (each["name"], _result(each, "before"), _result(each, "after"), each["reason"] or "")
            for each in view["workloads"]
        ]
        yield table(("Workload", "Before", "After", "Nearest reason"), rows)


def _result(workload: View, side: str) -> Text:
    answer = workload[side]
    return line(RESULTS[workload[f"{side}Result"]], answer) if answer else line("-")
