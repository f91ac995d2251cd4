"""A view as one HTML page that loads no other files."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from gpu_preflight.model.answer import Answer
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
    RESULTS,
    acceptance_text,
    answer_text,
    answers_summary,
    cluster_summary,
    cost_text,
    count,
    describe_node_count,
    describe_pods,
    findings_summary,
    headline,
    left_over,
    listed,
    money,
    nearest,
    outcome_style,
    printable,
    skipped_text,
    workloads_alike,
    would_do,
)
from gpu_preflight.rule import SEVERITIES

if TYPE_CHECKING:
    from gpu_preflight.judging.review import Fate
    from gpu_preflight.report.cluster_view import (
        ClusterView,
        LeftReplicas,
        PodsOfWorkload,
        PoolTypeView,
        PoolView,
        WorkloadView,
    )
    from gpu_preflight.report.doctor_view import DoctorView
    from gpu_preflight.report.finding_view import FindingView
    from gpu_preflight.report.review_view import ReviewView
    from gpu_preflight.report.view import CheckView, ExplainView

_EMPTY = ("meta", "link", "input", "br")
_MOST_NODES = 8
_MOST_GPUS = 8
_MOST_TYPES = 6
_MOST_PODS = 12
_KINDS = {
    "managed": "managed node group",
    "self-managed": "self-managed group",
    "karpenter": "Karpenter NodePool",
    "auto-mode": "EKS Auto Mode NodePool",
    "fargate": "Fargate",
    "observed": "running nodes",
}
_AUTOSCALERS = {"cluster-autoscaler": "cluster autoscaler", "karpenter": "Karpenter", "auto-mode": "EKS Auto Mode"}
_RUNS = {Answer.YES: "", Answer.NO: " (does not run here)", Answer.UNKNOWN: " (unknown whether it runs)"}
# CSS classes for changes: each is the name of a pool change with the same color.
_BADGES = {
    "replaced": "replaced",
    "renamed": "removed",
    "refused": "replaced",
    "rolled back": "removed",
    "too early": "removed",
    "destructive": "replaced",
    "fails": "replaced",
    "left behind": "replaced",
    "unknown": "removed",
}


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *children: object, cls: str = "", **attributes: str) -> Html:
    """Return an element. Children that aren't `Html` are escaped.

    Args:
        name: Name of the element.
        children: Its content; ``None`` is left out.
        cls: Its classes.
        attributes: Its attributes. ``_`` in a name becomes ``-``, and ``_`` at the end is removed.
    """
    given = ({"class": cls} if cls else {}) | attributes
    listed = "".join(f' {key.rstrip("_").replace("_", "-")}="{_escaped(value)}"' for key, value in given.items())
    inner = "".join(each if isinstance(each, Html) else _escaped(each) for each in children if each is not None)
    return Html(f"<{name}{listed}>" if name in _EMPTY else f"<{name}{listed}>{inner}</{name}>")


def _escaped(text: object) -> str:
    return escape(printable(text))


def joined(*parts: Html | None) -> Html:
    """Return elements as one element."""
    return Html("".join(each for each in parts if each is not None))


def table(columns: tuple[str, ...], rows: Iterable[tuple[object, ...]], *, caption: str) -> Html:
    """Return a table that scrolls sideways on a narrow page."""
    head = tag("tr", *(tag("th", each, scope="col") for each in columns))
    body = joined(*(tag("tr", *(tag("td", cell) for cell in row)) for row in rows))
    made = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", body))
    return tag("div", made, cls="scroll", tabindex="0", role="region", aria_label=caption)


def findings(by_state: Mapping[str, Iterable[FindingView]]) -> Html:
    """Return all findings of a check or a review, by state."""
    listed = [(each, state) for state, found in by_state.items() for each in found]
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


def _finding(finding: FindingView, state: str) -> Html:
    accepted = finding.acknowledged
    severity = finding.severity
    badges = [tag("span", severity, cls=f"badge {severity}")]
    badges += [tag("span", state, cls=f"badge {state}")] if state else []
    badges += [tag("span", "acknowledged", cls="badge")] if accepted is not None else []
    return tag(
        "li",
        tag("h3", tag("code", finding.id), " ", *badges, " ", finding.title),
        tag("p", finding.message, cls="message"),
        tag("p", finding.origin, cls="quiet"),
        tag("p", finding.doubt, cls="quiet") if finding.unknown else None,
        tag("p", tag("b", "Accepted: "), acceptance_text(finding)) if accepted is not None else None,
        tag("details", tag("summary", "Reason and fix"), _advice(finding)),
        cls="finding",
        data_severity=severity if accepted is None else "acknowledged",
    )


def _advice(finding: FindingView) -> Html:
    source = finding.source
    linked = tag("a", source, href=source, rel="noreferrer") if source.startswith("https://") else source
    return joined(
        tag("p", finding.why), tag("p", tag("b", "Fix: "), finding.fix), tag("p", tag("b", "Source: "), linked)
    )


def picture(cluster: ClusterView) -> Html:
    """Return the picture of a cluster."""
    pools = sorted(cluster.pools, key=lambda each: not each.gpus_per_node.most)
    stuck = [each for each in cluster.workloads if each.answer is not Answer.YES]
    waiting, without = left_over(cluster)
    return tag(
        "section",
        tag("h3", "Cluster ", tag("code", cluster.name)),
        tag("p", _about(cluster), cls="about"),
        tag("div", *(_pool(each) for each in pools), cls="pools") if pools else tag("p", "No pool is known."),
        _stuck(stuck) if stuck else None,
        _left(waiting, "without a node until other workloads end", "unknown") if waiting else None,
        _left(without, "without a node", "no") if without else None,
        cls="cluster",
    )


def _about(cluster: ClusterView) -> str:
    version = cluster.kubernetes_version
    scalers = [_AUTOSCALERS[each.kind] for each in cluster.autoscalers]
    parts = [
        f"Kubernetes {version}" if version else "unknown Kubernetes version",
        ", ".join(scalers) or "no autoscaler in the input",
        *([] if cluster.whole else ["cluster itself not in the input"]),
        *([f"not checked: {', '.join(cluster.opaque_software)}"] if cluster.opaque_software else []),
    ]
    return " · ".join(parts)


def _pool(pool: PoolView) -> Html:
    gpus = pool.gpus_per_node.most
    return tag(
        "article",
        tag("h4", tag("code", pool.name), " ", tag("span", _KINDS[pool.kind], cls="kind")),
        _nodes(pool) if gpus else tag("p", f"{describe_node_count(pool)} without GPUs", cls="quiet"),
        _facts(pool),
        _pods(pool.use.pods),
        cls="pool" if gpus else "pool plain",
    )


def _nodes(pool: PoolView) -> Html:
    """Return nodes as boxes with GPUs as squares. Boxes of used nodes are solid."""
    used, most = pool.use.nodes, pool.max_nodes
    bound = max(used, 1) + 1 if most is None else most
    shown = min(bound, _MOST_NODES)
    boxes = [_node(pool.gpus_per_node.most, used=index < used) for index in range(shown)]
    more = "and more, no known max" if most is None else f"and {most - shown} more" if most > shown else None
    rest = tag("span", more, cls="more") if more else None
    label = f"{pool.name}: {used} of {describe_node_count(pool)} in use, {_per_node(pool)}"
    return joined(
        tag("div", *boxes, rest, cls="nodes", role="img", aria_label=label),
        tag("p", f"{_per_node(pool)} · {describe_node_count(pool)} · {used} needed", cls="quiet"),
    )


def _node(gpus: int, *, used: bool) -> Html:
    squares = [tag("i", cls="gpu") for _ in range(min(gpus, _MOST_GPUS))]
    more = tag("span", f"+{gpus - _MOST_GPUS}", cls="more") if gpus > _MOST_GPUS else None
    return tag("span", *squares, more, cls="node used" if used else "node")


def _per_node(pool: PoolView) -> str:
    least, most = pool.gpus_per_node.least, pool.gpus_per_node.most
    return f"{count(most, 'GPU')} per node" if least == most else f"{least} to {most} GPUs per node"


def _facts(pool: PoolView) -> Html:
    facts = {
        "Types": _types(pool.instance_types),
        "Offers": ", ".join(pool.offers),
        "Taints": ", ".join(pool.taints),
        "Limits": ", ".join(f"{amount} {name}" for name, amount in pool.limits.items()),
        "Bought": ", ".join(pool.capacity_types),
        "Image": pool.operating_system,
        "Nodes by": _node_creator(pool),
        "GPUs by": ", ".join(pool.device_managers) or ("unknown" if pool.gpus_per_node.most else ""),
    }
    rows = [joined(tag("dt", name), tag("dd", text)) for name, text in facts.items() if text]
    return tag("dl", *rows)


def _node_creator(pool: PoolView) -> str:
    if pool.min_nodes == pool.max_nodes is not None:
        return "no autoscaler, their number is fixed"
    return _AUTOSCALERS[pool.autoscaler.kind] + _RUNS[pool.autoscaler.runs]


def _types(types: Sequence[PoolTypeView]) -> str:
    shown = [_type(each) for each in types[:_MOST_TYPES]]
    return ", ".join(shown) + (f" and {len(types) - _MOST_TYPES} more" if len(types) > _MOST_TYPES else "")


def _type(row: PoolTypeView) -> str:
    if not row.gpus:
        return row.name
    price = "" if row.usd_per_hour is None else f", ${money(row.usd_per_hour)}/h"
    return f"{row.name} ({row.gpus} {row.gpu_model}{price})"


def _pods(pods: Sequence[PodsOfWorkload]) -> Html | None:
    if not pods:
        return None
    shown = [tag("li", tag("b", f"{each.count} x "), each.workload) for each in pods[:_MOST_PODS]]
    more = tag("li", f"and {count(len(pods) - _MOST_PODS, 'workload')} more") if len(pods) > _MOST_PODS else None
    return tag("ul", *shown, more, cls="pods", aria_label="Runs here")


def _stuck(workloads: Iterable[WorkloadView]) -> Html:
    return tag(
        "div",
        tag("h4", "Not running, or unknown"),
        *(_blocked(names, each) for names, each in workloads_alike(workloads)),
        cls="stuck",
    )


def _blocked(names: str, workload: WorkloadView) -> Html:
    return tag(
        "article",
        tag("h5", tag("code", names), " ", tag("span", answer_text(workload), cls="kind")),
        tag("ul", *(tag("li", each) for each in nearest(workload))),
        *(tag("p", each) for each in workload.rests_on),
        tag("p", text) if (text := cost_text(workload)) else None,
        *(_fix(text, how) for text, how in would_do(workload)),
        tag("p", describe_pods(workload), cls="quiet"),
        cls=f"workload {workload.answer.value}",
    )


def _fix(text: str, how: str) -> Html:
    return tag("p", "Suggested fix: ", text, " ", tag("code", how) if how else None)


def _left(left: Iterable[LeftReplicas], how: str, answer: str) -> Html:
    named = listed([f"{each.replicas} of {each.workload}" for each in left], "workload", most=30)
    return tag("p", f"When all workloads run at once, {how}: {named}", cls=f"workload {answer}")


def render(view: CheckView | ExplainView | ReviewView | DoctorView) -> str:
    """Return the page of a check, an explanation, a review or a diagnosis."""
    style, script = _part("page.css"), _part("page.js")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"{headline(view)} - gpu-constructs"),
        tag("style", style),
    )
    title = tag("h1", headline(view), cls=f"outcome {outcome_style(view)}")
    footer = tag("footer", f"gpu-constructs {view.tool.version}. Prices are on-demand list prices of us-east-1.")
    body = tag("body", tag("main", title, *_PARTS[view.command](view)), footer, tag("script", script))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _part(name: str) -> Html:
    return Html(files("gpu_preflight.report").joinpath(name).read_text())


def _policy(style: str, script: str) -> str:
    """Return a policy that allows this page's own style and script by their hash, and nothing else."""
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _check(view: CheckView) -> Iterator[Html]:
    yield tag("p", f"{findings_summary(view.findings)} in {cluster_summary(view.clusters)}.")
    yield _unread(view)
    yield _set_later(view)
    yield from (tag("p", f"Not checked: {each}") for each in view.unasked)
    yield _skipped(view)
    yield joined(tag("h2", "Clusters"), *(picture(each) for each in view.clusters))
    yield findings({"": view.findings})


