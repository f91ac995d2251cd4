"""Causes on a chosen node: kubelet rejects the pod, or the claimed devices can't be prepared.

A rejected pod stays Failed, even if its node recovers. Owners create a new pod, a bare pod must be created again.

Sources: kubernetes v1.36.2 pkg/kubelet/lifecycle/predicate.go, pkg/kubelet/cm/devicemanager/manager.go and
pkg/kubelet/events/event.go, NVIDIA/k8s-device-plugin v0.20.0 internal/plugin/server.go (2026-11)
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from gpu_facts.resources import NVIDIA
from gpu_preflight.doctor.cause import Cause, Confidence, Evidence, Symptom, first_symptom, weaker
from gpu_preflight.doctor.causes.device_plugins import amounts, device_causes, plugin_pods, rival_managers
from gpu_preflight.doctor.dump import LAST_APPLIED
from gpu_preflight.doctor.live import Live, Target
from gpu_preflight.doctor.patches import kubectl
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, known_text, mapping

_OUT_OF = "OutOf"
_AGAIN = "create the pod again once the node offers its GPUs"
_REPLACE = "replace the node, and create the pod again"
# Parts of the message of a pod with the reason UnexpectedAdmissionError, with the fault and its fix.
_REJECTIONS = (
    Symptom("G18", ("cannot allocate unregistered device",), "its device plugin wasn't registered yet", _AGAIN),
    Symptom("G19", ("no healthy devices present",), "its devices are unhealthy", _REPLACE),
    Symptom("G19", ("no longer healthy",), "the pod's device became unhealthy", _REPLACE),
    Symptom(
        "G20",
        ("requested number of devices unavailable",),
        "kubelet has fewer free devices than the scheduler assumed",
        "restart kubelet on the node, and create the pod again",
    ),
    Symptom(
        "G21",
        ("maximum request size for shared resources",),
        "the device plugin accepts one share per container",
        "request 1 share, because more shares of a GPU give no more of it",
    ),
    Symptom("G21", ("rpc",), "the call of the device plugin failed", "replace the node if its GPU is lost"),
)


def find(live: Live, target: Target) -> Iterator[Cause]:
    """Yield why the node of a pod rejects it."""
    if target.pod is None:
        return
    yield from _rejected(live, target, target.pod)
    yield from _absent_node(live, target, target.pod)
    yield from _unprepared(live, target.pod)


def _rejected(live: Live, target: Target, pod: Object) -> Iterator[Cause]:
    status = mapping(pod.content.get("status"))
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    if live.phase(pod) != "Failed" or target.node is None:
        return
    evidence = (Evidence(pod.title, "status.reason", reason), Evidence(pod.title, "status.message", message))
    again = kubectl("delete", pod) if target.owners else ""
    if reason.startswith(_OUT_OF):
        yield _insufficient(live, target, pod, reason.removeprefix(_OUT_OF), evidence, again)
    if reason != "UnexpectedAdmissionError":
        return
    found = first_symptom(_REJECTIONS, message)
    if found is not None:
        text = f"Node {target.node} rejected {pod.title}: {found.fault}"
        node = live.node(target)
        now = tuple(each for name in target.devices for each in amounts(live, node, name)) if node is not None else ()
        yield Cause(found.id, pod.title, text, "proven", (*evidence, *now), found.fix, again)
    node = live.node(target)
    if node is not None:
        yield from rival_managers(live, node, plugin_pods(live, node))
        devices = [each for each in target.devices if not live.allocatable(node).get(each)]
        if devices and found is not None and found.id == "G18":
            yield from device_causes(live, node, devices[0])


def _insufficient(
    live: Live, target: Target, pod: Object, resource: str, evidence: tuple[Evidence, ...], again: str
) -> Cause:
    """Return the cause of a pod for which its node has too little of a resource."""
    by_hand, sure = _named_by_hand(live, target, pod)
    if by_hand is not None:
        message = f"{pod.title} names node {target.node} itself, which has too little {resource}"
        fix = "remove nodeName from the pod's spec, so that the scheduler selects a node"
        return Cause("P10", pod.title, message, sure, (by_hand, *evidence), fix)
    message = f"Node {target.node} rejected {pod.title}: the node has too little {resource}"
    scheduled = live.last_event(pod, "Scheduled")
    sure = "proven" if scheduled is not None else "likely"
    excluded = ("a scheduler bound the pod, so its manifest doesn't name the node",) if scheduled else ()
    id = "G20" if resource.startswith(NVIDIA) else "S1"
    return Cause(id, pod.title, message, sure, evidence, "create the pod again", again, excluded=excluded)


def _named_by_hand(live: Live, target: Target, pod: Object) -> tuple[Evidence | None, Confidence]:
    """Return the evidence that the manifest of a pod names its node; ``None`` if a scheduler selected it."""
    applied = known_text(pod.annotations.get(LAST_APPLIED))
    try:
        written = mapping(json.loads(applied)) if applied else {}
    except ValueError:
        written = {}
    if known_text(dig(written, "spec", "nodeName")):
        return Evidence(pod.title, "last applied spec.nodeName", str(target.node)), "proven"
    for owner in target.owners:
        if known_text(dig(owner.spec, "template", "spec", "nodeName")):
            return Evidence(owner.title, "spec.template.spec.nodeName", str(target.node)), "proven"
    age = live.seconds_since(live.created(pod))
    scheduled = live.object_events(pod, reason="Scheduled")
    if target.owners or written or scheduled or live.certainty("Event") is None or age is None or age > 3600:
        return None, "possible"
    return Evidence(pod.title, "spec.nodeName", f"{target.node}, and no scheduler reports that it bound it"), "likely"


def _absent_node(live: Live, target: Target, pod: Object) -> Iterator[Cause]:
    """Yield the cause that a pod names a node that doesn't exist."""
    sure = live.certainty("Node")
    if target.node is None or live.phase(pod) != "Pending" or live.node(target) is not None or sure is None:
        return
    by_hand, certain = _named_by_hand(live, target, pod)
    if by_hand is not None:
        message = f"{pod.title} names node {target.node} itself, which doesn't exist"
        fix = "remove nodeName from the pod's spec, so that the scheduler selects a node"
        yield Cause("P10", pod.title, message, weaker(sure, certain), (by_hand,), fix)


def _unprepared(live: Live, pod: Object) -> Iterator[Cause]:
    failed = live.last_event(pod, "FailedPrepareDynamicResources")
    if failed is not None and live.is_creating(pod):
        node, detail = str(pod.spec.get("nodeName")), failed.message.partition("resources: ")[2] or failed.message
        message = f"{pod.title} claims devices that the DRA driver of node {node} can't prepare: {detail}"
        fix = "read the log of the DRA driver's kubelet plugin on the node"
        yield Cause("G23", pod.title, message, "likely", (live.event_evidence(failed),), fix)
