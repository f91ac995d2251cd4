"""The words that every rendering of a view shares."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from gpu_facts.hardware.regions import price_text
from gpu_facts.image_releases import LTS, PRODUCTION
from gpu_facts.quantities import count as count
from gpu_preflight.model.answer import Answer
from gpu_preflight.rule import SEVERITIES

if TYPE_CHECKING:
    from gpu_preflight.report.cluster_view import (
        ChangeView,
        ClusterView,
        LeftReplicas,
        PoolView,
        RemedyView,
        WorkloadView,
    )
    from gpu_preflight.report.doctor_view import DoctorView
    from gpu_preflight.report.finding_view import FindingView
    from gpu_preflight.report.images_view import ImagesView, PulledChartView, PulledImageView, PullsView
    from gpu_preflight.report.instances_view import InstancesView, InstanceTypeView
    from gpu_preflight.report.review_view import ReviewView
    from gpu_preflight.report.view import CheckView, ExplainView

# Labels of the answer for a pool, and of the result for a workload.
ANSWERS = {Answer.YES: "runs", Answer.NO: "Pending", Answer.UNKNOWN: "unknown"}
RESULTS = {"runs": "runs", "failsAtStart": "starts and fails", "pending": "Pending", "unknown": "unknown"}
HEADINGS = {"error": "Errors", "warning": "Warnings", "note": "Notes"}
# pyproject.toml also has this address, but an installed package doesn't include pyproject.toml.
RULES_PAGE = "https://github.com/gpu-constructs/gpu-constructs/blob/main/docs/reference/rules.md"
PRICES = "Prices are the on-demand list prices of us-east-1."
NEWER_DRIVER = (
    f"* Needs NVIDIA driver {PRODUCTION}: AL2023 from release v20260917 on, most Bottlerocket variants from 1.68.0 on."
)
# Labels of settings that hide findings.
_HIDING = {"baseline": "the baseline", "selection": "rules and clusters that aren't selected"}
_POSSIBLE, _ACCEPTED = "possible error", "acknowledged"
# Max number of names of skipped files per kind.
_NAMES = 3
# Max number of rules next to a value that only the deployment sets.
_RULES = 4
# The API server accepts names of up to 253 characters. Shorter ones keep a report readable.
LONGEST_NAME = 200
_LONGEST_TEXT = 20_000
# Attributes that identical workloads share, in addition to pools. Only the first workload has suggested fixes.
_IN_COMMON = attrgetter(
    *("replicas", "placed", "together", "on_each_node", "requests", "open_requests", "claims", "answer", "result"),
    *("reasons", "pool_count", "cost", "rests_on", "runs_if"),
)
Rows = tuple[tuple[str, ...], list[tuple[str, ...]]]


def printable(text: object) -> str:
    """Return a text in one line without control characters, which a terminal would execute."""
    line = cut_text(re.sub(r"\s+", " ", str(text)), _LONGEST_TEXT)
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in line)


def with_short_names(text: object) -> str:
    """Return a text in which long words, such as names, are cut."""
    return re.sub(rf"(\S{{{LONGEST_NAME}}})\S+", r"\1...", str(text))


def cut_text(text: str, most: int) -> str:
    """Return the beginning of a text."""
    return text if len(text) <= most else f"{text[:most]}..."


def money(amount: float | None) -> str:
    """Return US dollars per hour; ``-`` without a list price."""
    return "-" if amount is None else f"{amount:,.2f}"


def answer_text(workload: WorkloadView) -> str:
    """Return the answer for a workload, with its conditions if it has any."""
    if workload.runs_if:
        return f"runs, if {', and '.join(workload.runs_if)}"
    return _some_pending(workload) or RESULTS[workload.result]


def _some_pending(workload: WorkloadView) -> str:
    """Return how many of the pods stay Pending; empty if a reason is about every pod."""
    against = [each.pending_pods for each in workload.reasons if each.answer is Answer.NO]
    if not against or not all(against) or workload.result != "pending":
        return ""
    return f"at least {max(against)} of {count(workload.replicas or 0, 'pod')} Pending"


def _undecided(view: CheckView | ExplainView) -> str:
    """Return how many GPU workloads weren't decided, and why; empty if all were."""
    workloads = [each for cluster in view.clusters for each in cluster.workloads]
    open_ones = [each for each in workloads if each.answer is Answer.UNKNOWN]
    if not open_ones:
        return ""
    conditional = [each for each in open_ones if each.runs_if]
    first = next((each for each in open_ones if not each.runs_if), open_ones[0])
    why = f"if {first.runs_if[0]}" if first.runs_if else next(iter(nearest(first)), "").removeprefix(f"{first.name}: ")
    of = f"{len(open_ones)} of {count(len(workloads), 'GPU workload')}"
    some = f", {len(conditional)} of them on a condition" if conditional else ""
    verb = "was" if len(open_ones) == 1 else "were"
    return f"{of} {verb} not decided{some}: {first.name}{': ' if why else ''}{why}"