def _skipped(view: CheckView | ReviewView) -> Html:
    skipped = skipped_text(view)
    return tag("p", f"Skipped: {skipped}", cls="quiet") if skipped else Html()


def _unread(view: CheckView | ExplainView | ReviewView) -> Html:
    rows = [(each.origin.path, each.origin.file, each.reason) for each in view.unread]
    return table(("Path", "File", "Why"), rows, caption="Not readable before deployment") if rows else Html()


def _set_later(view: CheckView) -> Html:
    rows = [(each.origin.path, each.field, each.value, ", ".join(each.rules)) for each in view.open_values]
    columns = ("Path", "Field", "Value", "Rules that check it")
    return table(columns, rows, caption="Values that only deployment sets") if rows else Html()


def _explain(view: ExplainView) -> Iterator[Html]:
    yield tag("p", f"{answers_summary(view)} in {cluster_summary(view.clusters)}.")
    yield _unread(view)
    for cluster in view.clusters:
        yield picture(cluster)
        yield from (_verdicts(names, each) for names, each in workloads_alike(cluster.workloads))


def _verdicts(names: str, workload: WorkloadView) -> Html:
    rows = [
        (
            tag("code", each.pool),
            tag("span", ANSWERS[each.answer], cls=f"answer {each.answer.value}"),
            "-" if each.nodes is None else each.nodes,
            tag("ul", *(tag("li", reason.text) for reason in each.reasons)),
        )
        for each in workload.pools
    ]
    summary = tag("summary", tag("code", names), f": {answer_text(workload)}; {describe_pods(workload)}")
    listed = table(("Pool", "Answer", "Nodes needed", "Reasons"), rows, caption=f"Pools for {names}")
    rests_on = (tag("p", each) for each in workload.rests_on)
    return tag("details", summary, listed, *rests_on, cls="verdicts")


