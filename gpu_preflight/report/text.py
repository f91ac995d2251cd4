"""A view as text: for a terminal with colors, or plain with a fixed width."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpu_preflight.report import plain_text
from gpu_preflight.report.plain_text import Listing, Part, Text, command, findings_alike, heading, line, lines, table
from gpu_preflight.report.review_wording import (
    cost_notes,
    cost_rows,
    drain_rows,
    listed_changes,
    other_changes,
    pool_class,
    quota_commands,
    restarts,
)
from gpu_preflight.report.wording import (
    ANSWERS,
    HEADINGS,
    PRICES,
    RESULTS,
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
    image_rows,
    images_summary,
    instance_notes,
    left_over,
    listed,
    mirror_lines,
    money,
    named,
    open_value_texts,
    outcome_style,
    skipped_text,
    workloads_alike,
    would_do,
)
from gpu_preflight.rule import POSSIBLE, SEVERITIES

if TYPE_CHECKING:
    from gpu_preflight.judging.review import Fate
    from gpu_preflight.model.answer import Reason
    from gpu_preflight.report.cluster_view import ClusterView, PoolVerdictView, PoolView, WorkloadView
    from gpu_preflight.report.doctor_view import DoctorView
    from gpu_preflight.report.finding_view import FindingView, View
    from gpu_preflight.report.images_view import ImagesView
    from gpu_preflight.report.instances_view import InstancesView, InstanceTypeView
    from gpu_preflight.report.review_view import ReviewView
    from gpu_preflight.report.view import CheckView, ExplainView, RulesView

_COST = ("", "Before", "After", "Change")
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
PLAIN_WIDTH = 110
# Nodes for all pods, even above the pool's max. It has two lines to leave more width for the last column.
_NEEDED = "Nodes\nneeded"
# Max number of listed values that only the deployment sets.
_VALUES = 10


def parts(view: ReviewView) -> Iterator[Part]:
    """Yield all parts of a review except its headline and its findings."""
    yield from _control_planes(view)
    yield from _drains(view)
    yield from _workloads(view)
    yield heading("All GPU pools together")
    yield table(_COST, list(cost_rows(view)), right=_COST[1:])
    yield from (line(each, "dim") for each in cost_notes(view))
    yield from _quotas(view)
    yield from _pools(view)
    yield from _changes(view)
    yield from _versions(view)


def _control_planes(view: ReviewView) -> Iterator[Part]:
    for each in view.control_planes:
        yield heading(f"{each.change}: cluster {each.cluster}", _STYLES[each.change])
        yield line(f"  {each.detail}")


def _drains(view: ReviewView) -> Iterator[Part]:
    rows = [(f"{each.name} of {each.cluster}", pool_class(each), how, pods) for each, how, pods in drain_rows(view)]
    restarting = restarts(view)
    if rows or restarting:
        yield heading("Interrupted", "no" if rows else "unknown")
    if rows:
        yield table(("Pool", "Change", "Nodes", "GPU workloads on them"), rows)
    if restarting:
        yield line(restarting)


def _quotas(view: ReviewView) -> Iterator[Part]:
    if view.quotas:
        yield heading("Raise before the deployment, unless the quota is at least that high")
    for text, how in quota_commands(view):
        yield line(text)
        yield command(how)


def _pools(view: ReviewView) -> Iterator[Part]:
    for each in view.pools:
        yield heading(f"{each.change}: pool {each.name} of {each.cluster}", _STYLES[each.change])
        yield from (line(f"  {detail}") for detail in each.details)


def _changes(view: ReviewView) -> Iterator[Part]:
    """Yield each change that isn't only in place, then the number of other changes by class."""
    if listed := listed_changes(view):
        yield heading("Resources and objects")
        yield table(("Class", "What", "Detail"), [(each.change_class, each.what, each.detail) for each in listed])
    if others := other_changes(view):
        yield line(others, "dim")