def headline(view: CheckView | ExplainView | ReviewView | DoctorView) -> str:
    """Return the outcome in one line."""
    if view.command == "doctor":
        return view.headline
    if view.command == "check" and view.outcome != "fail" and not _has_gpu_content(view.clusters):
        nothing = f"GPU check: nothing to check here, {cluster_summary(view.clusters)}{_unread_clause(view)}"
        return f"{nothing}{_hidden_clause(view)}"
    if view.command == "check":
        return _headline_of_check(view)
    if view.command == "review":
        return f"{view.headline}{_hidden_clause(view)}"
    if stuck := _stuck(each.result for cluster in view.clusters for each in cluster.workloads):
        return stuck
    if view.counts.unknown:
        return f"{_undecided(view)}{_unread_clause(view)}"
    unread = _unread_clause(view)
    if not view.counts.yes:
        return f"No workload to check{unread}"
    return f"Every workload runs{' as far as is known' if unread else ''}{unread}"


def _headline_of_check(view: CheckView) -> str:
    """Return the outcome of a check. It passes only if every GPU workload was decided and everything could be read."""
    stuck = _stuck(each.result for cluster in view.clusters for each in cluster.workloads)
    limits = f"{_unread_clause(view)}{_hidden_clause(view)}"
    if view.outcome == "fail":
        return f"GPU check fails{': ' if stuck else ''}{stuck}{limits}"
    undecided = _undecided(view)
    if view.outcome == "pass" and not undecided and not stuck and not hides_error(view):
        return f"GPU check passes{limits}"
    maybe = sum(each.unknown and each.acknowledged is None for each in view.findings)
    parts = [stuck, undecided, f"{count(maybe, 'finding')} may be true" if maybe else ""]
    causes = "; ".join(filter(None, parts))
    passes = "doesn't fail" if stuck or hides_error(view) else "found no certain error"
    return f"GPU check {passes}{f', but {causes}' if causes else ''}{limits}"


def hides_error(view: CheckView | ReviewView) -> bool:
    """Whether an error is accepted, or its rule or cluster isn't selected."""
    return any(each.errors or each.possible_errors for each in view.hidden)


def outcome_style(view: CheckView | ExplainView | ReviewView | DoctorView) -> str:
    """Return the outcome for colors and signs: a pass with a hidden error or an interruption is like unknown."""
    if view.command == "doctor":
        return view.outcome
    hides = view.command != "explain" and hides_error(view)
    interrupts = view.command == "review" and view.needs_attention
    return "unknown" if view.outcome == "pass" and (hides or interrupts) else view.outcome


def hidden_text(view: CheckView | ReviewView) -> str:
    """Return how many rules are selected, and the hidden findings by the setting that hides them; may be empty."""
    chosen = view.rule_selection
    parts = [f"only {chosen.selected} of {count(chosen.known, 'rule')} selected"] if chosen else []
    named = {"errors": "error", "possible_errors": _POSSIBLE, "warnings": "warning", "notes": "note"}
    totals = {noun: sum(getattr(each, name) for each in view.hidden) for name, noun in named.items()}
    if found := [count(number, noun) for noun, number in totals.items() if number]:
        by = {each.by: sum(getattr(each, name) for name in named) for each in view.hidden}
        places = [f"{f'{number} ' if len(by) > 1 else ''}by {_HIDING.get(each, each)}" for each, number in by.items()]
        parts.append(f"{', '.join(found)} hidden{': ' if len(by) > 1 else ' '}{', '.join(places)}")
    return "; ".join(parts)


def skipped_text(view: CheckView | ReviewView) -> str:
    """Return the skipped parts of folders, each with its first names; empty if everything was read."""
    found: dict[str, list[str]] = {}
    for each in view.skipped:
        found.setdefault(each.what, []).extend(each.names)
    return "; ".join(
        f"{what} ({len(names)}): {listed(names, 'path', most=_NAMES)}" for what, names in sorted(found.items())
    )


