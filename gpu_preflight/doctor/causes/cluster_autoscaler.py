"""Why Cluster Autoscaler adds no node for a pod.

Its event about a pod counts node groups per reason. Which group has which reason isn't in the event, so the counts are
compared with the status of each group. Sources: Cluster Autoscaler 1.36.1, processors/status and clusterstate/api
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from shlex import quote
from typing import Any

from gpu_facts.light import regex
from gpu_facts.resources import GPU
from gpu_preflight.doctor.capacity import (
    RECENT_SECONDS,
    Group,
    controller,
    controller_faults,
    controller_logs,
    fitting_groups,
    groups,
    is_ready,
    needs_node,
)
from gpu_preflight.doctor.cause import Cause, Clock, Confidence, Evidence, Symptom, weaker
from gpu_preflight.doctor.dump import parse_time
from gpu_preflight.doctor.live import Event, Live, Target, title
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, mapping

_NAME = "cluster-autoscaler"
_STATUS = "ConfigMap kube-system/cluster-autoscaler-status"
_TAGS = f"k8s.io/{_NAME}"
_PART = regex(r"(\d+) (.+?)(?=, \d+ |$)")
_PREFIX = "pod didn't trigger scale-up"
# Pods with a lower priority don't cause a scale-up, by the default of --expendable-pods-priority-cutoff.
_CUTOFF = -10
_MISMATCHES = ("untolerated taint", "node affinity/selector")
_OLD_SECONDS = 900
_NO_CAPACITY = ("placeholder-cannot-be-fulfilled", "AWS cannot provision any more instances")
_FLAGS = "Cluster Autoscaler 1.36, FAQ.md, flags"
# Texts of the event about a pod that describe the state of a group.
_STATES = (
    ("max node group size reached", "C6"),
    ("in backoff after failed scale-up", "C7"),
    ("not ready for scale-up", "C8"),
    ("exceeded quota", "C9"),
    ("max total nodes in cluster reached", "C9"),
    ("max cluster", "C9"),
)
# Events about the status ConfigMap, by their reason.
_CLUSTER_EVENTS = (
    Symptom("C9", ("MaxNodesTotalReached",), "has reached --max-nodes-total", "raise --max-nodes-total"),
    Symptom(
        "C10", ("ClusterUnhealthy",), "stops, because too many nodes aren't ready", "repair the nodes that aren't ready"
    ),
)
_GROUP_EVENTS = (
    Symptom("C11", ("ScaleUpFailed",), "AWS added no instance to {}", "read the activities of the Auto Scaling group"),
    Symptom(
        "C12",
        ("ScaleUpTimedOut",),
        "New nodes of {} didn't register in time",
        "find out why the instances don't join",
    ),
    Symptom(
        "C13",
        ("FailedToScaleUpGroup",),
        "AWS rejects the scale-up of {}",
        "grant the role of Cluster Autoscaler the action",
    ),
)


def find(live: Live, target: Target) -> Iterator[Cause]:
    """Yield the causes of a pod for which Cluster Autoscaler would have to add a node."""
    if not needs_node(live, target) or target.pod is None:
        return
    deployment, status = controller(live, _NAME), live.autoscaler_status
    fitting, every = fitting_groups(live, target), groups(live)
    events = live.object_events(target.pod, component=_NAME)
    refusal = next((each for each in events if each.reason == "NotTriggerScaleUp"), None)
    if deployment is None and not status and not events:
        return
    stopped = list(_stopped(live, deployment, status, fitting, is_reported=bool(events)))
    yield from stopped
    if stopped:
        return
    parts = [(int(each[1]), each[2]) for each in _PART.finditer(refusal.message.partition(":")[2])] if refusal else []
    # The ConfigMap outlives Cluster Autoscaler, so an old status proves nothing.
    age = _age(live, status)
    sure: Confidence = "proven" if age is not None and age <= _OLD_SECONDS else "likely"
    for cause in (
        *_undiscovered(live, status, refusal, every),
        *_states(live, refusal, parts, fitting or fitting_groups(live, target, with_taints=False)),
        *_templates(live, target, refusal, parts, every),
        *_cluster(live, status),
        *_group_events(live, fitting),
        *_new_nodes(live, target, events),
    ):
        yield replace(cause, confidence=weaker(sure, cause.confidence))
    priority = target.spec.get("priority")
    if isinstance(priority, int) and priority < _CUTOFF and not events:
        message = f"{target.title} has priority {priority}, and Cluster Autoscaler ignores pods below {_CUTOFF}"
        fix = "raise the priority of the pod, or lower --expendable-pods-priority-cutoff"
        shown = (Evidence(target.title, "spec.priority", str(priority)),)
        has_events = live.certainty("Event") is not None
        excluded = ("The pod has no event of it",) if has_events else ()
        sure = "likely" if has_events else "possible"
        yield Cause("C15", target.title, message, sure, shown, fix, excluded=excluded)


def _stopped(
    live: Live, deployment: Object | None, status: Mapping[str, Any], fitting: list[Group], *, is_reported: bool
) -> Iterator[Cause]:
    """C1 and C2: it doesn't run, or its loop doesn't."""
    age = _age(live, status)
    is_old = age is not None and age > _OLD_SECONDS
    old = (Evidence(_STATUS, "data.status.time", str(status.get("time"))),)
    if deployment is None:
        if live.certainty("Deployment") is not None and is_old and fitting:
            message = "Cluster Autoscaler has no Deployment, and its status is old"
            yield Cause("C1", _STATUS, message, "likely", old, "install Cluster Autoscaler")
        return
    title = deployment.title
    if (fault := controller_faults(live, deployment)) is not None:
        message = f"{title} {fault.text}, so no node is added"
        yield Cause("C1", title, message, "proven", fault.evidence, fault.fix, fault.command, because=fault.because)
    elif not is_reported and not status and (logged := tuple(controller_logs(live, deployment, "Waiting for caches"))):
        message = f"{title} waits for its caches and has written no status, so its loop never starts"
        fix = "give its ClusterRole list and watch for each resource that its log reports as forbidden"
        logged = (*logged, *controller_logs(live, deployment, "is forbidden: User"))
        yield Cause("C2", title, message, "likely", logged, fix, excluded=("Its pod is ready",))
    elif not is_reported and is_old:
        message = (
            f"Cluster Autoscaler hasn't written its status for {int((age or 0) // 60)} minutes, and its pod is ready"
        )
        fix = "read its log: it may not be the leader, or its loop hangs"
        command = f"kubectl logs -n {quote(deployment.namespace)} deployment/{quote(deployment.name)}"
        yield Cause("C1", title, message, "likely", old, fix, command)


def _age(live: Live, status: Mapping[str, Any]) -> float | None:
    """Return the seconds since Cluster Autoscaler wrote its status; ``None`` without a time."""
    written = parse_time(str(status.get("time") or "").replace(" UTC", "").replace(" +0000", "+00:00"))
    return live.seconds_since(written)


def _undiscovered(
    live: Live, status: Mapping[str, Any], refusal: Event | None, every: tuple[Group, ...]
) -> Iterator[Cause]:
    is_empty = isinstance(status.get("nodeGroups"), list) and not status["nodeGroups"]
    is_silent = refusal is not None and not refusal.message.partition(_PREFIX)[2].strip(" :")
    if not (is_empty or is_silent):
        return
    shown = [Evidence(_STATUS, "data.status.nodeGroups", "[]")] if is_empty else []
    shown += [live.event_evidence(refusal)] if refusal is not None and is_silent else []
    untagged = [each for each in every if each.scaling and f"{_TAGS}/enabled" not in each.tags]
    shown += [Evidence(f"Auto Scaling group {each.scaling_group}", "Tags", "without the tags") for each in untagged[:1]]
    fix = f"tag the Auto Scaling groups as --node-group-auto-discovery names them, e.g. with {_TAGS}/enabled"
    message = "Cluster Autoscaler discovers no node group"
    yield Cause("C3", _STATUS, message, "proven" if is_empty else "likely", tuple(shown), fix)


def _states(live: Live, refusal: Event | None, parts: list[tuple[int, str]], capable: list[Group]) -> Iterator[Cause]:
    """C6 to C9, C11: the state of a group that could take the pod."""
    named = {id: text for _, text in parts for part, id in _STATES if part in text}
    for group in capable:
        for id, state in (("C6", _full), ("C7", _backoff), ("C8", _unhealthy)):
            yield from state(live, group, refusal if id in named else None)
    if "C9" in named and refusal is not None:
        message = f"Cluster Autoscaler has reached a limit of the whole cluster: {named['C9']}"
        yield Cause("C9", _STATUS, message, "likely", (live.event_evidence(refusal),), "raise this limit")
    if not capable and "C6" in named and refusal is not None:
        message = f"Cluster Autoscaler has no node group for the pod below its max size: {named['C6']}"
        yield Cause(
            "C6", _STATUS, message, "likely", (live.event_evidence(refusal),), "raise the max size of the group"
        )


def _full(live: Live, group: Group, refusal: Event | None) -> Iterator[Cause]:
    if group.max_size is None or group.size is None or group.size < group.max_size:
        return
    source = _STATUS if group.status else "aws autoscaling describe-auto-scaling-groups"
    shown = [Evidence(source, f"{group.title}, target of max size", f"{group.size} of {group.max_size}")]
    shown += [live.event_evidence(refusal)] if refusal is not None else []
    command = ""
    if group.managed.get("clusterName"):
        names = f"--cluster-name {quote(str(group.managed['clusterName']))} --nodegroup-name {quote(group.name)}"
        command = f"aws eks update-nodegroup-config {names} --scaling-config maxSize={group.max_size + 1}"
    message = f"{group.title} is at its max size: {group.size} of {group.max_size} nodes"
    confidence: Confidence = "proven" if refusal is not None and group.status else "likely"
    yield Cause("C6", group.title, message, confidence, tuple(shown), "raise the max size of the group", command)


def _backoff(live: Live, group: Group, refusal: Event | None) -> Iterator[Cause]:
    scale_up = mapping(group.status.get("scaleUp"))
    if scale_up.get("status") != "Backoff":
        return
    info, title = mapping(scale_up.get("backoffInfo")), group.title
    text = ": ".join(str(info[each]) for each in ("errorCode", "errorMessage") if info.get(each)) or "without a reason"
    own = Evidence(_STATUS, f"nodeGroups[{group.scaling_group}].scaleUp.backoffInfo", text)
    shown = (own, *([live.event_evidence(refusal)] if refusal is not None else []))
    since = str(scale_up.get("lastTransitionTime") or "")
    clock = Clock("Cluster Autoscaler tries the group again", since, "5 to 30 minutes", _FLAGS)
    fix = "read the activities of the Auto Scaling group, fix the failure and wait"
    command = f"aws autoscaling describe-scaling-activities --auto-scaling-group-name {quote(group.scaling_group)}"
    message = f"{title} is in backoff after a failed scale-up: {text}"
    yield Cause("C7", title, message, "proven", shown, fix, command, clock=clock)
    if any(each in text for each in _NO_CAPACITY):
        message = f"AWS doesn't provide instances for {title}: {text}"
        yield Cause("C11", title, message, "proven", shown, fix, command, clock=clock)


def _unhealthy(live: Live, group: Group, refusal: Event | None) -> Iterator[Cause]:
    health = mapping(group.status.get("health"))
    is_unhealthy = health.get("status") == "Unhealthy"
    if not is_unhealthy and refusal is None:
        return
    counts = mapping(health.get("nodeCounts"))
    amounts = [f"{counts[each]} {each}" for each in ("longUnregistered", "unregistered") if counts.get(each)]
    unready = _unready(group).get("total")
    amounts += [f"{unready} unready"] if unready else []
    shown = [Evidence(_STATUS, f"nodeGroups[{group.scaling_group}].health.status", str(health.get("status")))]
    shown += [live.event_evidence(refusal)] if refusal is not None else []
    message = f"{group.title} isn't healthy: {', '.join(amounts) or 'its nodes are not ready'}"
    fix = "find out why its instances don't join or aren't ready"
    yield Cause("C8", group.title, message, "proven" if is_unhealthy else "likely", tuple(shown), fix)


def _unready(group: Group) -> Mapping[str, Any]:
    counts = mapping(dig(group.status, "health", "nodeCounts"))
    return mapping(dig(counts, "registered", "unready") or counts.get("unready"))


def _templates(
    live: Live, target: Target, refusal: Event | None, parts: list[tuple[int, str]], every: tuple[Group, ...]
) -> Iterator[Cause]:
    """C4, C5, C20, C21: the node that Cluster Autoscaler expects of a group doesn't take the pod."""
    if refusal is None or any(part in text for _, text in parts for part, _ in _STATES):
        return
    capable = fitting_groups(live, target) or fitting_groups(live, target, with_taints=False)
    empty = [each for each in capable if not any(is_ready(live, one) for one in each.nodes)]
    shown, subject = (live.event_evidence(refusal),), (*empty, *capable)[0].title if capable else target.title
    if target.spec.get("resourceClaims") and any("cannot allocate all claims" in text for _, text in parts):
        message = (
            f"Cluster Autoscaler has no devices for the resource claims of the pod in {subject}, which has no node"
        )
        yield Cause("C21", subject, message, "likely", shown, "set the min size of the node group to 1")
        return
    device = next(iter(target.devices), GPU)
    lacking = max((count for count, text in parts if f"Insufficient {device}" in text), default=0)
    total = sum(1 for each in every if each.status)
    others = total - sum(1 for each in capable if each.status) if total else 0
    # The reasons of groups that can't take the pod are in the event too. Their nodes show how many there are.
    mismatched = [(count, text) for count, text in parts if any(each in text for each in _MISMATCHES)]
    fits = {each.node.name: each for each in live.fits(target)}
    rest = [each for each in every if each not in capable and each.status]
    known = [[fits[one.name] for one in each.nodes if one.name in fits] for each in rest]
    # A group without a node may be one of them.
    expected = sum(not each or any(one.taints or one.labels for one in each) for each in known)
    is_of_others = sum(count for count, _ in mismatched) <= expected
    if empty and lacking and (lacking > others or is_of_others):
        key = f"{_TAGS}/node-template/resources/{device}"
        if key in empty[0].tags:
            message = (
                f"Cluster Autoscaler expects no {device} of {subject}, although a tag sets it: its template may be old"
            )
            tagged = (
                *shown,
                Evidence(f"Auto Scaling group {empty[0].scaling_group}", f"Tags[{key}]", empty[0].tags[key]),
            )
            yield Cause("C20", subject, message, "possible", tagged, "restart Cluster Autoscaler")
            return
        message = f"Cluster Autoscaler expects no {device} of {subject}, which has no node"
        fix = f"tag the Auto Scaling group with {key}, or grant Cluster Autoscaler eks:DescribeNodegroup"
        excluded = (f"{subject} isn't at its max size", "It isn't in backoff")
        yield Cause("C4", subject, message, "likely", shown, fix, excluded=excluded)
        return
    for count, text in mismatched if capable and (not is_of_others or not total) else ():
        what = "a taint that the pod doesn't tolerate" if "taint" in text else "other labels than the pod selects"
        message = f"Cluster Autoscaler expects {what} on nodes of {subject}: {count} {text}"
        fix = "correct the node-template tags or taints of the group, or the toleration or selector of the pod"
        yield Cause("C5", subject, message, "likely", shown, fix)


