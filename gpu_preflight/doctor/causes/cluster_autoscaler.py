"""Why Cluster Autoscaler adds no node for a pod.

Its event about a pod counts node groups per reason. Which group has which reason isn't in the event, so the counts are
compared with the status of each group. Sources: Cluster Autoscaler 1.36.1, processors/status and clusterstate/api
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Any

from gpu_facts.light import regex
from gpu_preflight.doctor.capacity import (
    RECENT_SECONDS,
    Group,
    autoscaler_status,
    controller,
    controller_pods,
    fitting_groups,
    groups,
    is_ready,
    needs_node,
)
from gpu_preflight.doctor.cause import Cause, Clock, Confidence, Evidence
from gpu_preflight.doctor.dump import parse_time
from gpu_preflight.doctor.live import Event, Live, Target
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, mapping, mappings

_NAME = "cluster-autoscaler"
_STATUS = "ConfigMap kube-system/cluster-autoscaler-status"
_PART = regex(r"(\d+) (.+?)(?=, \d+ |$)")
_PREFIX = "pod didn't trigger scale-up"
# Pods with a lower priority don't cause a scale-up, by the default of --expendable-pods-priority-cutoff.
_CUTOFF = -10
_OLD_SECONDS = 900
_NO_CAPACITY = ("placeholder-cannot-be-fulfilled", "AWS cannot provision any more instances")
_BACKOFF = "Cluster Autoscaler 1.36, --initial-node-group-backoff-duration and --max-node-group-backoff-duration"
# Texts of the event about a pod that describe the state of a group: text, cause.
_STATES = (
    ("max node group size reached", "C6"),
    ("in backoff after failed scale-up", "C7"),
    ("not ready for scale-up", "C8"),
    ("exceeded quota", "C9"),
    ("max total nodes in cluster reached", "C9"),
    ("max cluster", "C9"),
)
# Events about the status ConfigMap: reason, cause, fault, fix.
_CLUSTER_EVENTS = (
    ("MaxNodesTotalReached", "C9", "has reached --max-nodes-total", "Raise --max-nodes-total"),
    (
        "ClusterUnhealthy",
        "C10",
        "stops, because too many nodes aren't ready",
        "Repair or delete the nodes that aren't ready",
    ),
)
_GROUP_EVENTS = (
    ("ScaleUpFailed", "C11", "AWS added no instance to {}", "Read the activities of the Auto Scaling group"),
    (
        "ScaleUpTimedOut",
        "C12",
        "The new nodes of {} didn't register in time",
        "Check whether the instances exist, and why they don't join",
    ),
    (
        "FailedToScaleUpGroup",
        "C13",
        "AWS rejects the scale-up of {}",
        "Grant the role of Cluster Autoscaler the denied action, or correct the group",
    ),
)


def find(live: Live, target: Target) -> Iterator[Cause]:
    """Yield the causes of a pod for which Cluster Autoscaler would have to add a node."""
    if not needs_node(live, target) or target.pod is None:
        return
    deployment, status = controller(live, _NAME), autoscaler_status(live)
    fitting, every = fitting_groups(live, target), groups(live)
    events = live.events_of(target.pod, component=_NAME)
    refusal = next((each for each in events if each.reason == "NotTriggerScaleUp"), None)
    if deployment is None and not status and not events:
        return
    stopped = list(_stopped(live, deployment, status, fitting, bool(events)))
    yield from stopped
    if stopped:
        return
    yield from _undiscovered(live, status, refusal, every)
    parts = [(int(each[1]), each[2]) for each in _PART.finditer(refusal.message.partition(":")[2])] if refusal else []
    yield from _states(live, refusal, parts, fitting, status)
    yield from _templates(live, target, refusal, parts, fitting, every)
    yield from _cluster(live, status)
    yield from _group_events(live, fitting)
    yield from _new_nodes(live, target, events, fitting)
    priority = target.spec.get("priority")
    if isinstance(priority, int) and priority < _CUTOFF and not events:
        message = f"{target.title} has priority {priority}, and Cluster Autoscaler ignores pods below {_CUTOFF}"
        fix = "Raise the priority of the pod, or lower --expendable-pods-priority-cutoff"
        shown = (Evidence(target.title, "spec.priority", str(priority)),)
        yield Cause("C15", target.title, message, "likely", shown, fix, excluded=("The pod has no event of it",))


def _stopped(
    live: Live, deployment: Object | None, status: Mapping[str, Any], fitting: list[Group], reported: bool
) -> Iterator[Cause]:
    """C1 and C2: it doesn't run, or its loop doesn't."""
    written = parse_time(str(status.get("time") or "").replace(" UTC", "").replace(" +0000", "+00:00"))
    age = live.seconds_since(written)
    if deployment is None:
        if live.certainty("Deployment") is not None and age is not None and age > _OLD_SECONDS and fitting:
            left = (Evidence(_STATUS, "data.status.time", str(status.get("time"))),)
            message = "Cluster Autoscaler has no Deployment, and its status is old"
            yield Cause("C1", _STATUS, message, "likely", left, "Install Cluster Autoscaler")
        return
    counts = mapping(deployment.content.get("status"))
    wanted, ready = deployment.spec.get("replicas", 1), counts.get("readyReplicas") or 0
    pods = [each for each in controller_pods(live, deployment) if not live.is_fine(each)]
    command = f"kubectl describe deployment -n {quote(deployment.namespace)} {quote(deployment.name)}"
    if ready == 0:
        shown = [Evidence(deployment.title, "status.readyReplicas", f"{ready} of {wanted}")]
        states = [one for pod in pods for one in live.containers(pod) if one.waiting or one.ended]
        shown += [Evidence(pods[0].title, "status.containerStatuses", one.waiting or one.ended) for one in states[:1]]
        what = "is scaled to 0" if wanted == 0 else f"has 0 of {wanted} ready pods"
        fix = f"Diagnose pod {pods[0].name} of Cluster Autoscaler" if pods else "Start Cluster Autoscaler"
        yield Cause(
            "C1",
            deployment.title,
            f"{deployment.title} {what}, so no node is added",
            "proven",
            tuple(shown),
            fix,
            command,
        )
        return
    if reported:
        return
    for pod in controller_pods(live, deployment):
        lines = list(live.log_lines(pod, "Waiting for caches to sync", "is forbidden: User"))
        if any("Waiting for caches" in line for _, line in lines) and not status:
            logged = tuple(Evidence(f"log {pod.name}/{container}", "", line[:300]) for container, line in lines[:2])
            message = f"{deployment.title} waits for its caches and has written no status, so its loop never starts"
            fix = "Give the ClusterRole of Cluster Autoscaler list and watch for the resources that the log names"
            yield Cause("C2", deployment.title, message, "likely", logged, fix, excluded=("Its pod is ready",))
            return
    if age is not None and age > _OLD_SECONDS:
        old = (Evidence(_STATUS, "data.status.time", str(status.get("time"))),)
        message = f"Cluster Autoscaler hasn't written its status for {int(age // 60)} minutes, and its pod is ready"
        fix = "Read the log of Cluster Autoscaler: it may not be the leader, or its loop hangs"
        yield Cause(
            "C1",
            deployment.title,
            message,
            "likely",
            old,
            fix,
            f"kubectl logs -n {quote(deployment.namespace)} deployment/{quote(deployment.name)}",
        )


def _undiscovered(live: Live, status: Mapping[str, Any], refusal: Event | None, every: list[Group]) -> Iterator[Cause]:
    is_empty = isinstance(status.get("nodeGroups"), list) and not status["nodeGroups"]
    is_silent = refusal is not None and not refusal.message.partition(_PREFIX)[2].strip(" :")
    if not (is_empty or is_silent):
        return
    shown = [Evidence(_STATUS, "data.status.nodeGroups", "[]")] if is_empty else []
    shown += [live.of_event(refusal)] if refusal is not None and is_silent else []
    untagged = [each for each in every if each.scaling and f"k8s.io/{_NAME}/enabled" not in each.tags]
    shown += [Evidence(f"Auto Scaling group {each.scaling_group}", "Tags", "without the tags") for each in untagged[:1]]
    message = "Cluster Autoscaler discovers no node group"
    fix = f"Tag the Auto Scaling groups with k8s.io/{_NAME}/enabled and k8s.io/{_NAME}/CLUSTER, as --node-group-auto-discovery names them"
    yield Cause("C3", _STATUS, message, "proven" if is_empty else "likely", tuple(shown), fix)


def _states(
    live: Live, refusal: Event | None, parts: list[tuple[int, str]], fitting: list[Group], status: Mapping[str, Any]
) -> Iterator[Cause]:
    """C6 to C9, C11: the state of a group that could take the pod."""
    named = {id for _, text in parts for part, id in _STATES if part in text}
    for group in fitting:
        yield from _full(live, group, refusal if "C6" in named else None)
        yield from _backoff(live, group, refusal if "C7" in named else None)
        yield from _unhealthy(live, group, refusal if "C8" in named else None)
    if "C9" in named and refusal is not None:
        text = next(text for _, text in parts for part, id in _STATES if id == "C9" and part in text)
        message = f"A limit of Cluster Autoscaler for the whole cluster stops the scale-up: {text}"
        yield Cause(
            "C9", _STATUS, message, "likely", (live.of_event(refusal),), "Raise the limit of Cluster Autoscaler"
        )
    if len(fitting) == 0 and "C6" in named and refusal is not None and not groups(live):
        message = "The node groups that could take the pod are at their max size"
        yield Cause("C6", _STATUS, message, "likely", (live.of_event(refusal),), "Raise the max size of the group")


def _full(live: Live, group: Group, refusal: Event | None) -> Iterator[Cause]:
    if group.max_size is None or group.size is None or group.size < group.max_size:
        return
    shown = [
        Evidence(
            _STATUS if group.status else "aws autoscaling describe-auto-scaling-groups",
            f"{group.title} target and max size",
            f"{group.size} of {group.max_size}",
        )
    ]
    shown += [live.of_event(refusal)] if refusal is not None else []
    name = quote(group.name)
    command = (
        f"aws eks update-nodegroup-config --cluster-name {quote(str(group.managed['clusterName']))} --nodegroup-name {name} --scaling-config maxSize={group.max_size + 1}"
        if group.managed.get("clusterName")
        else ""
    )
    message = f"{group.title} is at its max size: {group.size} of {group.max_size} nodes"
    confidence: Confidence = "proven" if refusal is not None and group.status else "likely"
    yield Cause(
        "C6",
        group.title,
        message,
        confidence,
        tuple(shown),
        "Raise the max size of the group",
        command,
        ("It isn't in backoff",) if not dig(group.status, "scaleUp", "backoffInfo") else (),
    )


def _backoff(live: Live, group: Group, refusal: Event | None) -> Iterator[Cause]:
    scale_up = mapping(group.status.get("scaleUp"))
    if scale_up.get("status") != "Backoff":
        return
    info = mapping(scale_up.get("backoffInfo"))
    text = ": ".join(str(info[each]) for each in ("errorCode", "errorMessage") if info.get(each))
    own = Evidence(_STATUS, f"nodeGroups[{group.scaling_group}].scaleUp.backoffInfo", text)
    shown = (own, *([live.of_event(refusal)] if refusal is not None else []))
    clock = Clock(
        "Cluster Autoscaler tries the group again",
        str(scale_up.get("lastTransitionTime") or ""),
        "5 to 30 minutes",
        _BACKOFF,
    )
    message = f"{group.title} is in backoff after a failed scale-up: {text or 'no reason is reported'}"
    fix = "Read the activities of the Auto Scaling group, fix the failure and wait"
    command = f"aws autoscaling describe-scaling-activities --auto-scaling-group-name {quote(group.scaling_group)}"
    yield Cause("C7", group.title, message, "proven", shown, fix, command, clock=clock)
    if any(each in text for each in _NO_CAPACITY):
        message = f"AWS doesn't provide instances for {group.title}: {text}"
        yield Cause("C11", group.title, message, "proven", shown, fix, command, clock=clock)


def _unhealthy(live: Live, group: Group, refusal: Event | None) -> Iterator[Cause]:
    health = mapping(group.status.get("health"))
    counts = mapping(health.get("nodeCounts"))
    if health.get("status") != "Unhealthy" and refusal is None:
        return
    amounts = [f"{counts[each]} {each}" for each in ("longUnregistered", "unregistered") if counts.get(each)]
    unready = dig(counts, "registered", "unready", "total") or dig(counts, "unready", "total")
    amounts += [f"{unready} unready"] if unready else []
    shown = [Evidence(_STATUS, f"nodeGroups[{group.scaling_group}].health.status", str(health.get("status")))]
    shown += [live.of_event(refusal)] if refusal is not None else []
    message = f"{group.title} isn't healthy: {', '.join(amounts) or 'its nodes are not ready'}"
    confidence: Confidence = "proven" if health.get("status") == "Unhealthy" else "likely"
    yield Cause("C8", group.title, message, confidence, tuple(shown), "Find out why its instances don't join")


def _templates(
    live: Live,
    target: Target,
    refusal: Event | None,
    parts: list[tuple[int, str]],
    fitting: list[Group],
    every: list[Group],
) -> Iterator[Cause]:
    """C4, C5, C20, C21: the node that Cluster Autoscaler expects of a group doesn't take the pod."""
    if refusal is None or any(part in text for _, text in parts for part, _ in _STATES):
        return
    capable = fitting or fitting_groups(live, target, with_taints=False)
    empty = [each for each in capable if not any(is_ready(live, one) for one in each.nodes)]
    shown = (live.of_event(refusal),)
    claims = [text for _, text in parts if "cannot allocate all claims" in text]
    if claims and target.spec.get("resourceClaims"):
        message = "Cluster Autoscaler can't simulate the resource claims of the pod for a node group without nodes"
        fix = "Set the min size of the node group to 1"
        yield Cause("C21", (empty[0].title if empty else target.title), message, "likely", shown, fix)
        return
    lacking = [(count, text) for count, text in parts if any(f"Insufficient {name}" in text for name in target.devices)]
    total = sum(1 for each in every if each.status) or None
    others = None if total is None else total - len([each for each in capable if each.status])
    if lacking and empty and (others is None or lacking[0][0] > others):
        group = empty[0]
        tag = next((key for key in group.tags if key.endswith(f"resources/{next(iter(target.devices))}")), None)
        text = f"{_PREFIX}: {lacking[0][0]} {lacking[0][1]}"
        fix = f"Tag the Auto Scaling group with k8s.io/{_NAME}/node-template/resources/{next(iter(target.devices))}, or grant eks:DescribeNodegroup"
        if tag is not None:
            message = f"Cluster Autoscaler expects no GPUs of {group.title}, although its tag sets them, so its template may be old"
            yield Cause(
                "C20",
                group.title,
                message,
                "possible",
                (*shown, Evidence(group.title, f"Tags[{tag}]", group.tags[tag])),
                "Restart Cluster Autoscaler",
                f"kubectl rollout restart deployment -n kube-system {_NAME}" if controller(live, _NAME) else "",
            )
            return
        message = f"Cluster Autoscaler expects no GPUs of {group.title}, which has no nodes: {text}"
        excluded = (f"{group.title} isn't at its max size", "It isn't in backoff")
        yield Cause("C4", group.title, message, "likely", shown, fix, excluded=excluded)
        return
    for count, text in parts:
        if capable and ("untolerated taint" in text or "node affinity/selector" in text):
            what = "a taint that the pod doesn't tolerate" if "taint" in text else "other labels than the pod selects"
            message = f"Cluster Autoscaler expects {what} on nodes of {capable[0].title}: {count} {text}"
            fix = "Add the toleration or the label to the pod, or correct the node-template tags of the group"
            yield Cause("C5", capable[0].title, message, "likely", shown, fix)


