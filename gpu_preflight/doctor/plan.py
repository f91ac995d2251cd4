"""Differences between a plan, a running cluster and the view of its autoscaler.

A plan is a synthesized assembly, a template or manifests. CloudFormation compares a new template with the deployed
template, and not with the cluster. So a deployment of an unchanged template restores nothing, and drift detection
can't see objects that ``kubectl`` applies for a custom resource.

Source, read 2026-11:
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref-requesttypes-update.html
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpu_facts.doctor_reads import RESOURCES
from gpu_facts.kubernetes import CLUSTER_SCOPED
from gpu_facts.labels import KUEUE_QUEUE
from gpu_facts.light import dataclass
from gpu_facts.quantities import count
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.doctor.difference import Difference, Found, autoscaler_view, make_difference, set_field
from gpu_preflight.doctor.dump import Dump, NotLooked
from gpu_preflight.doctor.fields import (
    FieldDifference,
    Member,
    field_differences,
    last_writer,
    patch_body,
    unknown_fields,
)
from gpu_preflight.doctor.live import Live, Target, title
from gpu_preflight.doctor.patches import patch_command
from gpu_preflight.doctor.planned_pools import pool_differences
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.software import DaemonSet
from gpu_preflight.reading.documents import UnusableInput
from gpu_preflight.reading.inputs import Input
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import HIDDEN, Unknown, as_written, known_text, mapping

# Kinds whose objects may be gone because their run has ended.
_ENDS = ("Job", "Pod")
_STOPPED = "pods that the differences stop"
_MAX_TRIALS = 20
_MAX_WORKLOADS = 50
_MAX_NODES = 1_000
_MAX_COMMAND = 1_500


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences between a plan and a running cluster.

    Attributes:
        compared: Number of planned objects and node groups that were found or are certainly missing.
        differences: The differences, those that stop pods first.
        not_compared: Parts of the plan that weren't compared, each with the reason.
    """

    compared: int
    differences: tuple[Difference, ...]
    not_compared: tuple[NotLooked, ...]


def compare(live: Live, plan: Input, targets: Iterable[Target]) -> Comparison:
    """Return the differences between a plan and a running cluster, and the pods that each one stops.

    Args:
        live: The cluster.
        plan: The plan.
        targets: The pods that don't run.

    Raises:
        UnusableInput: The plan has several clusters, or its cluster has another name than the cluster of the dump.
    """
    cluster = _cluster(live, plan)
    skipped: list[NotLooked] = []
    compared: list[str] = []
    found = [
        *_object_differences(live, cluster, skipped, compared),
        *_chart_differences(live, cluster, skipped, compared),
        *pool_differences(live, cluster, skipped, compared),
    ]
    waiting = _waiting(live, targets, skipped)
    if waiting and len(found) > _MAX_TRIALS:
        skipped.append(NotLooked(_STOPPED, f"only the first {_MAX_TRIALS} of {len(found)} differences were tried"))
    if waiting:
        untried = [each.difference.object for each in found[:_MAX_TRIALS] if each.repair is None]
        skipped += (NotLooked(each, "the simulation can't try the planned value") for each in untried)
    done = [_with_stopped(live, each, waiting if place < _MAX_TRIALS else []) for place, each in enumerate(found)]
    skipped += (*_other_resources(cluster), *_unread_parts(plan, cluster))
    ordered = sorted(done, key=lambda each: not each.stops)
    return Comparison(len(compared), tuple(ordered), tuple(dict.fromkeys(skipped)))


def _cluster(live: Live, plan: Input) -> Cluster:
    found = clusters(plan)
    keys = (("cluster", "name"), ("nodegroup", "clusterName"))
    written = (known_text(mapping(each).get(key)) for part, key in keys for each in live.aws(part))
    names = {each for each in written if each}
    own = found if len(found) == 1 else [each for each in found if each.name in names]
    if len(own) != 1:
        listed = ", ".join(each.title for each in found)
        raise UnusableInput(
            f"--against must hold one cluster, or the one that 'aws eks describe-cluster' in the dump names, got "
            f"{listed}; pass the template of one cluster"
        )
    resource = own[0].resource
    # A cluster without a known name is named by its path.
    if names and resource is not None and own[0].name not in (resource.path, *names):
        raise UnusableInput(
            f"--against must hold cluster {' or '.join(sorted(names))} of the dump, got {own[0].name}; "
            "pass the template of the same cluster"
        )
    return own[0]


