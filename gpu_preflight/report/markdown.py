"""A view as GitHub Markdown, fit for a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpu_facts.light import regex
from gpu_preflight.model.answer import Answer
from gpu_preflight.report.wording import (
    ANSWERS,
    MAY_BE,
    PRICES,
    RESULTS,
    acceptance_text,
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
    outcome_style,
    printable,
    review_summary,
    skipped_text,
    would_do,
)

if TYPE_CHECKING:
    from gpu_preflight.judging.review import PoolChange
    from gpu_preflight.report.cluster_view import ClusterView, LeftReplicas, PoolView, WorkloadView
    from gpu_preflight.report.finding_view import FindingView, View
    from gpu_preflight.report.images_view import ImagesView
    from gpu_preflight.report.instances_view import InstancesView, InstanceTypeView
    from gpu_preflight.report.review_view import ReviewView
    from gpu_preflight.report.view import CheckView, ExplainView, RulesView
    from gpu_preflight.scheduling.verdict import Result

_FORMATTING = regex(r"[\\`*_\[\]<>|~&$]")
_MENTION = regex(r"(@|#|GH-)(?=\w)")
_LONGEST = 300
_LONGEST_POSITION = 100
# A comment holds 65,536 characters.
MOST_FINDINGS = 60
# Rows of findings, so that a comment stays below what it may hold.
MOST = {"new": 40, "fixed": 10, "standing": 15}
_MOST_POOLS = 30
_MOST_DETAILS = 12
# So that a comment stays below what it may hold.
_MOST_WORKLOADS = 40
_MOST_EXPLAINED = 8
_MOST_REASONS = 6
_MOST_USES = 30
_MOST_PODS = 3
_MOST_VALUES = 20
_GRAVE = (Answer.NO, Answer.UNKNOWN, Answer.YES)
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


def findings_table(findings: Sequence[FindingView], *, most: int = MOST_FINDINGS) -> str:
    """Return findings as a table of at most so many rows."""
    ordered = [each for group in alike(findings) for each in group]
    rows = [_finding(each) for each in ordered[:most]]
    listed = table(("Rule", "What", "Where", "Fix"), rows)
    left = len(ordered) - len(rows)
    return f"{listed}\n\nAnd {left} more; `gpu-constructs check` lists them all." if left else listed


def _finding(finding: FindingView) -> tuple[str, ...]:
    source = finding.source
    rule = f"[{finding.id}]({source})" if re.fullmatch(r"https://[\w./#?=&%~:+-]+", source) else finding.id
    unsure = f" ({MAY_BE})" if finding.unknown else ""
    fix = escape_markdown(finding.fix)
    if finding.acknowledged is not None:
        fix = f"accepted: {escape_markdown(acceptance_text(finding))}"
    position = finding.origin.position
    return (
        f"{rule} {finding.severity}",
        escape_markdown(finding.message) + unsure,
        code(finding.origin.path) + (f"<br>{code(str(position)[-_LONGEST_POSITION:])}" if position else ""),
        fix,
    )


def parts(view: ReviewView) -> Iterator[str]:
    """Yield everything of a review but its findings."""
    yield escape_markdown(review_summary(view))
    for each in view.control_planes:
        yield f"⚠️ **Cluster {each.change}:** {code(each.cluster)}, {escape_markdown(each.detail)}"
    yield from _pools(view)
    yield from _changes(view)
    yield table(("At most", "Before", "After", "Change"), _ceiling(view))
    yield from (f"_{escape_markdown(each)}_" for each in ceiling_notes(view.ceiling.after))
    yield from _workloads(view)
    yield from _versions(view)
    yield f"New: {findings_summary(view.new)}. Fixed: {findings_summary(view.fixed)}."


def _ceiling(view: ReviewView) -> list[tuple[str, ...]]:
    return [
        (escape_markdown(name), before, after, change) for name, before, after, change in ceiling_rows(view.ceiling)
    ]


def _pools(view: ReviewView) -> Iterator[str]:
    listed = view.pools
    replaced = [each for each in listed if each.change == "replaced"]
    if replaced:
        names = ", ".join(f"{code(each.name)} of {code(each.cluster)}" for each in replaced)
        yield f"⚠️ **Replaced, so every node is drained:** {names}"
    if listed:
        rows = [_pool(each) for each in listed[:_MOST_POOLS]]
        left = f"\n\nAnd {len(listed) - _MOST_POOLS} more." if len(listed) > _MOST_POOLS else ""
        yield details(f"Pools that change ({len(listed)})", table(("Pool", "Change", "What"), rows) + left)


def _changes(view: ReviewView) -> Iterator[str]:
    listed = listed_changes(view)
    if listed:
        rows = [(each.change, code(each.what), escape_markdown(each.detail)) for each in listed[:_MOST_POOLS]]
        left = f"\n\nAnd {len(listed) - _MOST_POOLS} more." if len(listed) > _MOST_POOLS else ""
        yield f"#### Resources and objects ({len(listed)})"
        yield table(("Change", "What", "Detail"), rows) + left
    if others := other_changes(view):
        yield escape_markdown(others)


def _pool(pool: PoolChange) -> tuple[str, ...]:
    shown = [escape_markdown(each) for each in pool.details[:_MOST_DETAILS]]
    left = len(pool.details) - len(shown)
    what = "<br>".join(shown) + (f"<br>and {left} more" if left else "")
    return f"{code(pool.name)}<br>{pool.kind}", pool.change, what


def _workloads(view: ReviewView) -> Iterator[str]:
    if view.workloads:
        rows = [
            (
                code(each.name),
                _result(each.before_result),
                _result(each.after_result),
                escape_markdown(each.reason or ""),
            )
            for each in view.workloads[:_MOST_POOLS]
        ]
        yield f"#### Workloads whose verdict changes ({len(view.workloads)})"
        yield table(("Workload", "Before", "After", "Nearest reason"), rows)


def _result(result: Result | None) -> str:
    return RESULTS[result] if result else "-"


def _versions(view: ReviewView) -> Iterator[str]:
    if view.versions:
        rows = [
            (escape_markdown(each.what), code(each.before or "-"), code(each.after or "-"))
            for each in view.versions[:_MOST_POOLS]
        ]
        yield details(f"Versions ({len(view.versions)})", table(("", "Before", "After"), rows))


def render(view: View) -> str:
    """Return a view as Markdown."""
    return "\n\n".join(_PARTS[view.command](view)) + "\n"


def _headline(view: CheckView | ExplainView | ReviewView) -> str:
    return f"### {SIGNS[outcome_style(view)]} {headline(view)}"


def _check(view: CheckView) -> Iterator[str]:
    yield _headline(view)
    yield f"{findings_summary(view.findings)} in {cluster_summary(view.clusters)}."
    open_ones = [each for each in view.findings if each.acknowledged is None]
    grave = [each for each in open_ones if each.severity == "error"]
    rest = [each for each in open_ones if each.severity != "error"]
    accepted = [each for each in view.findings if each.acknowledged is not None]
    if grave:
        yield findings_table(grave)
    for title, listed in (("Warnings and notes", rest), ("Acknowledged", accepted)):
        if listed:
            yield details(f"{title} ({len(listed)})", findings_table(listed))
    yield from _unread(view)
    if texts := [(escape_markdown(each),) for each in open_value_texts(view)]:
        yield details(f"Values that only deployment sets ({len(texts)})", table(("Value",), texts[:_MOST_VALUES]))
    yield from (f"Not judged: {escape_markdown(each)}" for each in view.unasked)
    if skipped := skipped_text(view):
        yield f"Skipped: {escape_markdown(skipped)}"


def _unread(view: CheckView | ExplainView) -> Iterator[str]:
    if view.unread:
        rows = [(code(each.origin.path), escape_markdown(each.reason)) for each in view.unread]
        yield details(f"Not readable before deployment ({len(rows)})", table(("Where", "Why"), rows))


def _explain(view: ExplainView) -> Iterator[str]:
    yield _headline(view)
    yield f"{answers_summary(view)} in {cluster_summary(view.clusters)}."
    for cluster in view.clusters:
        yield f"#### Cluster {code(cluster.name)}"
        workloads = sorted(cluster.workloads, key=lambda each: _GRAVE.index(each.answer))
        most = _MOST_REASONS if len(workloads) <= _MOST_EXPLAINED else 1
        rows = [_workload(each, most) for each in workloads[:_MOST_WORKLOADS]]
        yield table(("", "Workload", "Pool", "Why"), rows) if rows else "No workload to judge."
        if len(workloads) > _MOST_WORKLOADS:
            yield f"And {len(workloads) - _MOST_WORKLOADS} more."
        explained = [each for each in workloads if each.pools and each.answer is not Answer.YES][:_MOST_EXPLAINED]
        yield from (details(f"Pools for {code(each.name)}", _verdicts(each)) for each in explained)
        yield from _together(cluster)
    yield from _unread(view)


def _workload(workload: WorkloadView, most: int) -> tuple[str, ...]:
    taking = [code(each.pool) for each in workload.pools if each.answer is Answer.YES]
    sign = f"{SIGNS[workload.answer.value]} {escape_markdown(answer_text(workload))}"
    reasons = [] if workload.answer is Answer.YES else [escape_markdown(each) for each in nearest(workload)[:most]]
    cures = [
        f"Would do: {escape_markdown(text)} {code(how) if how else ''}".rstrip() for text, how in would_do(workload)
    ]
    cost = [escape_markdown(text)] if (text := cost_text(workload)) else []
    why = "<br>".join((*reasons, *cost, *map(escape_markdown, workload.rests_on), *cures))
    return (
        sign,
        f"{code(workload.name)}<br>{escape_markdown(describe_pods(workload))}",
        ", ".join(taking) or "-",
        why,
    )


def _verdicts(workload: WorkloadView) -> str:
    rows = [
        (
            code(each.pool),
            f"{SIGNS[each.answer.value]} {ANSWERS[each.answer]}",
            "-" if each.nodes is None else str(each.nodes),
            "<br>".join(escape_markdown(reason.text) for reason in each.reasons[:_MOST_REASONS]),
        )
        for each in workload.pools
    ]
    return table(("Pool", "Answer", "Nodes needed", "Reasons"), rows)


def _together(cluster: ClusterView) -> Iterator[str]:
    rows = [_use(each) for each in cluster.pools if each.use.nodes][:_MOST_USES]
    if rows:
        yield "All of them together:"
        yield table(("Pool", "Nodes", "Most", "GPUs", "Pods"), rows)
    waiting, without = left_over(cluster)
    if waiting:
        yield f"Until others end without a node: {_left(waiting)}"
    if without:
        yield f"{SIGNS['no']} Without a node: {_left(without)}"


def _left(left: Iterable[LeftReplicas]) -> str:
    return cut([f"{each.replicas} of {code(each.workload)}" for each in left], _MOST_USES)


def _use(pool: PoolView) -> tuple[str, ...]:
    most = "no bound" if pool.max_nodes is None else str(pool.max_nodes)
    pods = cut([f"{each.count} x {code(each.workload)}" for each in pool.use.pods], _MOST_PODS)
    return code(pool.name), str(pool.use.nodes), most, str(pool.use.gpus), pods


def _review(view: ReviewView) -> Iterator[str]:
    yield _headline(view)
    yield from parts(view)
    for key, findings in (("new", view.new), ("fixed", view.fixed), ("standing", view.standing)):
        if findings:
            title = f"{key.capitalize()} findings ({len(findings)})"
            listed = findings_table(findings, most=MOST[key])
            yield f"#### {title}\n\n{listed}" if key == "new" else details(title, listed)


def _instances(view: InstancesView) -> Iterator[str]:
    columns = ("Type", "GPUs", "Model", "GiB per GPU", "vCPUs", "GiB", "EFA", "MIG", "NVMe GB", "USD/h", "USD/GPU/h")
    yield table(columns, [_instance(each) for each in view.instance_types])
    yield PRICES
    for each in instance_notes(view):
        yield escape_markdown(each)


def _instance(row: InstanceTypeView) -> tuple[str, ...]:
    sizes = ("-" if each is None else f"{each:g}" for each in (row.gpu_memory_gib, row.vcpus, row.memory_gib))
    extras = str(row.efa_interfaces), "yes" if row.mig else "-", str(row.nvme_gb)
    prices = money(row.usd_per_hour), money(row.usd_per_gpu_hour)
    return code(named(row)), str(row.gpus), escape_markdown(row.gpu_model), *sizes, *extras, *prices


def _images(view: ImagesView) -> Iterator[str]:
    yield f"### {escape_markdown(images_summary(view))}"
    for cluster in view.clusters:
        yield f"#### Cluster {escape_markdown(cluster.name)}"
        for columns, rows in (
            image_rows(cluster, mirrored=bool(view.mirror)),
            chart_rows(cluster, mirrored=bool(view.mirror)),
        ):
            if rows:
                shown = table(columns, [[escape_markdown(cell) for cell in row] for row in rows[:MOST_FINDINGS]])
                left = len(rows) - MOST_FINDINGS
                yield f"{shown}\n\nAnd {left} more; `gpu-constructs images` lists them all." if left > 0 else shown
        yield from (escape_markdown(each) for each in addon_lines(cluster))
        missing = [
            f"* {escape_markdown(each.what)}: {escape_markdown(each.reason)}"
            for each in cluster.not_known[:MOST_FINDINGS]
        ]
        if missing:
            yield "**Not known**\n\n" + "\n".join(missing)
    yield from (escape_markdown(each) for each in mirror_lines(view))


def _rules(view: RulesView) -> Iterator[str]:
    for each in view.rules if len(view.rules) == 1 else ():
        yield f"### {each.id} ({each.severity}): {escape_markdown(each.title)}"
        told = {"Why": each.why, "Fix": each.fix, "Source": each.source}
        yield from (f"**{name}:** {escape_markdown(text)}" for name, text in told.items())
        yield f"**Place:** {code(each.place)}"
    if len(view.rules) > 1:
        yield table(
            ("Rule", "Severity", "Title"),
            [(r.id, r.severity, escape_markdown(r.title)) for r in view.rules],
        )


_PARTS: dict[str, Callable[..., Iterator[str]]] = {
    "check": _check,
    "explain": _explain,
    "review": _review,
    "instances": _instances,
    "images": _images,
    "rules": _rules,
}
