"""What a change means, as Markdown: drained nodes first, then ceilings, workloads and versions."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preflight.report.finding_view import View
from gpu_preflight.report.markdown_parts import code, details, table, told
from gpu_preflight.report.wording import (
    RESULTS,
    ceiling_notes,
    ceiling_rows,
    findings_summary,
    listed_changes,
    other_changes,
    review_summary,
)

# Rows of findings, so that a comment stays below what it may hold.
MOST = {"new": 40, "fixed": 15, "standing": 15}
_MOST_POOLS = 30
_MOST_DETAILS = 12


def parts(view: View) -> Iterator[str]:
    """Yield everything of a review but its findings."""
    yield told(review_summary(view))
    for each in view["controlPlanes"]:
        yield f"⚠️ **Cluster {each['change']}:** {code(each['cluster'])}, {told(each['detail'])}"
    yield from _pools(view)
    yield from _changes(view)
    yield table(("At most", "Before", "After", "Change"), _ceiling(view))
    yield from (f"_{told(each)}_" for each in ceiling_notes(view["ceiling"]["after"]))
    yield from _workloads(view)
    yield from _versions(view)
    yield f"New: {findings_summary(view['new'])}. Fixed: {findings_summary(view['fixed'])}."


def _ceiling(view: View) -> list[tuple[str, ...]]:
    return [(told(name), before, after, change) for name, before, after, change in ceiling_rows(view["ceiling"])]


def _pools(view: View) -> Iterator[str]:
    listed = view["pools"]
    replaced = [each for each in listed if each["change"] == "replaced"]
    if replaced:
        names = ", ".join(f"{code(each['name'])} of {code(each['cluster'])}" for each in replaced)
        yield f"⚠️ **Replaced, so every node is drained:** {names}"
    if listed:
        rows = [_pool(each) for each in listed[:_MOST_POOLS]]
        left = f"\n\nAnd {len(listed) - _MOST_POOLS} more." if len(listed) > _MOST_POOLS else ""
        yield details(f"Pools that change ({len(listed)})", table(("Pool", "Change", "What"), rows) + left)


def _changes(view: View) -> Iterator[str]:
    listed = listed_changes(view)
    if listed:
        rows = [(each["change"], code(each["what"]), told(each["detail"])) for each in listed[:_MOST_POOLS]]
        left = f"\n\nAnd {len(listed) - _MOST_POOLS} more." if len(listed) > _MOST_POOLS else ""
        yield f"#### Resources and objects ({len(listed)})"
        yield table(("Change", "What", "Detail"), rows) + left
    if others := other_changes(view):
        yield told(others)


def _pool(pool: View) -> tuple[str, ...]:
    shown = [told(each) for each in pool["details"][:_MOST_DETAILS]]
    left = len(pool["details"]) - len(shown)
    what = "<br>".join(shown) + (f"<br>and {left} more" if left else "")
    return f"{code(pool['name'])}<br>{pool['kind']}", pool["change"], what


def _workloads(view: View) -> Iterator[str]:
    if view["workloads"]:
        rows = [
            (
                code(each["name"]),
                _result(each["beforeResult"]),
                _result(each["afterResult"]),
                told(each["reason"] or ""),
            )
            for each in view["workloads"][:_MOST_POOLS]
        ]
        yield f"#### Workloads whose verdict changes ({len(view['workloads'])})"
        yield table(("Workload", "Before", "After", "Nearest reason"), rows)


def _result(result: str | None) -> str:
    return RESULTS[result] if result else "-"


def _versions(view: View) -> Iterator[str]:
    if view["versions"]:
        rows = [
            (told(each["what"]), code(each["before"] or "-"), code(each["after"] or "-"))
            for each in view["versions"][:_MOST_POOLS]
        ]
        yield details(f"Versions ({len(view['versions'])})", table(("", "Before", "After"), rows))