def _cluster(live: Live, status: Mapping[str, Any]) -> Iterator[Cause]:
    """C9 and C10: the whole cluster."""
    health = mapping(dig(status, "clusterWide", "health"))
    if health.get("status") == "Unhealthy" or "no ready nodes" in str(status.get("message")):
        counts = mapping(dig(health, "nodeCounts", "registered"))
        shown = (Evidence(_STATUS, "data.status.clusterWide.health.status", str(health.get("status"))),)
        numbers = [counts.get(each, "an unknown number") for each in ("ready", "total")]
        message = (
            f"Cluster Autoscaler stops, because the cluster is unhealthy: {numbers[0]} of {numbers[1]} nodes are ready"
        )
        yield Cause("C10", _STATUS, message, "proven", shown, "repair or delete the nodes that aren't ready")
        return
    for event in _recent(live):
        for symptom in _CLUSTER_EVENTS:
            if event.reason in symptom.texts:
                message, shown = f"Cluster Autoscaler {symptom.fault}", (live.event_evidence(event),)
                yield Cause(symptom.id, _STATUS, message, "likely", shown, symptom.fix)


def _recent(live: Live) -> list[Event]:
    every = [each for each in live.events if each.kind == "ConfigMap" and "autoscaler" in each.name]
    return [each for each in every if (live.seconds_since(each.time) or 0) < RECENT_SECONDS]