def _versions(view: ReviewView) -> Iterator[Part]:
    if view.versions:
        yield heading("Versions")
        rows = [(each.what, each.before or "-", each.after or "-") for each in view.versions]
        yield table(("", "Before", "After"), rows)


def _workloads(view: ReviewView) -> Iterator[Part]:
    if view.workloads:
        yield heading("Workloads whose result changes")
        rows = [(each.name, *_results(each), each.reason or "") for each in view.workloads]
        yield table(("Workload", "Before", "After", "Nearest reason"), rows)


def _results(workload: Fate) -> Iterator[Text]:
    for answer, result in ((workload.before, workload.before_result), (workload.after, workload.after_result)):
        yield line(RESULTS[result], answer.value) if answer and result else line("-")


def render(view: View, *, width: int = PLAIN_WIDTH, colour: bool = False) -> str:
    """Return a view as text.

    Args:
        view: The view.
        width: Max characters of a line.
        colour: Whether to add color codes for terminals.
    """
    parts = list(_PARTS[view.command](view))
    written = None if colour else plain_text.write(parts, width)
    if written is None:
        from gpu_preflight.report import styled_text

        written = styled_text.write(parts, width, colour=colour)
    return "\n".join(each.rstrip() for each in written.strip("\n").split("\n")) + "\n"


def _check(view: CheckView) -> Iterator[Part]:
    open_ones = [each for each in view.findings if each.acknowledged is None]
    for severity in SEVERITIES:
        found = [each for each in open_ones if each.severity == severity]
        if severity == "error":
            yield from _group(HEADINGS[severity], [each for each in found if not each.unknown], severity)
            yield from _group("Possible errors", [each for each in found if each.unknown], "unknown")
        else:
            yield from _group(HEADINGS[severity], found, severity)
    accepted = [each for each in view.findings if each.acknowledged is not None]
    yield from _group("Acknowledged", [each for each in accepted if each.accepted_by != "baseline"], "bold")
    yield from _baseline([each for each in accepted if each.accepted_by == "baseline"])
    yield from _unread(view)
    yield from _set_later(view)
    yield from (line(f"Not checked: {each}", "dim") for each in view.unasked)
    yield from _skipped(view)
    yield from (heading(each, "dim") for each in view.hints)
    yield heading(f"{findings_summary(view.findings)} in {cluster_summary(view.clusters)}")
    yield _outcome(view)


def _group(title: str, findings: Sequence[FindingView], style: str, *, advice: bool = True) -> Iterator[Part]:
    if findings:
        yield heading(f"{title} ({len(findings)})", style)
        yield from (findings_alike(each, advice=advice) for each in alike(findings))


def _baseline(findings: Sequence[FindingView]) -> Iterator[Part]:
    """Yield a line for each rule and severity, so that old findings don't hide new ones."""
    found = Counter((each.id, _severity(each), each.title) for each in findings)
    if found:
        yield heading(f"In the baseline ({len(findings)})", "bold")
        yield table(("Rule", "Findings", "Severity", "Title"), [(id, n, *rest) for (id, *rest), n in found.items()])


def _severity(finding: FindingView) -> str:
    return f"{POSSIBLE}{finding.severity}" if finding.unknown else finding.severity


def _skipped(view: CheckView | ReviewView) -> Iterator[Part]:
    if skipped := skipped_text(view):
        yield heading(f"Skipped: {skipped}", "dim")


def _unread(view: CheckView | ExplainView | ImagesView | ReviewView) -> Iterator[Part]:
    if view.unread:
        yield heading(f"Not readable before deployment ({len(view.unread)})", "unknown")
        for each in view.unread:
            yield line(f"{each.origin}: {each.reason}")


def _set_later(view: CheckView) -> Iterator[Part]:
    texts = open_value_texts(view)
    if texts:
        yield heading(f"Values that only deployment sets ({len(texts)})", "unknown")
        yield from (line(each, "dim") for each in texts[:_VALUES])
    if len(texts) > _VALUES:
        yield line(f"and {count(len(texts) - _VALUES, 'more value')}; --format json lists all", "dim")