def _hidden_clause(view: CheckView | ReviewView) -> str:
    text = hidden_text(view)
    return f"; {text}" if text else ""


def _stuck(results: Iterable[str | None]) -> str:
    """Return how many workloads would stay Pending, and how many would start and fail; empty if none would."""
    found = list(results)
    pending, failing = found.count("pending"), found.count("failsAtStart")
    parts = [f"{count(pending, 'workload')} would stay Pending" if pending else ""]
    parts += [f"{count(failing, 'workload')} would start and fail" if failing else ""]
    return ", ".join(filter(None, parts))


def _has_gpu_content(clusters: Iterable[ClusterView]) -> bool:
    """Whether there is a GPU pool or a workload that requests GPUs."""
    return any(each.workloads or any(pool.gpus_per_node.most for pool in each.pools) for each in clusters)


def _unread_clause(view: CheckView | ExplainView) -> str:
    """Return the parts of the input that couldn't be read and aren't in the result; empty if there are none."""
    places = list(dict.fromkeys(each.origin.path for each in view.unread))
    return f", without {listed(places, 'part', most=3)}, which could not be read" if places else ""


def open_value_texts(view: CheckView) -> list[str]:
    """Return each value that only the deployment sets, with the rules that can't check it."""
    found = []
    for each in view.open_values:
        more = f" and {len(each.rules) - _RULES} more" if len(each.rules) > _RULES else ""
        named = f"; not checked: {', '.join(each.rules[:_RULES])}{more}" if each.rules else ""
        found.append(f"{each.place} is {each.value}{named}")
    return found


def alike(findings: Iterable[FindingView]) -> list[list[FindingView]]:
    """Return findings in groups with the same rule and fix."""
    groups: dict[tuple[str, ...], list[FindingView]] = {}
    for each in findings:
        groups.setdefault((each.id, each.fix, acceptance_text(each)), []).append(each)
    return list(groups.values())


def acceptance_text(finding: FindingView) -> str:
    """Return why a finding is accepted, and which setting outside of the input accepts it; empty if it isn't."""
    place = finding.accepted_by
    outside = f" ({place})" if place in ("--ignore", "settings", "baseline") else ""
    return "" if finding.acknowledged is None else f"{finding.acknowledged}{outside}"


def workloads_alike(workloads: Iterable[WorkloadView]) -> list[tuple[str, WorkloadView]]:
    """Return workloads that differ only in the name once, with all their names."""
    groups: dict[tuple[str, str], list[WorkloadView]] = {}
    # Identical workloads share the list of pools.
    pools: dict[int, str] = {}
    for each in workloads:
        listed_pools = each.pools
        if id(listed_pools) not in pools:
            pools[id(listed_pools)] = repr(listed_pools)
        groups.setdefault((pools[id(listed_pools)], repr(_IN_COMMON(each))), []).append(each)
    return [(listed([each.name for each in group], "workload"), group[0]) for group in groups.values()]


def listed(names: Sequence[str], noun: str, *, most: int = 6) -> str:
    """Return the first names, and the number of the others."""
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {count(left, f'more {noun}')}" if left > 0 else "")


def findings_summary(findings: Iterable[FindingView]) -> str:
    """Return the number of findings under each heading of a report."""
    found = Counter(_heading(each) for each in findings)
    parts = [count(found[name], name) for name in SEVERITIES]
    parts += [count(found[_POSSIBLE], _POSSIBLE)] if found[_POSSIBLE] else []
    return ", ".join([*parts, *([f"{found[_ACCEPTED]} {_ACCEPTED}"] if found[_ACCEPTED] else [])])


def _heading(finding: FindingView) -> str:
    if finding.acknowledged is not None:
        return _ACCEPTED
    return _POSSIBLE if finding.unknown and finding.severity == "error" else finding.severity


def cluster_summary(clusters: Iterable[ClusterView]) -> str:
    """Return the number of checked clusters, GPU pools and workloads."""
    listed = list(clusters)
    pools = sum(bool(pool.gpus_per_node.most) for each in listed for pool in each.pools)
    workloads = sum(len(each.workloads) for each in listed)
    return f"{count(len(listed), 'cluster')}, {count(pools, 'GPU pool')}, {count(workloads, 'workload')}"