def _other_resources(cluster: Cluster) -> Iterator[NotLooked]:
    """Yield the resources of the plan that are neither node groups nor objects or charts."""
    pools = {each.resource.key for each in cluster.pools if each.resource is not None}
    origins = (*(each.origin for each in cluster.objects), *(each.origin for each in cluster.charts))
    others = cluster.resources.keys() - pools - {each.resource for each in origins}
    if others:
        what = f"{count(len(others), 'other resource')} of the plan"
        yield NotLooked(what, "only Kubernetes objects and node groups are compared")


def _unread_parts(plan: Input, cluster: Cluster) -> Iterator[NotLooked]:
    """Yield the parts of the plan that can't be read or aren't read."""
    yield from (NotLooked(each.origin.path, each.reason) for each in cluster.unread)
    yield from (NotLooked(each.origin.path, each.text) for each in plan.broken if not each.silent)
    for each in plan.skipped:
        yield from (NotLooked(name, f"{each.what} aren't read") for name in each.names)


# Objects.


def _object_differences(live: Live, cluster: Cluster, skipped: list[NotLooked], compared: list[str]) -> Iterator[Found]:
    scaled, deployed = _scaled(live, cluster), {_key(each): each for each in live.dump.objects}
    for each in cluster.objects:
        have = deployed.get(_key(each))
        if why := _reason_to_skip(each, have):
            skipped.append(NotLooked(title(each), why))
        elif have is None:
            yield from _missing(live, cluster, each, skipped, compared)
        else:
            compared.append(title(each))
            skipped += (NotLooked(title(each), why) for why in _unknown_values(each, have))
            for one in field_differences(each.content, have.content, each.kind):
                # Kueue suspends a job until its queue admits it.
                is_queued = one.path == ("spec", "suspend") and KUEUE_QUEUE in each.labels
                if not is_queued and not _may_be_scaled(live, each, one, scaled, skipped):
                    yield _changed(live, each, have, one)


def _unknown_values(planned: Object, have: Object) -> Iterator[str]:
    """Yield why some values of an object can't be compared."""
    if unknown := list(unknown_fields(dict(planned.content))):
        more = f" and {len(unknown) - 3} more fields" if len(unknown) > 3 else ""
        yield f"{', '.join(unknown[:3])}{more}: the value is known at deployment only"
    if HIDDEN in str(have.content):
        yield "values of environment variables are hidden in the dump"


def _may_be_scaled(
    live: Live, each: Object, found: FieldDifference, scaled: set[tuple[str, str, str]], skipped: list[NotLooked]
) -> bool:
    """Whether an autoscaler of pods sets a field, or may set it, which is listed in `skipped`."""
    if found.path != ("spec", "replicas") or (each.kind, each.namespace, each.name) in scaled:
        return found.path == ("spec", "replicas")
    if live.certainty("HorizontalPodAutoscaler") is not None:
        return False
    why = "without the list of kind HorizontalPodAutoscaler, an autoscaler of pods may set it"
    skipped.append(NotLooked(title(each), f"spec.replicas is {found.live}, planned {found.planned}: {why}"))
    return True


def _reason_to_skip(each: Object, have: Object | None) -> str:
    """Return why an object can't be compared with the one in the cluster; empty if it can."""
    metadata = mapping(each.content.get("metadata"))
    if "name" not in metadata and "generateName" in metadata:
        return "the API server completes its name"
    if not isinstance(metadata.get("name"), str) or isinstance(metadata.get("namespace"), Unknown):
        return "its name is known at deployment only"
    if each.alternative:
        return f"only {each.alternative} has it"
    if have is not None and have.content.get("apiVersion") != each.content.get("apiVersion"):
        return f"the plan has {each.content.get('apiVersion')}, and the dump has {have.content.get('apiVersion')}"
    # EKS adds the roles of its node groups.
    return "EKS adds entries to it" if (each.kind, each.name) == ("ConfigMap", "aws-auth") else ""


def _key(each: Object) -> tuple[str, str, str, str]:
    return each.group, each.kind, each.namespace, each.name