def _outcome(view: CheckView | ExplainView) -> Text:
    return line(headline(view), outcome_style(view))


def _explain(view: ExplainView) -> Iterator[Part]:
    for cluster in view.clusters:
        yield heading(f"Cluster {cluster.name}")
        if not cluster.workloads:
            yield line("No workload to check.")
        for names, workload in workloads_alike(cluster.workloads):
            yield from _workload(names, workload)
        yield from _together(cluster)
    yield from _unread(view)
    yield heading(f"{answers_summary(view)} in {cluster_summary(view.clusters)}")
    yield _outcome(view)


def _workload(names: str, workload: WorkloadView) -> Iterator[Part]:
    answer = line(answer_text(workload), workload.answer.value)
    yield heading(f"{names}:").append(" ").append_text(answer)
    yield line(describe_pods(workload), "dim")
    if workload.placed:
        yield line(f"running cluster: {count(workload.placed, 'more pod')} already on a node", "dim")
    for reason in workload.reasons:
        yield line(reason.text, reason.answer.value)
    shown = workload.pools
    if shown:
        yield table(("Pool", "Answer", _NEEDED, "Reasons"), [_verdict(each) for each in shown], right=(_NEEDED,))
    if len(shown) < workload.pool_count:
        left = count(workload.pool_count - len(shown), "more pool")
        yield line(f"{left}, less suitable; --all-pools lists all", "dim")
    if cost := cost_text(workload):
        yield line(cost)
    if workload.rests_on:
        assuming = "" if workload.answer.value == "no" else "assuming: "
        yield line(f"{assuming}{'; '.join(workload.rests_on)}", "unknown")
    for text, how in would_do(workload):
        yield line(f"suggested fix: {text}", "yes")
        if how:
            yield line(f"  {how}", "dim", whole=True)


def _verdict(verdict: PoolVerdictView) -> tuple[object, ...]:
    reasons = lines([line(each.text, _shade(each, verdict)) for each in verdict.reasons])
    nodes = "-" if verdict.nodes is None else verdict.nodes
    return verdict.pool, line(ANSWERS[verdict.answer], verdict.answer.value), nodes, reasons


def _shade(reason: Reason, verdict: PoolVerdictView) -> str:
    """Return the style of a reason: dim if it doesn't decide the answer."""
    return "dim" if reason.answer is not verdict.answer else ""


def _together(cluster: ClusterView) -> Iterator[Part]:
    used = [each for each in cluster.pools if each.use.nodes]
    if used:
        yield heading("All workloads together")
        yield table(("Pool", "Nodes", "Max", "GPUs", "Pods"), [_use(each) for each in used], right=("Nodes", "Max"))
    waiting, without = left_over(cluster)
    for each in waiting:
        yield line(f"without a node until other workloads end: {each.replicas} of {each.workload}", "dim")
    for each in without:
        yield line(f"without a node: {each.replicas} of {each.workload}", "no")


def _use(pool: PoolView) -> tuple[object, ...]:
    most = "no known max" if pool.max_nodes is None else pool.max_nodes
    pods = listed([f"{each.count} x {each.workload}" for each in pool.use.pods], "workload")
    return pool.name, pool.use.nodes, most, pool.use.gpus, pods


def _review(view: ReviewView) -> Iterator[Part]:
    yield line(headline(view), outcome_style(view))
    yield from parts(view)
    yield from _group("New", view.new, "bold")
    yield from _group("Fixed", view.fixed, "bold", advice=False)
    yield from _group("Existing", view.standing, "bold")
    yield from _unread(view)
    yield from _skipped(view)
    yield from (heading(each, "dim") for each in view.hints)
    new = findings_summary(view.new)
    yield heading(f"new: {new}; {len(view.fixed)} fixed, {len(view.standing)} existing")