def _review(view: ReviewView) -> Iterator[Html]:
    yield _control_planes(view)
    yield _drains(view)
    yield table(("", "Before", "After", "Change"), cost_rows(view), caption="All GPU pools together")
    yield joined(*(tag("p", each, cls="quiet") for each in cost_notes(view)))
    yield _quotas(view)
    yield _moves(view)
    yield _pools(view)
    yield _changes(view)
    yield _unread(view)
    yield _skipped(view)
    yield tag("h2", "Clusters")
    sides = _side("Before", view.clusters.before), _side("After", view.clusters.after)
    yield tag("div", *sides, cls="sides")
    yield findings({"new": view.new, "fixed": view.fixed, "existing": view.standing})


def _side(name: str, clusters: Iterable[ClusterView]) -> Html:
    return tag("div", tag("h3", name, cls="side"), *(picture(each) for each in clusters))


def _control_planes(view: ReviewView) -> Html:
    rows = [
        (
            tag("code", each.cluster),
            tag("span", each.change, cls=f"badge {_BADGES[each.change]}"),
            each.detail,
        )
        for each in view.control_planes
    ]
    return table(("Cluster", "Change", "What"), rows, caption="Control planes") if rows else Html()


def _drains(view: ReviewView) -> Html:
    rows = [
        (tag("code", each.name), tag("span", pool_class(each), cls=f"badge {each.change}"), how, pods)
        for each, how, pods in drain_rows(view)
    ]
    columns, restarting = ("Pool", "Change", "Nodes", "GPU workloads on them"), restarts(view)
    return joined(
        table(columns, rows, caption="Interrupted") if rows else None, tag("p", restarting) if restarting else None
    )