def _scaled(live: Live, cluster: Cluster) -> set[tuple[str, str, str]]:
    """Return the objects whose replicas an autoscaler of pods sets."""
    every = (*live.dump.objects, *cluster.objects)
    scalers = [each for each in every if each.kind in ("HorizontalPodAutoscaler", "ScaledObject")]
    goals = [(each.namespace, mapping(each.spec.get("scaleTargetRef"))) for each in scalers]
    return {(str(goal.get("kind") or "Deployment"), namespace, str(goal.get("name"))) for namespace, goal in goals}


def _missing(
    live: Live, cluster: Cluster, each: Object, skipped: list[NotLooked], compared: list[str]
) -> Iterator[Found]:
    name, dump = title(each), live.dump
    resource = cluster.resources.get(each.origin.resource or "")
    sure = live.certainty(each.kind) if _may_be_listed(dump, each) else None
    sure = "proven" if each.kind == "ConfigMap" and f"{each.namespace}/{each.name}" in dump.absent else sure
    is_namespaced = each.kind not in CLUSTER_SCOPED
    elsewhere = _with_other_namespace(dump, each) if is_namespaced else None
    if is_namespaced and dump.namespace and dump.namespace != each.namespace:
        skipped.append(NotLooked(name, f"the dump is limited to namespace {dump.namespace}"))
    elif elsewhere is not None:
        skipped.append(NotLooked(name, f"the plan doesn't set its namespace, and the dump has {elsewhere.title}"))
    elif sure is None:
        kind = f"{each.kind} of {each.group}" if "." in each.group else each.kind
        skipped.append(NotLooked(name, f"the list of kind {kind} isn't in the dump"))
    elif resource is not None and resource.conditional:
        skipped.append(NotLooked(name, "a condition of the template decides whether it exists"))
    elif each.kind in _ENDS:
        skipped.append(NotLooked(name, "isn't in the cluster, which is right after its run has ended"))
    else:
        compared.append(name)
        text = json.dumps(as_written(dict(each.content)), separators=(",", ":"))
        is_complete = not any(unknown_fields(dict(each.content))) and len(text) <= _MAX_COMMAND
        command = f"printf %s {shlex.quote(text)} | kubectl apply -f -" if is_complete else ""
        unsure = "" if sure == "proven" else ", if its list in the dump is complete"
        message = f"{name} isn't in the cluster{unsure}"
        again = "; a deployment of an unchanged template doesn't restore it"
        fix = f"Apply {name} of {each.origin.file} again"
        if each.origin.resource is not None:
            fix = f"Apply {name} of {each.origin.resource} with kubectl{again}"
        found = Difference(name, "", "exists", "none", message, "", "", "", (), fix, command)
        yield Found(found, lambda dump: replace(dump, objects=[*dump.objects, each]))


def _may_be_listed(dump: Dump, each: Object) -> bool:
    """Whether the dump may have the list of an object's kind. Another API group may have a kind of the same name."""
    groups = {resource.partition(".")[2] for resource, kind in RESOURCES.items() if kind == each.kind}
    if not groups and each.kind in dump.complete | dump.listed:
        groups = {one.group for one in dump.objects if one.kind == each.kind} or {each.group}
    return each.group in groups


def _with_other_namespace(dump: Dump, each: Object) -> Object | None:
    """Return the object of the dump that an object without a written namespace may be."""
    if "namespace" in mapping(each.content.get("metadata")):
        return None
    own = each.group, each.kind, each.name
    return next((one for one in dump.objects if (one.group, one.kind, one.name) == own), None)


def _changed(live: Live, planned: Object, have: Object, found: FieldDifference) -> Found:
    """Return a field of an object that differs."""
    by, when = last_writer(have.content, found.path)
    is_custom = " --type merge" in patch_command(have, {})
    is_whole = not any(unknown_fields(found.planned, "-")) and not (
        is_custom and any(isinstance(each, Member) for each in found.path)
    )
    command = patch_command(have, patch_body(found.path, found.planned)) if is_whole else ""
    view = autoscaler_view(live, have.name, "") if have.kind == "NodePool" else ""
    applied = planned.origin.resource is not None
    difference = make_difference(
        title(planned), found, autoscaler=view, by=by, when=when, command=command, applied=applied
    )
    return Found(difference, set_field(live, have, found.path, found.planned))


# Charts.