def _group_events(live: Live, fitting: list[Group]) -> Iterator[Cause]:
    clock = Clock("Cluster Autoscaler gives up on nodes that don't register", "", "15 minutes", _FLAGS)
    for event in _recent(live):
        own = next((each for each in fitting if each.scaling_group and each.scaling_group in event.message), None)
        for symptom in _GROUP_EVENTS:
            if event.reason in symptom.texts and own is not None:
                confidence: Confidence = "proven" if dig(own.status, "scaleUp", "status") == "Backoff" else "likely"
                message = f"{symptom.fault.format(own.title)}: {event.message}"
                waits = clock if symptom.id == "C12" else None
                shown = (live.event_evidence(event),)
                yield Cause(symptom.id, own.title, message, confidence, shown, symptom.fix, clock=waits)


def _new_nodes(live: Live, target: Target, events: list[Event]) -> Iterator[Cause]:
    """C16 and C19: a node was added, and the pod doesn't fit it."""
    triggered = next((each for each in events if each.reason == "TriggeredScaleUp"), None)
    fits = {each.node.name: each for each in live.fits(target)}
    for group in fitting_groups(live, target, with_taints=False):
        missing, ready = _unready(group).get("resourceUnready"), [each for each in group.nodes if is_ready(live, each)]
        bare = [each for each in ready if not any(live.allocatable(each).get(name) for name in target.devices)]
        if missing and bare:
            place = f"nodeGroups[{group.scaling_group}].health.nodeCounts.registered.unready.resourceUnready"
            message = f"Cluster Autoscaler waits for the GPUs of {title(bare[0])}, which is ready and offers none"
            fix = "find out why the device plugin doesn't run on the node"
            yield Cause("C16", group.title, message, "proven", (Evidence(_STATUS, place, str(missing)),), fix)
        elif triggered is not None and triggered.time is not None and group.scaling_group in triggered.message:
            for node in ready:
                created, fit = live.created(node), fits[node.name]
                faults = [*map(str, fit.taints), *map(str, fit.labels), *fit.unknown]
                if created is not None and created >= triggered.time and faults:
                    message = f"{title(node)} was added for the pod and doesn't take it: {faults[0]}"
                    place = "spec.taints" if fit.taints else "metadata.labels"
                    shown = (live.event_evidence(triggered), Evidence(title(node), place, faults[0]))
                    fix = "make the node-template tags of the group equal to its nodes, or add the toleration"
                    yield Cause("C19", group.title, message, "likely", shown, fix)
