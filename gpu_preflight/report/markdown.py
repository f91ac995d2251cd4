"""A view as GitHub Markdown, fit for a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from gpu_facts.light import regex
from gpu_preflight.report.finding_view import View
from gpu_preflight.report.wording import (
    ANSWERS,
    MAY_BE,
    PRICES,
    RESULTS,
    addon_lines,
    alike,
    answer_text,
    answers_summary,
    ceiling_notes,
    ceiling_rows,
    chart_rows,
    cluster_summary,
    cost_text,
    describe_pods,
    findings_summary,
    headline,
    image_rows,
    images_summary,
    instance_notes,
    left_over,
    listed_changes,
    mirror_lines,
    money,
    named,
    nearest,
    open_value_texts,
    other_changes,
    printable,
    review_summary,
    would_do,
)

_FORMATTING = regex(r"[\\`*_\[\]<>|~&$]")
_MENTION = regex(r"(@|#|GH-)(?=\w)")
_LONGEST = 300
# A comment holds 65,536 characters.
MOST_FINDINGS = 60
# Rows of findings, so that a comment stays below what it may hold.
MOST = {"new": 40, "fixed": 15, "standing": 15}
_MOST_POOLS = 30
_MOST_DETAILS = 12
# So that a comment stays below what it may hold.
_MOST_WORKLOADS = 40
_MOST_EXPLAINED = 8
_MOST_REASONS = 6
_MOST_USES = 30
_MOST_PODS = 3
_MOST_VALUES = 20
_GRAVE = ("no", "unknown", "yes")
SIGNS = {"pass": "✅", "fail": "❌", "unknown": "❔", "yes": "✅", "no": "❌"}


def escape_markdown(text: object) -> str:
    """Return a text that shows as it is written."""
    line = printable(text)
    line = line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
    # An invisible word joiner parts the sign from the name that it would mention.
    parted = _MENTION.sub("\\1\N{WORD JOINER}", line)
    return _FORMATTING.sub(lambda found: f"&#{ord(found.group())};", parted)


def code(text: object) -> str:
    """Return a name as code."""
    escaped = _FORMATTING.sub(lambda found: f"&#{ord(found.group())};", printable(text)[:_LONGEST])
    return f"<code>{escaped}</code>"


def cut(parts: Sequence[str], most: int) -> str:
    """Return the first parts, and how many are left out."""
    left = len(parts) - most
    return ", ".join(parts[:most]) + (f" and {left} more" if left > 0 else "")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown already."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def details(summary: str, content: str) -> str:
    """Return content that is folded in."""
    return f"<details><summary>{summary}</summary>\n\n{content}\n\n</details>"


def findings_table(findings: Sequence[View], *, most: int = MOST_FINDINGS) -> str:
    """Return findings as a table of at most so many rows."""
    ordered = [each for group in alike(findings) for each in group]
    rows = [_finding(each) for each in ordered[:most]]
    listed = table(("Rule", "What", "Where", "Fix"), rows)
    left = len(ordered) - len(rows)
    return f"{listed}\n\nAnd {left} more; `gpu-constructs check` lists them all." if left else listed


def _finding(finding: View) -> tuple[str, ...]:
    source = finding["source"]
    rule = f"[{finding['id']}]({source})" if re.fullmatch(r"https://[\w./#?=&%~:+-]+", source) else finding["id"]
    unsure = f" ({MAY_BE})" if finding["unknown"] else ""
    fix = escape_markdown(finding["fix"])
    if finding["acknowledged"] is not None:
        fix = f"accepted: {escape_markdown(finding['acknowledged'])}"
    return (
        f"{rule} {finding['severity']}",
        escape_markdown(finding["message"]) + unsure,
        code(finding["origin"]["path"]),
        fix,
    )


def parts(view: View) -> Iterator[str]:
    """Yield everything of a review but its findings."""
    yield escape_markdown(review_summary(view))
    for each in view["controlPlanes"]:
        yield f"⚠️ **Cluster {each['change']}:** {code(each['cluster'])}, {escape_markdown(each['detail'])}"
    yield from _pools(view)
    yield from _changes(view)
    yield table(("At most", "Before", "After", "Change"), _ceiling(view))
    yield from (f"_{escape_markdown(each)}_" for each in ceiling_notes(view["ceiling"]["after"]))
    yield from _workloads(view)
    yield from _versions(view)
    yield f"New: {findings_summary(view['new'])}. Fixed: {findings_summary(view['fixed'])}."


def _ceiling(view: View) -> list[tuple[str, ...]]:
    return [
        (escape_markdown(name), before, after, change) for name, before, after, change in ceiling_rows(view["ceiling"])
    ]


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
        rows = [(each["change"], code(each["what"]), escape_markdown(each["detail"])) for each in listed[:_MOST_POOLS]]
        left = f"\n\nAnd {len(listed) - _MOST_POOLS} more." if len(listed) > _MOST_POOLS else ""
        yield f"#### Resources and objects ({len(listed)})"
        yield table(("Change", "What", "Detail"), rows) + left
    if others := other_changes(view):
        yield escape_markdown(others)


def _pool(pool: View) -> tuple[str, ...]:
    shown = [escape_markdown(each) for each in pool["details"][:_MOST_DETAILS]]
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
                escape_markdown(each["reason"] or ""),
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
            (escape_markdown(each["what"]), code(each["before"] or "-"), code(each["after"] or "-"))
            for each in view["versions"][:_MOST_POOLS]
        ]
        yield details(f"Versions ({len(view['versions'])})", table(("", "Before", "After"), rows))


def render(view: View) -> str:
    """Return a view as Markdown."""
    return "\n\n".join(_PARTS[view["command"]](view)) + "\n"


def _headline(view: View) -> str:
    return f"### {SIGNS[view['outcome']]} {headline(view)}"


def _check(view: View) -> Iterator[str]:
    yield _headline(view)
    yield f"{findings_summary(view['findings'])} in {cluster_summary(view['clusters'])}."
    open_ones = [each for each in view["findings"] if each["acknowledged"] is None]
    grave = [each for each in open_ones if each["severity"] == "error"]
    rest = [each for each in open_ones if each["severity"] != "error"]
    accepted = [each for each in view["findings"] if each["acknowledged"] is not None]
    if grave:
        yield findings_table(grave)
    for title, listed in (("Warnings and notes", rest), ("Acknowledged", accepted)):
        if listed:
            yield details(f"{title} ({len(listed)})", findings_table(listed))
    yield from _unread(view)
    if texts := [(escape_markdown(each),) for each in open_value_texts(view)]:
        yield details(f"Values that only deployment sets ({len(texts)})", table(("Value",), texts[:_MOST_VALUES]))
    yield from (f"Not judged: {escape_markdown(each)}" for each in view["unasked"])


def _unread(view: View) -> Iterator[str]:
    if view["unread"]:
        rows = [(code(each["origin"]["path"]), escape_markdown(each["reason"])) for each in view["unread"]]
        yield details(f"Not readable before deployment ({len(rows)})", table(("Where", "Why"), rows))


def _explain(view: View) -> Iterator[str]:
    yield _headline(view)
    yield f"{answers_summary(view)} in {cluster_summary(view['clusters'])}."
    for cluster in view["clusters"]:
        yield f"#### Cluster {code(cluster['name'])}"
        workloads = sorted(cluster["workloads"], key=lambda each: _GRAVE.index(each["answer"]))
        most = _MOST_REASONS if len(workloads) <= _MOST_EXPLAINED else 1
        rows = [_workload(each, most) for each in workloads[:_MOST_WORKLOADS]]
        yield table(("", "Workload", "Pool", "Why"), rows) if rows else "No workload to judge."
        if len(workloads) > _MOST_WORKLOADS:
            yield f"And {len(workloads) - _MOST_WORKLOADS} more."
        explained = [each for each in workloads if each["pools"] and each["answer"] != "yes"][:_MOST_EXPLAINED]
        yield from (details(f"Pools for {code(each['name'])}", _verdicts(each)) for each in explained)
        yield from _together(cluster)
    yield from _unread(view)


def _workload(workload: View, most: int) -> tuple[str, ...]:
    taking = [code(each["pool"]) for each in workload["pools"] if each["answer"] == "yes"]
    sign = f"{SIGNS[workload['answer']]} {escape_markdown(answer_text(workload))}"
    reasons = [] if workload["answer"] == "yes" else [escape_markdown(each) for each in nearest(workload)[:most]]
    cures = [
        f"Would do: {escape_markdown(text)} {code(how) if how else ''}".rstrip() for text, how in would_do(workload)
    ]
    cost = [escape_markdown(text)] if (text := cost_text(workload)) else []
    why = "<br>".join((*reasons, *cost, *map(escape_markdown, workload["restsOn"]), *cures))
    return (
        sign,
        f"{code(workload['name'])}<br>{escape_markdown(describe_pods(workload))}",
        ", ".join(taking) or "-",
        why,
    )


def _verdicts(workload: View) -> str:
    rows = [
        (
            code(each["pool"]),
            f"{SIGNS[each['answer']]} {ANSWERS[each['answer']]}",
            "-" if each["nodes"] is None else str(each["nodes"]),
            "<br>".join(escape_markdown(reason["text"]) for reason in each["reasons"][:_MOST_REASONS]),
        )
        for each in workload["pools"]
    ]
    return table(("Pool", "Answer", "Nodes needed", "Reasons"), rows)


def _together(cluster: View) -> Iterator[str]:
    rows = [_use(each) for each in cluster["pools"] if each["use"]["nodes"]][:_MOST_USES]
    if rows:
        yield "All of them together:"
        yield table(("Pool", "Nodes", "Most", "GPUs", "Pods"), rows)
    waiting, without = left_over(cluster)
    if waiting:
        yield f"Until others end without a node: {_left(waiting)}"
    if without:
        yield f"{SIGNS['no']} Without a node: {_left(without)}"


def _left(left: Iterable[View]) -> str:
    return cut([f"{each['replicas']} of {code(each['workload'])}" for each in left], _MOST_USES)


def _use(pool: View) -> tuple[str, ...]:
    most = "no bound" if pool["maxNodes"] is None else str(pool["maxNodes"])
    pods = cut([f"{each['count']} x {code(each['workload'])}" for each in pool["use"]["pods"]], _MOST_PODS)
    return code(pool["name"]), str(pool["use"]["nodes"]), most, str(pool["use"]["gpus"]), pods


def _review(view: View) -> Iterator[str]:
    yield _headline(view)
    yield from parts(view)
    shown = (
        ("New findings", "new", True),
        ("Fixed findings", "fixed", False),
        ("Standing findings", "standing", False),
    )
    for title, key, unfolded in shown:
        if view[key]:
            heading, listed = f"{title} ({len(view[key])})", findings_table(view[key], most=MOST[key])
            yield f"#### {heading}\n\n{listed}" if unfolded else details(heading, listed)


def _instances(view: View) -> Iterator[str]:
    columns = ("Type", "GPUs", "Model", "GiB per GPU", "vCPUs", "GiB", "EFA", "MIG", "NVMe GB", "USD/h", "USD/GPU/h")
    yield table(columns, [_instance(each) for each in view["instanceTypes"]])
    yield PRICES
    for each in instance_notes(view):
        yield escape_markdown(each)


def _instance(row: View) -> tuple[str, ...]:
    sizes = ("-" if row[key] is None else f"{row[key]:g}" for key in ("gpuMemoryGib", "vcpus", "memoryGib"))
    extras = str(row["efaInterfaces"]), "yes" if row["mig"] else "-", str(row["nvmeGb"])
    prices = money(row["usdPerHour"]), money(row["usdPerGpuHour"])
    return code(named(row)), str(row["gpus"]), escape_markdown(row["gpuModel"]), *sizes, *extras, *prices


def _images(view: View) -> Iterator[str]:
    yield f"### {escape_markdown(images_summary(view))}"
    for cluster in view["clusters"]:
        yield f"#### Cluster {escape_markdown(cluster['name'])}"
        for columns, rows in (
            image_rows(cluster, mirrored=bool(view["mirror"])),
            chart_rows(cluster, mirrored=bool(view["mirror"])),
        ):
            if rows:
                shown = table(columns, [[escape_markdown(cell) for cell in row] for row in rows[:MOST_FINDINGS]])
                left = len(rows) - MOST_FINDINGS
                yield f"{shown}\n\nAnd {left} more; `gpu-constructs images` lists them all." if left > 0 else shown
        yield from (escape_markdown(each) for each in addon_lines(cluster))
        missing = [
            f"* {escape_markdown(each['what'])}: {escape_markdown(each['reason'])}"
            for each in cluster["notKnown"][:MOST_FINDINGS]
        ]
        if missing:
            yield "**Not known**\n\n" + "\n".join(missing)
    yield from (escape_markdown(each) for each in mirror_lines(view))


def _rules(view: View) -> Iterator[str]:
    for each in view["rules"] if len(view["rules"]) == 1 else ():
        yield f"### {each['id']} ({each['severity']}): {escape_markdown(each['title'])}"
        yield from (f"**{name.capitalize()}:** {escape_markdown(each[name])}" for name in ("why", "fix", "source"))
        yield f"**Place:** {code(each['place'])}"
    if len(view["rules"]) > 1:
        yield table(
            ("Rule", "Severity", "Title"),
            [(r["id"], r["severity"], escape_markdown(r["title"])) for r in view["rules"]],
        )


_PARTS: dict[str, Callable[[View], Iterator[str]]] = {
    "check": _check,
    "explain": _explain,
    "review": _review,
    "instances": _instances,
    "images": _images,
    "rules": _rules,
}