def _instances(view: InstancesView) -> Iterator[Part]:
    columns = ("Type", "GPUs", "Model", "GiB/GPU", "vCPU", "GiB", "EFA", "MIG", "NVMe GB", "USD/h", "USD/GPU/h")
    figures = ("GPUs", "GiB/GPU", "vCPU", "GiB", "EFA", "NVMe GB", "USD/h", "USD/GPU/h")
    yield table(columns, [_instance(each) for each in view.instance_types], right=figures)
    yield heading(f"{count(len(view.instance_types), 'instance type')}. {PRICES}", "dim")
    for each in instance_notes(view):
        yield line(each, "dim")


def _instance(row: InstanceTypeView) -> tuple[object, ...]:
    sizes = ["-" if each is None else each for each in (row.gpu_memory_gib, row.vcpus, row.memory_gib)]
    extras = row.efa_interfaces or "-", "yes" if row.mig else "-", row.nvme_gb or "-"
    prices = money(row.usd_per_hour), money(row.usd_per_gpu_hour)
    return named(row), row.gpus, row.gpu_model, *sizes, *extras, *prices


def _images(view: ImagesView) -> Iterator[Part]:
    for cluster in view.clusters:
        yield heading(f"Cluster {cluster.name}")
        if cluster.images:
            yield table(*image_rows(cluster, mirrored=view.mirror is not None))
        if cluster.charts:
            yield Text()
            yield table(*chart_rows(cluster, mirrored=view.mirror is not None))
        for each in addon_lines(cluster):
            yield line(each, "dim")
        if cluster.not_known:
            yield heading(f"Unknown ({len(cluster.not_known)})", "unknown")
            yield from (line(f"{each.what}: {each.reason}") for each in cluster.not_known)
    yield from _unread(view)
    yield heading(images_summary(view))
    for each in mirror_lines(view):
        yield line(each)


def _rules(view: RulesView) -> Iterator[Part]:
    if len(view.rules) > 1:
        rows = [(each.id, line(each.severity, each.severity), each.title) for each in view.rules]
        yield table(("Rule", "Severity", "Title"), rows)
        return
    for each in view.rules:
        yield heading(f"{each.id} ({each.severity}): {each.title}", each.severity)
        yield from map(line, (f"why: {each.why}", f"fix: {each.fix}", f"source: {each.source}", f"place: {each.place}"))


def _doctor_rows(rows: Iterator[tuple[str, str, str]]) -> Iterator[Part]:
    listed: list[tuple[Text, Text]] = []
    for label, text, style in rows:
        if style == "command":
            yield from [Listing(listed)] if listed else []
            yield command(text)
            listed = []
        else:
            listed.append((line(label, "dim"), line(text, style, whole=True)))
    yield from [Listing(listed)] if listed else []


def _doctor(view: DoctorView) -> Iterator[Part]:
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

    if len(view.diagnoses) != 1:
        yield line(view.headline, "bold")
    for each in view.diagnoses:
        yield heading(each.headline, "no" if each.causes else "unknown")
        yield from _doctor_rows(rows(each, view.at))
    if headline := plan_headline(view):
        yield heading(headline)
    for one in view.differences:
        yield heading(one.message, "no" if one.stops else "unknown")
        yield from _doctor_rows(difference_rows(one, view.at))
    if view.not_compared:
        yield heading("Not compared", "dim")
        yield from (line(f"  {each}", "dim") for each in not_compared_texts(view))
    if view.nodes:
        yield heading(nodes_title(view))
        yield table(NODES, node_rows(view), right=NODES[3:6])
    if view.not_looked:
        yield heading("Not looked at", "dim")
        yield from (line(f"  {not_looked_text(each)}", "dim") for each in view.not_looked)


_PARTS: dict[str, Callable[..., Iterator[Part]]] = {
    "check": _check,
    "explain": _explain,
    "review": _review,
    "instances": _instances,
    "images": _images,
    "rules": _rules,
    "doctor": _doctor,
}