def answers_summary(view: ExplainView) -> str:
    """Return the number of workloads by result. Workloads that start and fail are omitted if there are none."""
    found = Counter[str](each.result for cluster in view.clusters for each in cluster.workloads)
    listed = (each for each in RESULTS if each != "failsAtStart" or found[each])
    return ", ".join(f"{RESULTS[each]}: {found[each]}" for each in listed)


def describe_pods(workload: WorkloadView) -> str:
    """Return the requests of a workload, e.g. ``4 pods that run together, each requesting 8 nvidia.com/gpu``."""
    replicas = workload.replicas
    requested = _describe_requests(workload)
    if replicas == 1:
        return f"1 pod, requesting {requested}"
    if workload.on_each_node:
        return f"1 pod on each node, requesting {requested}"
    pods = "an unknown number of pods" if replicas is None else count(replicas, "pod")
    return f"{pods}{' that run together' if workload.together else ''}, each requesting {requested}"


def _describe_requests(workload: WorkloadView) -> str:
    """Return the requests of one pod, and the resources with an amount that isn't known before deployment."""
    parts = [f"{amount} {name}" for name, amount in workload.requests.items()]
    parts += [f"devices of claim {name}" for name in workload.claims]
    known, later = ", ".join(parts), ", ".join(workload.open_requests)
    if not later:
        return known or "nothing"
    return f"{known}{', and ' if known else ''}amounts known only at deployment: {later}"


def nearest(workload: WorkloadView) -> list[str]:
    """Return why a workload may not run: the reasons for all pools, otherwise the reasons of the nearest pool."""
    held = [each.text for each in workload.reasons]
    if held:
        return held
    for verdict in workload.pools:
        if verdict.reasons:
            return [f"pool {verdict.pool}: {each.text}" for each in verdict.reasons]
    return [] if workload.pools else ["there is no pool"]


def cost_text(workload: WorkloadView) -> str:
    """Return the nodes that a workload uses, with their hourly and monthly price; empty if they aren't known."""
    cost = workload.cost
    if cost is None:
        return ""
    bought = f" ({' or '.join(cost.capacity_types)})" if cost.capacity_types else ""
    nodes = f"uses {count(cost.nodes, 'node')} of type {cost.instance_type} in pool {cost.pool}{bought}"
    if cost.usd_per_hour is None:
        return f"{nodes}; there is no list price in US dollars"
    price = f"{cost.usd_per_hour:,.2f} USD an hour, {cost.usd_per_month:,.0f} USD a month"
    where = f" for {cost.region}" if cost.region not in (None, cost.price_list) else ""
    return f"{nodes}: {price}, on-demand list price of {cost.price_list}{where}"


def would_do(workload: WorkloadView) -> list[tuple[str, str]]:
    """Return the suggested fixes for a workload, each with its command or property."""
    found = [(each.text, _how(workload, each)) for each in workload.would_do]
    smallest = workload.smallest_type
    if smallest:
        price = price_text(smallest.usd_per_hour, smallest.price_list)
        found.append((f"add a pool of {smallest.name} ({price}), the smallest type that meets the requests", ""))
    return found


def _how(workload: WorkloadView, remedy: RemedyView) -> str:
    """Return how to apply a fix: settings of other objects, then the command for the workload."""
    if remedy.patch is None:
        return _settings(remedy.changes)
    if _must_be_recreated(workload, remedy.patch):
        return f"{_settings(remedy.changes)}; change it in the file, then run: kubectl delete and kubectl apply"
    kind, place = workload.name.split(" ")[:2]
    name = place.rpartition("/")[2]
    body = json.dumps(remedy.patch, separators=(",", ":"))
    command = f"kubectl patch {kind.lower()} {name} -n {workload.namespace} -p '{body}'"
    elsewhere = [each for each in remedy.changes if each.path != workload.origin.path]
    return f"{_settings(elsewhere)}; then run: {command}" if elsewhere else command


def _settings(changes: Iterable[ChangeView]) -> str:
    return "; ".join(f"{each.path}: {each.property} = {json.dumps(each.value)}" for each in changes)


def _must_be_recreated(workload: WorkloadView, patch: Mapping[str, Any]) -> bool:
    """Whether the API server rejects the update of an existing object: of a Pod's spec, or of a Job's template.

    Source: kubernetes/kubernetes v1.36.1 pkg/apis/{core,batch}/validation/validation.go
    """
    kind = workload.name.partition(" ")[0]
    return kind == "Pod" or (kind == "Job" and set(patch["spec"]) != {"parallelism"})