def _chart_differences(live: Live, cluster: Cluster, skipped: list[NotLooked], compared: list[str]) -> Iterator[Found]:
    """Yield device plugins of planned charts that don't run, or that tolerate other taints."""
    written = {each.origin for each in cluster.objects}
    for chart in cluster.charts:
        skipped.append(
            NotLooked(f"chart {chart.name}", "of charts, only the DaemonSets of device plugins are compared")
        )
    for each in cluster.daemon_sets:
        if each.origin in written or not each.advertises:
            continue
        running = [one for one in live.case.cluster.daemon_sets if set(one.advertises) & set(each.advertises)]
        running = [one for one in running if one.name == each.name] or running
        name = f"DaemonSet {each.name} of {each.origin.path}"
        sure = live.certainty("DaemonSet")
        if not running and sure is None:
            skipped.append(NotLooked(name, "the list of kind DaemonSet isn't in the dump"))
        elif not running:
            compared.append(name)
            unsure = "" if sure == "proven" else ", if its list in the dump is complete"
            message = f"{name}, which advertises {', '.join(each.advertises)}, isn't in the cluster{unsure}"
            fix = "Install the release again; a deployment of an unchanged template doesn't restore it"
            yield Found(Difference(name, "", "exists", "none", message, "", "", "", (), fix, ""))
        elif len(running) > 1:
            listed = ", ".join(one.name for one in running)
            skipped.append(NotLooked(name, f"it may be each of the running DaemonSets {listed}"))
        else:
            yield from _other_tolerations(live, each, running[0], skipped, compared)


def _other_tolerations(
    live: Live, planned: DaemonSet, running: DaemonSet, skipped: list[NotLooked], compared: list[str]
) -> Iterator[Found]:
    every = live.objects("DaemonSet")
    have = next((each for each in every if each.origin == running.origin), None)
    names = ("key", "operator", "value", "effect")
    raw = [{name: getattr(each, name) for name in names} for each in planned.pod.tolerations]
    name = f"DaemonSet {planned.name} of {planned.origin.path}"
    if have is None or any(isinstance(value, Unknown) for each in raw for value in each.values()):
        why = "its tolerations are known at deployment only" if have is not None else "its operator runs it"
        skipped.append(NotLooked(name, why))
        return
    compared.append(name)
    wanted = [{name: value for name, value in each.items() if value} for each in raw]
    content = {"spec": {"template": {"spec": {"tolerations": wanted}}}}
    for each in field_differences(content, have.content, "DaemonSet"):
        if each.path[-1] == "tolerations":
            yield _changed(live, have, have, each)


# Trials.


def _waiting(live: Live, targets: Iterable[Target], skipped: list[NotLooked]) -> list[list[Target]]:
    """Return the pods that have no node, and that don't run in the simulation, by the object that a user wrote."""
    found: dict[str, list[Target]] = {}
    for each in targets:
        if each.node is None:
            found.setdefault(each.root.title, []).append(each)
    if found and len(live.nodes) > _MAX_NODES:
        skipped.append(NotLooked(_STOPPED, f"the cluster has more than {_MAX_NODES:,} nodes"))
        return []
    if len(found) > _MAX_WORKLOADS:
        skipped.append(NotLooked(_STOPPED, f"only {_MAX_WORKLOADS} of {len(found)} workloads were tried"))
    return [each for each in list(found.values())[:_MAX_WORKLOADS] if not _runs(live, each[0])]


def _runs(live: Live, target: Target) -> bool:
    """Whether a node has room for a pod, or its workload runs in the simulation."""
    if target.pod is not None and any(each.fits for each in live.fits(target)):
        return True
    verdict = live.verdict(target)
    return verdict is not None and verdict.answer is Answer.YES


def _with_stopped(live: Live, found: Found, waiting: Sequence[Sequence[Target]]) -> Difference:
    """Return a difference with the pods that run in the simulation with the planned value."""
    if found.repair is None or not waiting:
        return found.difference
    after = Live(found.repair(live.dump), live.now)
    objects = {_key(each): each for each in after.dump.objects}
    stopped: list[str] = []
    for alike in waiting:
        named = objects[_key(alike[0].named)]
        again = after.target(named) if alike[0].pod is not None else after.owner_target(named)
        stopped += [each.title for each in alike] if _runs(after, again) else []
    return replace(found.difference, stops=tuple(stopped))