def _quotas(view: ReviewView) -> Html:
    rows = [tag("li", text, tag("br"), tag("code", command)) for text, command in quota_commands(view)]
    title = tag("h2", "Raise before the deployment, unless the quota is at least that high")
    return joined(title, tag("ul", *rows)) if rows else Html()


def _pools(view: ReviewView) -> Html:
    rows = [
        (
            tag("code", each.name),
            tag("span", each.change, cls=f"badge {each.change}"),
            tag("ul", *(tag("li", detail) for detail in each.details)),
        )
        for each in view.pools
    ]
    return table(("Pool", "Change", "What"), rows, caption="Pools that change") if rows else Html()


def _changes(view: ReviewView) -> Html:
    rows = [
        (
            tag("span", each.change_class, cls=f"badge {_BADGES.get(each.change_class, '')}"),
            tag("code", each.what),
            each.detail,
        )
        for each in listed_changes(view)
    ]
    others = other_changes(view)
    return joined(
        table(("Class", "What", "Detail"), rows, caption="Resources and objects") if rows else None,
        tag("p", others, cls="quiet") if others else None,
    )


def _moves(view: ReviewView) -> Html:
    fates = [(tag("code", each.name), *_results(each), each.reason or "") for each in view.workloads]
    versions = [(each.what, each.before or "-", each.after or "-") for each in view.versions]
    return joined(
        table(("Workload", "Before", "After", "Nearest reason"), fates, caption="Workloads whose result changes")
        if fates
        else None,
        table(("What", "Before", "After"), versions, caption="Versions") if versions else None,
    )