def _cluster(live: Live, status: Mapping[str, Any]) -> Iterator[Cause]:
    """C9 and C10: the whole cluster."""
    health = mapping(dig(status, "clusterWide", "health"))
    if health.get("status") == "Unhealthy" or "no ready nodes" in str(status.get("message")):
        counts = mapping(dig(health, "nodeCounts", "registered"))
        shown = (Evidence(_STATUS, "data.status.clusterWide.health", str(health.get("status"))),)
        message = f"Cluster Autoscaler stops, because the cluster is unhealthy: {counts.get('ready', 0)} of {counts.get('total', '?')} nodes are ready"
        yield Cause("C10", _STATUS, message, "proven", shown, "Repair or delete the nodes that aren't ready")
        return
    for event in _recent(live):
        for reason, id, fault, fix in _CLUSTER_EVENTS:
            if event.reason == reason:
                yield Cause(id, _STATUS, f"Cluster Autoscaler {fault}", "likely", (live.of_event(event),), fix)


def _recent(live: Live) -> list[Event]:
    every = [each for each in live.events if each.kind == "ConfigMap" and "autoscaler" in each.name]
    return [each for each in every if (live.seconds_since(each.time) or 0) < RECENT_SECONDS]


def _group_events(live: Live, fitting: list[Group]) -> Iterator[Cause]:
    for event in _recent(live):
        for reason, id, fault, fix in _GROUP_EVENTS:
            own = [each for each in fitting if each.scaling_group and each.scaling_group in event.message]
            if event.reason == reason and own:
                title = own[0].title
                clock = (
                    Clock(
                        "Cluster Autoscaler gives up on the nodes",
                        "",
                        "15 minutes",
                        "Cluster Autoscaler 1.36, --max-node-provision-time",
                    )
                    if id == "C12"
                    else None
                )
                confidence: Confidence = "proven" if dig(own[0].status, "scaleUp", "status") == "Backoff" else "likely"
                message = f"{fault.format(title)}: {event.message}"
                yield Cause(id, title, message, confidence, (live.of_event(event),), fix, clock=clock)


