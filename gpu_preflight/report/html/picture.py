"""A cluster as a picture: its pools with their nodes and GPUs, and every workload where it runs, or blocked."""

from __future__ import annotations

from gpu_preflight.report.finding_view import View
from gpu_preflight.report.html.element import Html, joined, tag
from gpu_preflight.report.wording import (
    answer_text,
    cost_text,
    count,
    left_over,
    listed,
    money,
    nearest,
    nodes_of,
    pods_of,
    workloads_alike,
    would_do,
)

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
_RUNS = {"yes": "", "no": " (does not run here)", "unknown": " (not known to run)"}


def picture(cluster: View) -> Html:
    """Return the picture of a cluster."""
    pools = sorted(cluster["pools"], key=lambda each: not each["gpusPerNode"]["most"])
    stuck = [each for each in cluster["workloads"] if each["answer"] != "yes"]
    waiting, without = left_over(cluster)
    return tag(
        "section",
        tag("h3", "Cluster ", tag("code", cluster["name"])),
        tag("p", _about(cluster), cls="about"),
        tag("div", *(_pool(each) for each in pools), cls="pools") if pools else tag("p", "No pool is known."),
        _stuck(stuck) if stuck else None,
        _left(waiting, "until others end without a node", "unknown") if waiting else None,
        _left(without, "without a node", "no") if without else None,
        cls="cluster",
    )


def _about(cluster: View) -> str:
    version = cluster["kubernetesVersion"]
    scalers = [_AUTOSCALERS[each["kind"]] for each in cluster["autoscalers"]]
    parts = [
        f"Kubernetes {version}" if version else "Kubernetes version not known",
        ", ".join(scalers) or "no autoscaler in the input",
        *([] if cluster["whole"] else ["cluster itself not in the input"]),
        *([f"not looked into: {', '.join(cluster['opaqueSoftware'])}"] if cluster["opaqueSoftware"] else []),
    ]
    return " · ".join(parts)


def _pool(pool: View) -> Html:
    gpus = pool["gpusPerNode"]["most"]
    return tag(
        "article",
        tag("h4", tag("code", pool["name"]), " ", tag("span", _KINDS[pool["kind"]], cls="kind")),
        _nodes(pool) if gpus else tag("p", f"{nodes_of(pool)} without GPUs", cls="quiet"),
        _facts(pool),
        _pods(pool["use"]["pods"]),
        cls="pool" if gpus else "pool plain",
    )


def _nodes(pool: View) -> Html:
    """Return nodes as boxes of GPUs as squares; those that workloads fill are solid."""
    used, most = pool["use"]["nodes"], pool["maxNodes"]
    bound = max(used, 1) + 1 if most is None else most
    shown = min(bound, _MOST_NODES)
    boxes = [_node(pool["gpusPerNode"]["most"], used=index < used) for index in range(shown)]
    more = "and more, without bound" if most is None else f"and {most - shown} more" if most > shown else None
    rest = tag("span", more, cls="more") if more else None
    said = f"{pool['name']}: {used} of {nodes_of(pool)} in use, {_per_node(pool)}"
    return joined(
        tag("div", *boxes, rest, cls="nodes", role="img", aria_label=said),
        tag("p", f"{_per_node(pool)} · {nodes_of(pool)} · {used} needed", cls="quiet"),
    )


def _node(gpus: int, *, used: bool) -> Html:
    squares = [tag("i", cls="gpu") for _ in range(min(gpus, _MOST_GPUS))]
    more = tag("span", f"+{gpus - _MOST_GPUS}", cls="more") if gpus > _MOST_GPUS else None
    return tag("span", *squares, more, cls="node used" if used else "node")


def _per_node(pool: View) -> str:
    least, most = pool["gpusPerNode"]["least"], pool["gpusPerNode"]["most"]
    return f"{count(most, 'GPU')} per node" if least == most else f"{least} to {most} GPUs per node"


def _facts(pool: View) -> Html:
    facts = {
        "Types": _types(pool["instanceTypes"]),
        "Offers": ", ".join(pool["offers"]),
        "Taints": ", ".join(pool["taints"]),
        "Limits": ", ".join(f"{amount} {name}" for name, amount in pool["limits"].items()),
        "Bought": ", ".join(pool["capacityTypes"]),
        "Image": pool["operatingSystem"],
        "Nodes by": _made_by(pool),
        "GPUs by": ", ".join(pool["deviceManagers"]) or ("nothing known" if pool["gpusPerNode"]["most"] else ""),
    }
    rows = [joined(tag("dt", name), tag("dd", text)) for name, text in facts.items() if text]
    return tag("dl", *rows)


def _made_by(pool: View) -> str:
    if pool["minNodes"] == pool["maxNodes"] is not None:
        return "nobody, their number is fixed"
    return _AUTOSCALERS[pool["autoscaler"]["kind"]] + _RUNS[pool["autoscaler"]["runs"]]


def _types(types: list[View]) -> str:
    shown = [_type(each) for each in types[:_MOST_TYPES]]
    return ", ".join(shown) + (f" and {len(types) - _MOST_TYPES} more" if len(types) > _MOST_TYPES else "")


def _type(row: View) -> str:
    if not row["gpus"]:
        return str(row["name"])
    price = "" if row["usdPerHour"] is None else f", ${money(row['usdPerHour'])}/h"
    return f"{row['name']} ({row['gpus']} {row['gpuModel']}{price})"


def _pods(pods: list[View]) -> Html | None:
    if not pods:
        return None
    shown = [tag("li", tag("b", f"{each['count']} x "), each["workload"]) for each in pods[:_MOST_PODS]]
    more = tag("li", f"and {count(len(pods) - _MOST_PODS, 'workload')} more") if len(pods) > _MOST_PODS else None
    return tag("ul", *shown, more, cls="pods", aria_label="Runs here")


def _stuck(workloads: list[View]) -> Html:
    return tag(
        "div",
        tag("h4", "Not running, or not known"),
        *(_blocked(names, each) for names, each in workloads_alike(workloads)),
        cls="stuck",
    )


def _blocked(names: str, workload: View) -> Html:
    return tag(
        "article",
        tag("h5", tag("code", names), " ", tag("span", answer_text(workload), cls="kind")),
        tag("ul", *(tag("li", each) for each in nearest(workload))),
        *(tag("p", each) for each in workload["restsOn"]),
        tag("p", text) if (text := cost_text(workload)) else None,
        *(tag("p", "Would do: ", text, " ", tag("code", how) if how else None) for text, how in would_do(workload)),
        tag("p", pods_of(workload), cls="quiet"),
        cls=f"workload {workload['answer']}",
    )


def _left(left: list[View], how: str, answer: str) -> Html:
    named = listed([f"{each['replicas']} of {each['workload']}" for each in left], "workload", most=30)
    return tag("p", f"When all come at once, {how}: {named}", cls=f"workload {answer}")