def _results(workload: Fate) -> Iterator[str]:
    for answer, result in ((workload.before, workload.before_result), (workload.after, workload.after_result)):
        yield tag("span", RESULTS[result], cls=f"answer {answer.value}") if answer and result else "-"


def _doctor_rows(rows: Iterable[tuple[str, str, str]]) -> Html:
    """Return labels and texts as a list. A table would be wider than a narrow page."""
    listed = []
    for label, text, style in rows:
        content: object = tag("code", text) if style == "command" else text
        answer = f"answer {style}" if style in ("yes", "no", "unknown") else ""
        listed.append(joined(tag("dt", label), tag("dd", content, cls=answer)))
    return tag("dl", *listed, cls="rows")


def _doctor(view: DoctorView) -> Iterator[Html]:
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

    for each in view.diagnoses:
        title = "Causes" if each.causes else "Simulation and messages"
        title = each.headline if len(view.diagnoses) > 1 else title
        if listed := list(rows(each, view.at)):
            yield tag("section", tag("h2", title), _doctor_rows(listed))
    if headline := plan_headline(view):
        parts = [tag("h2", headline)]
        for one in view.differences:
            parts += [tag("h3", one.message), _doctor_rows(difference_rows(one, view.at))]
        if view.not_compared:
            skipped = [tag("li", each) for each in not_compared_texts(view)]
            parts += [tag("h3", "Not compared"), tag("ul", joined(*skipped))]
        yield tag("section", *parts)
    if view.nodes:
        rows_of_nodes = [tuple(each) for each in node_rows(view)]
        yield tag("section", tag("h2", nodes_title(view)), table(NODES, rows_of_nodes, caption="Nodes"))
    if view.not_looked:
        listed_texts = [tag("li", not_looked_text(each)) for each in view.not_looked]
        yield tag("section", tag("h2", "Not looked at"), tag("ul", joined(*listed_texts)))


_PARTS: dict[str, Callable[..., Iterator[Html]]] = {
    "check": _check,
    "explain": _explain,
    "review": _review,
    "doctor": _doctor,
}