def _new_nodes(live: Live, target: Target, events: list[Event], fitting: list[Group]) -> Iterator[Cause]:
    """C16 and C19: a node came, and the pod doesn't fit it."""
    triggered = next((each for each in events if each.reason == "TriggeredScaleUp"), None)
    fits = {each.node.name: each for each in live.fits(target)}
    every = {each.scaling_group: each for each in (*fitting, *fitting_groups(live, target, with_taints=False))}
    for group in every.values():
        unready = dig(group.status, "health", "nodeCounts", "unready") or dig(
            group.status, "health", "nodeCounts", "registered", "unready"
        )
        missing = mapping(unready).get("resourceUnready")
        bare = [
            each
            for each in group.nodes
            if is_ready(live, each) and not set(target.devices) & set(live.allocatable(each))
        ]
        if missing and bare:
            shown = (
                Evidence(
                    _STATUS,
                    f"nodeGroups[{group.scaling_group}].health.nodeCounts.unready.resourceUnready",
                    str(missing),
                ),
            )
            message = f"Cluster Autoscaler waits for the GPUs of {bare[0].title}, which is ready and offers none"
            yield Cause(
                "C16", group.title, message, "proven", shown, "Find out why the device plugin doesn't run on the node"
            )
            continue
        if triggered is None or triggered.time is None or group.scaling_group not in triggered.message:
            continue
        for node in group.nodes:
            created, fit = live.created(node), fits[node.name]
            faults = [*map(str, fit.taints), *map(str, fit.labels), *fit.unknown]
            if created and created >= triggered.time and is_ready(live, node) and faults:
                message = f"{node.title} was added for the pod and doesn't take it: {faults[0]}"
                both = (
                    live.of_event(triggered),
                    Evidence(node.title, "spec.taints" if fit.taints else "metadata.labels", faults[0]),
                )
                fix = "Make the node-template tags of the group equal to its nodes, or add the toleration"
                yield Cause("C19", group.title, message, "likely", both, fix)
