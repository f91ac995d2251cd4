"""A view as one page that loads nothing from anywhere."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from hashlib import sha256
from importlib.resources import files

from gpu_preflight.report.finding_view import View
from gpu_preflight.report.html.element import Html, joined, table, tag
from gpu_preflight.report.html.findings import findings
from gpu_preflight.report.html.picture import picture
from gpu_preflight.report.wording import (
    ANSWERS,
    RESULTS,
    answer_text,
    answers_summary,
    ceiling_notes,
    ceiling_rows,
    cluster_summary,
    findings_summary,
    headline,
    listed_changes,
    other_changes,
    pods_of,
    review_summary,
    workloads_alike,
)

# Colours of pools that say the same of a cluster.
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


def render(view: View) -> str:
    """Return the page of a check, an explanation or a review."""
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
    title = tag("h1", headline(view), cls=f"outcome {view['outcome']}")
    footer = tag("footer", f"gpu-constructs {view['tool']['version']}. Prices are on-demand list prices of us-east-1.")
    body = tag("body", tag("main", title, *_PARTS[view["command"]](view)), footer, tag("script", script))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _part(name: str) -> Html:
    return Html(files("gpu_preflight.report.html").joinpath(name).read_text())


def _policy(style: str, script: str) -> str:
    """Return a policy that allows this page's own style and script by their hash, and nothing else."""
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _check(view: View) -> Iterator[Html]:
    yield tag("p", f"{findings_summary(view['findings'])} in {cluster_summary(view['clusters'])}.")
    yield _unread(view)
    yield _set_later(view)
    yield from (tag("p", f"Not judged: {each}") for each in view["unasked"])
    yield joined(tag("h2", "Clusters"), *(picture(each) for each in view["clusters"]))
    yield findings(view)


def _unread(view: View) -> Html:
    rows = [(each["origin"]["path"], each["origin"]["file"], each["reason"]) for each in view["unread"]]
    return table(("Path", "File", "Why"), rows, caption="Not readable before deployment") if rows else Html()


def _set_later(view: View) -> Html:
    rows = [
        (each["origin"]["path"], each["field"], each["value"], ", ".join(each["rules"])) for each in view["openValues"]
    ]
    columns = ("Path", "Field", "Value", "Rules that judge it")
    return table(columns, rows, caption="Values that only deployment sets") if rows else Html()


def _explain(view: View) -> Iterator[Html]:
    yield tag("p", f"{answers_summary(view)} in {cluster_summary(view['clusters'])}.")
    yield _unread(view)
    for cluster in view["clusters"]:
        yield picture(cluster)
        yield from (_verdicts(names, each) for names, each in workloads_alike(cluster["workloads"]))


def _verdicts(names: str, workload: View) -> Html:
    rows = [
        (
            tag("code", each["pool"]),
            tag("span", ANSWERS[each["answer"]], cls=f"answer {each['answer']}"),
            "-" if each["nodes"] is None else each["nodes"],
            tag("ul", *(tag("li", reason["text"]) for reason in each["reasons"])),
        )
        for each in workload["pools"]
    ]
    summary = tag("summary", tag("code", names), f": {answer_text(workload)}; {pods_of(workload)}")
    listed = table(("Pool", "Answer", "Nodes needed", "Reasons"), rows, caption=f"Pools for {names}")
    rests_on = (tag("p", each) for each in workload["restsOn"])
    return tag("details", summary, listed, *rests_on, cls="verdicts")


def _review(view: View) -> Iterator[Html]:
    yield tag("p", review_summary(view))
    yield _control_planes(view["controlPlanes"])
    yield _pools(view["pools"])
    yield _changes(view)
    rows = ceiling_rows(view["ceiling"])
    yield table(("At most", "Before", "After", "Change"), rows, caption="All GPU pools together")
    yield joined(*(tag("p", each, cls="quiet") for each in ceiling_notes(view["ceiling"]["after"])))
    yield _moves(view)
    yield tag("h2", "Clusters")
    sides = [(key, view["clusters"][key]) for key in ("before", "after")]
    yield tag("div", *(_side(name, clusters) for name, clusters in sides), cls="sides")
    yield findings(view)


def _side(name: str, clusters: list[View]) -> Html:
    return tag("div", tag("h3", name.capitalize(), cls="side"), *(picture(each) for each in clusters))


def _control_planes(changes: list[View]) -> Html:
    rows = [
        (
            tag("code", each["cluster"]),
            tag("span", each["change"], cls=f"badge {_BADGES[each['change']]}"),
            each["detail"],
        )
        for each in changes
    ]
    return table(("Cluster", "Change", "What"), rows, caption="Control planes") if rows else Html()


def _pools(pools: list[View]) -> Html:
    rows = [
        (
            tag("code", each["name"]),
            tag("span", each["change"], cls=f"badge {each['change']}"),
            tag("ul", *(tag("li", detail) for detail in each["details"])),
        )
        for each in pools
    ]
    return table(("Pool", "Change", "What"), rows, caption="Pools; those replaced are drained") if rows else Html()


def _changes(view: View) -> Html:
    rows = [
        (
            tag("span", each["change"], cls=f"badge {_BADGES.get(each['change'], '')}"),
            tag("code", each["what"]),
            each["detail"],
        )
        for each in listed_changes(view)
    ]
    others = other_changes(view)
    return joined(
        table(("Change", "What", "Detail"), rows, caption="Resources and objects") if rows else None,
        tag("p", others, cls="quiet") if others else None,
    )


def _moves(view: View) -> Html:
    fates = [
        (tag("code", each["name"]), _result(each, "before"), _result(each, "after"), each["reason"] or "")
        for each in view["workloads"]
    ]
    versions = [(each["what"], each["before"] or "-", each["after"] or "-") for each in view["versions"]]
    return joined(
        table(("Workload", "Before", "After", "Nearest reason"), fates, caption="Workloads whose verdict changes")
        if fates
        else None,
        table(("What", "Before", "After"), versions, caption="Versions") if versions else None,
    )


def _result(workload: View, side: str) -> object:
    answer, result = workload[side], workload[f"{side}Result"]
    return tag("span", RESULTS[result], cls=f"answer {answer}") if answer else "-"


_PARTS: dict[str, Callable[[View], Iterator[Html]]] = {"check": _check, "explain": _explain, "review": _review}