def left_over(cluster: ClusterView) -> tuple[list[LeftReplicas], list[LeftReplicas]]:
    """Return the replicas that wait until other workloads end, and the replicas that never get a node."""
    running = {each.name for each in cluster.workloads if each.answer is Answer.YES}
    waiting = [each for each in cluster.left if each.workload in running]
    return waiting, [each for each in cluster.left if each.workload not in running]


def describe_node_count(pool: PoolView) -> str:
    """Return how many nodes a pool has, e.g. ``0 to 4 nodes``."""
    least, most = pool.min_nodes or 0, pool.max_nodes
    if least == most:
        return count(least, "node")
    return f"{least} or more nodes" if most is None else f"{least} to {most} nodes"


def named(row: InstanceTypeView) -> str:
    """Return the name of an instance type, with a star if older EKS images have no driver for it."""
    return f"{row.name}{'' if row.driver_branch == LTS else ' *'}"


def instance_notes(view: InstancesView) -> list[str]:
    """Return notes on the instance types of a list: required drivers and missing prices."""
    rows = view.instance_types
    notes = [NEWER_DRIVER] if any(each.driver_branch != LTS for each in rows) else []
    notes += [f"{each.name} has no price: {each.without_price}." for each in rows if each.without_price]
    left = view.left_out_without_price
    return notes + [f"{each.name} is left out because it has no price: {each.why}." for each in left]


def image_rows(cluster: PullsView, *, mirrored: bool) -> Rows:
    """Return the columns and the rows of a cluster's images."""
    columns = ("Image", "Requested by", *(("In the mirror",) if mirrored else ()))
    return columns, [_image(each, mirrored=mirrored) for each in cluster.images]


def _image(image: PulledImageView, *, mirrored: bool) -> tuple[str, ...]:
    askers = [f"{each.what} ({each.value})" if each.value else each.what for each in image.asked_by]
    return image.reference, listed(askers, "object"), *(_place(image) if mirrored else ())


def chart_rows(cluster: PullsView, *, mirrored: bool) -> Rows:
    """Return the columns and the rows of a cluster's charts."""
    columns = ("Chart", "From", "Its images", *(("In the mirror",) if mirrored else ()))
    return columns, [_chart(each, mirrored=mirrored) for each in cluster.charts]


def _chart(chart: PulledChartView, *, mirrored: bool) -> tuple[str, ...]:
    name = f"{chart.name} {chart.version or '(unknown version)'}"
    how = f"read {chart.as_of}" if chart.images == "read" else chart.images
    return name, chart.repository or "unknown", how, *(_place(chart) if mirrored else ())


def _place(each: PulledImageView | PulledChartView) -> tuple[str]:
    return (each.target or f"not copied: {each.not_copied}",)


def addon_lines(cluster: PullsView) -> Iterator[str]:
    """Yield a line about the add-ons of a cluster."""
    if cluster.addons:
        names = [each.name for each in cluster.addons]
        yield f"Add-ons {', '.join(names)}: {cluster.addons[0].images}."


def images_summary(view: ImagesView) -> str:
    """Return the number of images and charts, in one line."""
    images = len({each.reference for one in view.clusters for each in one.images})
    charts = len({(each.name, each.version) for one in view.clusters for each in one.charts})
    missing = sum(len(each.not_known) for each in view.clusters) + len(view.unread)
    known = f"{count(images, 'image')} and {count(charts, 'chart')} in {count(len(view.clusters), 'cluster')}"
    return f"{known}; {missing} unknown" if missing else known


def mirror_lines(view: ImagesView) -> Iterator[str]:
    """Yield the settings of charts and nodes for the mirror."""
    mirror = view.mirror
    if mirror is None:
        return
    yield f"Charts: set the context key gpu-constructs:chartMirror to {mirror.chart_mirror}"
    if mirror.ecr_region:
        yield "Images: set image= and values= to names in the mirror"
        yield "Nodes can't use ECR as a mirror of other registries"
    elif mirror.registry_mirrors:
        mirrors = ", ".join(f'"{name}": "{address}"' for name, address in mirror.registry_mirrors.items())
        yield f"Images: set Host(registry_mirrors={{{mirrors}}})"
