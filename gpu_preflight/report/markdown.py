"""A view as GitHub Markdown, for a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpu_facts.light import regex
from gpu_preflight.model.answer import Answer
from gpu_preflight.report.review_headline import SEVERE
from gpu_preflight.report.review_wording import (
    cost_notes,
    cost_rows,
    drain_rows,
    pool_class,
    quota_commands,
    restarts,
)
from gpu_preflight.report.wording import (
    ANSWERS,
    PRICES,
    RESULTS,
    RULES_PAGE,
    acceptance_text,
    addon_lines,
    alike,
    answer_text,
    answers_summary,
    chart_rows,
    cluster_summary,
    cost_text,
    count,
    describe_pods,
    findings_summary,
    headline,
    hides_error,
    image_rows,
    images_summary,
    instance_notes,
    left_over,
    mirror_lines,
    money,
    named,
    nearest,
    open_value_texts,
    outcome_style,
    printable,
    skipped_text,
    would_do,
)

if TYPE_CHECKING:
    from gpu_preflight.judging.changes import ResourceChange
    from gpu_preflight.judging.pool_changes import PoolChange
    from gpu_preflight.report.cluster_view import ClusterView, LeftReplicas, PoolView, WorkloadView
    from gpu_preflight.report.doctor_view import DoctorView
    from gpu_preflight.report.finding_view import FindingView, View
    from gpu_preflight.report.images_view import ImagesView
    from gpu_preflight.report.instances_view import InstancesView, InstanceTypeView
    from gpu_preflight.report.review_view import ReviewView
    from gpu_preflight.report.view import CheckView, ExplainView, RulesView
    from gpu_preflight.scheduling.verdict import Result

# Characters that change the format and need an escape. The "_" inside a word, the ">" of an arrow, the "$" of an amount
# and the "]" of a list don't. They stay, because an e-mail shows the text without rendering it.
_FORMATTING = regex(
    r"[\\`*<|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|(?<! -)>|\[(?=\^)|\](?=[(\[:])|&(?=#?\w+;)"
    r"|\$(?![\d,.]+(?:[ /)]|$))",
    re.ASCII,
)
# Text that is safe between backticks, also in a table.
_SPAN = regex(r"[\w./:@#=,()+-]+(?: [\w./:@#=,()+-]+)*", re.ASCII)
_MENTION = regex(r"(@|#|GH-)(?=\w)")
_LONGEST = 300
_LONGEST_POSITION = 100
_LONGEST_HEADLINE = 1500
# A comment on GitHub has at most 65,536 characters, and the workflow adds a line.
_MAX_COMMENT = 65_000
MOST_FINDINGS = 60
# Max rows of findings, so that a comment stays below its max size.
MOST = {"new": 40, "fixed": 10, "existing": 15}
_MOST_POOLS = 30
_MOST_CHANGES = 30
_MOST_QUOTAS = 10
_MOST_DETAILS = 12
# These keep a comment below its max size.
_MOST_WORKLOADS = 40
_MOST_EXPLAINED = 8
_MOST_REASONS = 6
_MOST_USES = 30
_MOST_PODS = 3
_MOST_VALUES = 20
_GRAVE = (Answer.NO, Answer.UNKNOWN, Answer.YES)
SIGNS = {"pass": "✅", "fail": "❌", "unknown": "❔", "yes": "✅", "no": "❌"}


def escape_markdown(text: object, *, longest: int = _LONGEST) -> str:
    """Return a text with escapes, so that it shows as it is written. A longer text is cut."""
    line = printable(text)
    line = line if len(line) <= longest else f"{line[:longest]}..."
    # An invisible word joiner separates the sign from a name, so that GitHub doesn't mention anyone.
    parted = _MENTION.sub("\\1\N{WORD JOINER}", line)
    return _FORMATTING.sub(lambda found: f"&#{ord(found.group())};", parted)


def code(text: object) -> str:
    """Return a name as code: between backticks if it needs no escape, which also is readable in an e-mail."""
    if len(str(text)) <= _LONGEST and _SPAN.fullmatch(str(text)):
        return f"`{text}`"
    return code_element(text)


def code_element(text: object) -> str:
    """Return a name as an HTML element, for use inside other elements, where backticks are text."""
    escaped = _FORMATTING.sub(lambda found: f"&#{ord(found.group())};", printable(text)[:_LONGEST])
    return f"<code>{escaped}</code>"


def cut(parts: Sequence[str], most: int) -> str:
    """Return the first parts, and how many are left out."""
    left = len(parts) - most
    return ", ".join(parts[:most]) + (f" and {left} more" if left > 0 else "")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. The cells must be Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def details(summary: str, content: str) -> str:
    """Return content in a collapsed section."""
    return f"<details><summary>{summary}</summary>\n\n{content}\n\n</details>"


def findings_table(findings: Sequence[FindingView], *, most: int = MOST_FINDINGS) -> str:
    """Return findings as a table with a max number of rows."""
    ordered = [each for group in alike(findings) for each in group]
    rows = [_finding(each) for each in ordered[:most]]
    listed = table(("Rule", "What", "Where", "Fix"), rows)
    left = len(ordered) - len(rows)
    return f"{listed}\n\nAnd {left} more; `gpu-constructs check` lists them all." if left else listed


def _finding(finding: FindingView) -> tuple[str, ...]:
    unsure = f" ({escape_markdown(finding.doubt)})" if finding.unknown else ""
    fix = escape_markdown(finding.fix)
    if finding.acknowledged is not None:
        fix = f"accepted: {escape_markdown(acceptance_text(finding))}"
    position = finding.origin.position
    return (
        f"{_rule(finding)} {finding.severity}<br>{escape_markdown(finding.title)}",
        escape_markdown(finding.message) + unsure,
        code(finding.origin.path) + (f"<br>{code(str(position)[-_LONGEST_POSITION:])}" if position else ""),
        fix,
    )


def _rule(finding: FindingView) -> str:
    """Return the id of a rule with a link to its description, or to its source if a plug-in has the rule."""
    is_own = re.fullmatch(r"GPU[0-8]\d\d", finding.id)
    link = f"{RULES_PAGE}#{finding.id.lower()}" if is_own else finding.source
    return f"[{finding.id}]({link})" if re.fullmatch(r"https://[\w./#?=&%~:+-]+", link) else finding.id


def parts(view: ReviewView) -> Iterator[str]:
    """Yield all parts of a review except its headline and its findings."""
    for each in view.control_planes:
        yield f"⚠️ **Cluster {each.change}:** {code(each.cluster)}, {escape_markdown(each.detail)}"
    yield from _drains(view)
    yield from _changes("Rejected, lost or left behind", [each for each in view.changes if each.change in SEVERE])
    yield from _workloads(view)
    yield from _costs(view)
    yield from _quotas(view)


def _costs(view: ReviewView) -> Iterator[str]:
    rows = [tuple(map(escape_markdown, row)) for row in cost_rows(view)]
    listed = table(("", "Before", "After", "Change"), rows)
    # A comment on GitHub keeps the line breaks of a paragraph.
    notes = "\n".join(map(escape_markdown, cost_notes(view)))
    changes = bool(view.limits) or any(row[-1] != "=" for row in rows)
    text = f"{listed}\n\n{notes}".strip()
    title = "Cost, GPUs and quotas"
    yield f"#### {title}\n\n{text}" if changes else details(f"{title} (no change)", text)


def _drains(view: ReviewView) -> Iterator[str]:
    rows = [
        (
            f"{code(each.name)} of {code(each.cluster)}",
            f"**{pool_class(each)}**: {escape_markdown(how)}",
            escape_markdown(pods),
        )
        for each, how, pods in drain_rows(view)
    ]
    restarting = restarts(view)
    if rows or restarting:
        yield "#### Interrupted"
    if rows:
        left = f"\n\nAnd {len(rows) - _MOST_POOLS} more." if len(rows) > _MOST_POOLS else ""
        yield table(("Pool", "Nodes", "GPU workloads on them"), rows[:_MOST_POOLS]) + left
    if restarting:
        yield escape_markdown(restarting)


def _quotas(view: ReviewView) -> Iterator[str]:
    found = list(quota_commands(view))
    if found:
        yield "#### Raise before you merge, unless the quota is at least that high"
        lines = [f"# {printable(text)}\n{printable(command)}" for text, command in found[:_MOST_QUOTAS]]
        left = f"\n# and {len(found) - _MOST_QUOTAS} more" if len(found) > _MOST_QUOTAS else ""
        yield "```sh\n" + "\n".join(lines) + left + "\n```"


def _folded(view: ReviewView) -> Iterator[str]:
    """Yield the collapsed sections."""
    if view.pools:
        rows = [_pool(each) for each in view.pools[:_MOST_POOLS]]
        left = f"\n\nAnd {len(view.pools) - _MOST_POOLS} more." if len(view.pools) > _MOST_POOLS else ""
        yield details(f"Pools that change ({len(view.pools)})", table(("Pool", "Change", "What"), rows) + left)
    for part in _changes("", view.changes):
        yield details(f"Resources and objects that change ({len(view.changes)})", part)
    yield from _versions(view)


def _changes(title: str, changes: Sequence[ResourceChange]) -> Iterator[str]:
    """Yield resources and objects, each with its class in docs/reference/changes.md."""
    if changes:
        rows = [(each.change_class, code(each.what), escape_markdown(each.detail)) for each in changes[:_MOST_CHANGES]]
        left = f"\n\nAnd {len(changes) - _MOST_CHANGES} more." if len(changes) > _MOST_CHANGES else ""
        yield (f"#### {title} ({len(changes)})\n\n" if title else "") + table(("Class", "What", "Detail"), rows) + left


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
        yield f"#### Workloads whose result changes ({len(view.workloads)})"
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


def _headline(view: CheckView | ExplainView | DoctorView) -> str:
    return f"### {SIGNS[outcome_style(view)]} {escape_markdown(headline(view), longest=_LONGEST_HEADLINE)}"


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
    yield from (f"Not checked: {escape_markdown(each)}" for each in view.unasked)
    yield from _skipped(view)


def _skipped(view: CheckView | ReviewView) -> Iterator[str]:
    if skipped := skipped_text(view):
        yield f"Skipped: {escape_markdown(skipped)}"


def _unread(view: CheckView | ExplainView | ReviewView) -> Iterator[str]:
    if view.unread:
        rows = [(code(each.origin.path), escape_markdown(each.reason)) for each in view.unread[:MOST_FINDINGS]]
        left = len(view.unread) - len(rows)
        listed = table(("Where", "Why"), rows) + (f"\n\nAnd {left} more." if left else "")
        yield details(f"Not readable before deployment ({len(view.unread)})", listed)


def _explain(view: ExplainView) -> Iterator[str]:
    yield _headline(view)
    yield f"{answers_summary(view)} in {cluster_summary(view.clusters)}."
    for cluster in view.clusters:
        yield f"#### Cluster {code(cluster.name)}"
        workloads = sorted(cluster.workloads, key=lambda each: _GRAVE.index(each.answer))
        most = _MOST_REASONS if len(workloads) <= _MOST_EXPLAINED else 1
        rows = [_workload(each, most) for each in workloads[:_MOST_WORKLOADS]]
        yield table(("", "Workload", "Pool", "Why"), rows) if rows else "No workload to check."
        if len(workloads) > _MOST_WORKLOADS:
            yield f"And {len(workloads) - _MOST_WORKLOADS} more."
        explained = [each for each in workloads if each.pools and each.answer is not Answer.YES][:_MOST_EXPLAINED]
        yield from (details(f"Pools for {code_element(each.name)}", _verdicts(each)) for each in explained)
        yield from _together(cluster)
    yield from _unread(view)


def _workload(workload: WorkloadView, most: int) -> tuple[str, ...]:
    taking = [code(each.pool) for each in workload.pools if each.answer is Answer.YES]
    sign = f"{SIGNS[workload.answer.value]} {escape_markdown(answer_text(workload))}"
    reasons = [] if workload.answer is Answer.YES else [escape_markdown(each) for each in nearest(workload)[:most]]
    cures = [
        f"Suggested fix: {escape_markdown(text)} {code(how) if how else ''}".rstrip()
        for text, how in would_do(workload)
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
        yield "All workloads together:"
        yield table(("Pool", "Nodes", "Max", "GPUs", "Pods"), rows)
    waiting, without = left_over(cluster)
    if waiting:
        yield f"Without a node until other workloads end: {_left(waiting)}"
    if without:
        yield f"{SIGNS['no']} Without a node: {_left(without)}"


def _left(left: Iterable[LeftReplicas]) -> str:
    return cut([f"{each.replicas} of {code(each.workload)}" for each in left], _MOST_USES)


def _use(pool: PoolView) -> tuple[str, ...]:
    most = "no known max" if pool.max_nodes is None else str(pool.max_nodes)
    pods = cut([f"{each.count} x {code(each.workload)}" for each in pool.use.pods], _MOST_PODS)
    return code(pool.name), str(pool.use.nodes), most, str(pool.use.gpus), pods


def _review(view: ReviewView) -> Iterator[str]:
    """Yield a review. If a comment has no room for all parts, the last ones are left out."""
    room, left = _MAX_COMMENT, 0
    for part in _review_parts(view):
        fits = len(part) + 2 <= room
        left += not fits
        room -= len(part) + 2 if fits else 0
        if fits:
            yield part
    if left:
        yield f"Left out to fit into a comment: {count(left, 'part')}. `gpu-constructs review` lists all."


def _review_parts(view: ReviewView) -> Iterator[str]:
    attention = view.needs_attention or hides_error(view)
    sign = SIGNS["fail"] if view.outcome == "fail" else "⚠️" if attention else SIGNS["pass"]
    yield f"### {sign} {escape_markdown(headline(view), longest=_LONGEST_HEADLINE)}"
    yield from parts(view)
    yield from _unread(view)
    if view.new:
        yield f"#### New findings ({len(view.new)})\n\n{findings_table(view.new, most=MOST['new'])}"
    yield from _folded(view)
    for title, findings in (("Fixed", view.fixed), ("Existing", view.standing)):
        if findings:
            listed = findings_table(findings, most=MOST[title.lower()])
            yield details(f"{title} findings ({len(findings)})", listed)
    yield from _skipped(view)


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
            yield "**Unknown**\n\n" + "\n".join(missing)
    yield from (escape_markdown(each) for each in mirror_lines(view))


def _rules(view: RulesView) -> Iterator[str]:
    for each in view.rules if len(view.rules) == 1 else ():
        yield f"### {each.id} ({each.severity}): {escape_markdown(each.title)}"
        advice = {"Why": each.why, "Fix": each.fix, "Source": each.source}
        yield from (f"**{name}:** {escape_markdown(text)}" for name, text in advice.items())
        yield f"**Place:** {code(each.place)}"
    if len(view.rules) > 1:
        yield table(
            ("Rule", "Severity", "Title"),
            [(r.id, r.severity, escape_markdown(r.title)) for r in view.rules],
        )


def _doctor(view: DoctorView) -> Iterator[str]:
    from gpu_preflight.report.doctor_wording import (
        NODES,
        difference_rows,
        node_rows,
        nodes_title,
        not_compared_texts,
        not_looked_text,
        plan_headline,
        rows,
    )

    yield _headline(view)
    for each in view.diagnoses:
        if len(view.diagnoses) > 1:
            yield f"#### {escape_markdown(each.headline, longest=_LONGEST_HEADLINE)}"
        if cells := _doctor_cells(rows(each, view.at)):
            yield table(("", ""), cells)
    if headline := plan_headline(view):
        yield f"### {headline}"
    for one in view.differences:
        yield f"#### {escape_markdown(one.message, longest=_LONGEST_HEADLINE)}"
        yield table(("", ""), _doctor_cells(difference_rows(one, view.at)))
    if view.not_compared:
        skipped = [(escape_markdown(each),) for each in not_compared_texts(view)]
        yield details(f"Not compared ({len(skipped)})", table(("What",), skipped))
    if view.nodes:
        yield details(
            f"{escape_markdown(nodes_title(view))} ({len(view.nodes)})", table(NODES, _escaped(node_rows(view)))
        )
    if view.not_looked:
        listed = [(escape_markdown(not_looked_text(each)),) for each in view.not_looked]
        yield details(f"Not looked at ({len(listed)})", table(("What",), listed))


def _doctor_cells(rows: Iterable[tuple[str, str, str]]) -> list[tuple[str, str]]:
    return [(label, code(text) if style == "command" else escape_markdown(text)) for label, text, style in rows]


def _escaped(rows: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    return [tuple(map(escape_markdown, row)) for row in rows]


_PARTS: dict[str, Callable[..., Iterator[str]]] = {
    "check": _check,
    "explain": _explain,
    "review": _review,
    "instances": _instances,
    "images": _images,
    "rules": _rules,
    "doctor": _doctor,
}
