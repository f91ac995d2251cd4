"""At which step a node that Karpenter ordered waits, and nodes that EC2 took back.

Sources: kubernetes-sigs/karpenter 1.14.1, pkg/controllers/nodeclaim/lifecycle; aws/karpenter-provider-aws 1.14.1,
pkg/controllers/interruption and pkg/cache
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote

from gpu_facts.labels import NODE_POOL
from gpu_preflight.doctor.capacity import (
    RECENT_SECONDS,
    claims,
    instance_id,
    is_ready,
    needs_node,
    node_pools,
    refused_launches,
)
from gpu_preflight.doctor.cause import Cause, Clock, Confidence, Evidence
from gpu_preflight.doctor.live import Live, Target, title
from gpu_preflight.doctor.patches import kubectl
from gpu_preflight.model.pod import read_pod_template
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig

_LIVENESS = "kubernetes-sigs/karpenter 1.14.1, pkg/controllers/nodeclaim/lifecycle/liveness.go"
_CACHE = "aws/karpenter-provider-aws 1.14.1, pkg/cache"
# Parts of a taint's domain that aren't the name of its component.
_COMMON_WORDS = frozenset(
    ("node", "nodes", "io", "com", "net", "org", "k8s", "sh", "aws", "kubernetes", "startup", "csi")
)
# A NodeClaim that waits for less than this has no fault.
_USUAL_SECONDS = 300
# Large instances take up to 10 minutes to join.
_LATE_SECONDS = 600
# Reasons of the condition Initialized: cause, fault, fix.
_INITIALIZED = {
    "ResourceNotRegistered": (
        "K23",
        "its node doesn't offer the GPUs",
        "find out why the device plugin doesn't run on the node: Karpenter waits without a timeout",
    ),
    "StartupTaintsExist": (
        "K24",
        "no controller removed a startup taint",
        "install the controller that removes the taint, or remove it from startupTaints of the NodePool",
    ),
    "KnownEphemeralTaintsExist": ("K24", "a taint of the boot stays", "find out which controller removes the taint"),
    "DRADriverPoolsNotPublished": (
        "K26",
        "the device driver published no devices",
        "find out why the kubelet plugin of the driver doesn't run on the node",
    ),
}
_TAKEN_BACK = ("SpotInterrupted", "CapacityReservationInstanceInterrupted", "ZonalShiftActive")


def find(live: Live, target: Target) -> Iterator[Cause]:
    """Yield where the NodeClaims wait from which a pod gets a node."""
    if not needs_node(live, target):
        return
    steps = [each for claim in claims(live, target) for each in _step(live, claim)]
    refused = list(_refused(live, target))
    yield from (*steps, *refused, *_taken_back(live, target, is_weak=bool(steps or refused)))
    if not steps:
        yield from _unregistered(live, target)


def _step(live: Live, claim: Object) -> Iterator[Cause]:
    """K17 to K26: the first condition of a NodeClaim that isn't True."""
    every = (live.condition(claim, each) for each in ("Launched", "Registered", "Initialized"))
    waiting = next((each for each in every if each is not None and each.status != "True"), None)
    if waiting is None or dig(claim.content, "metadata", "deletionTimestamp"):
        return
    age, since = live.seconds_since(live.created(claim)), live.time_text(live.created(claim))
    shown, name, text = (live.condition_evidence(claim, waiting),), title(claim), waiting.message or waiting.reason
    minutes, command = f"{int(age // 60)} minutes" if age is not None else "an unknown time", kubectl("describe", claim)
    if waiting.type == "Launched" and waiting.reason not in ("AwaitingReconciliation", ""):
        clock = Clock("Karpenter deletes the NodeClaim and retries", since, "5 minutes", _LIVENESS)
        message, fix = f"EC2 doesn't launch {name}: {text}", f"fix what {waiting.reason} reports"
        yield Cause("K19", name, message, "proven", shown, fix, command, clock=clock)
    elif age is not None and age < _USUAL_SECONDS:
        message = f"{name} was created {minutes} ago and waits at {waiting.type}: {text}"
        clock = Clock("Karpenter deletes a NodeClaim without a node", since, "15 minutes", _LIVENESS)
        if waiting.reason == "StartupTaintsExist" and (cause := _unremoved(live, claim, text, shown)) is not None:
            yield cause
        yield Cause("K17", name, message, "likely", shown, "wait for the node", command, clock=clock)
    elif waiting.type == "Registered":
        clock = Clock("Karpenter deletes the NodeClaim and retries", since, "15 minutes", _LIVENESS)
        instance = instance_id(claim)
        message = f"Instance {instance or '(unknown)'} of {name} hasn't become a node for {minutes}"
        fix = "read the console output of the instance, and check its role, routes and security groups"
        if instance:
            command = f"aws ec2 get-console-output --latest --instance-id {quote(instance)}"
        confidence: Confidence = "proven" if age is not None and age > _LATE_SECONDS else "likely"
        yield Cause("K20", name, message, confidence, shown, fix, command, clock=clock)
    elif waiting.reason in _INITIALIZED:
        node = live.object("Node", str(dig(claim.content, "status", "nodeName") or ""))
        if waiting.reason == "KnownEphemeralTaintsExist" and node is not None and not is_ready(live, node):
            return
        id, fault, fix = _INITIALIZED[waiting.reason]
        message = f"{name} isn't initialized after {minutes}, because {fault}: {text}"
        yield Cause(id, name, message, "proven", shown, fix, command)


def _unremoved(live: Live, claim: Object, text: str, shown: tuple[Evidence, ...]) -> Cause | None:
    """K24 of a young node: nothing in the cluster is known to remove its startup taint."""
    name = str(claim.labels.get(NODE_POOL))
    pools = (each for each in live.case.cluster.pools if each.name == name)
    taint = next((one for each in pools for one in each.startup_taints if one.key in text), None)
    if taint is None or live.certainty("DaemonSet") is None or live.certainty("Deployment") is None:
        return None
    # A component usually has the name of the domain of its taint, such as cilium for node.cilium.io.
    words = [each for each in re.split(r"[./-]", taint.key.partition("/")[0]) if each not in _COMMON_WORDS]
    software = " ".join(
        f"{each.name} {image}"
        for kind in ("DaemonSet", "Deployment")
        for each in live.objects(kind)
        for image in (one.image_text for one in read_pod_template(each).every_container)
    )
    if not words or any(each in software for each in words):
        return None
    message = f"{title(claim)} keeps startup taint {taint}, and nothing in the cluster is known to remove it: {text}"
    fix = f"install the component that removes the taint, or remove it from startupTaints of NodePool {name}"
    return Cause("K24", title(claim), message, "likely", shown, fix)


def _refused(live: Live, target: Target) -> Iterator[Cause]:
    for event in refused_launches(live, target):
        text = event.message.partition("fleet error(s), ")[2] or event.message.partition(" event: ")[2]
        pool = f"NodePool {event.name.rpartition('-')[0]}"
        clock = Clock("Karpenter tries a refused offering again", live.time_text(event.time), "3 minutes", _CACHE)
        message = f"EC2 rejected NodeClaim {event.name} of {pool}: {text or event.message}"
        fix = "act on the code of EC2, which may mean capacity, a quota, a subnet or a reservation"
        yield Cause("K18", pool, message, "likely", (live.event_evidence(event),), fix, clock=clock)
        return


def _unregistered(live: Live, target: Target) -> Iterator[Cause]:
    """K19 and K20 after Karpenter deleted the NodeClaims."""
    for pool in node_pools(live, target):
        health = live.condition(pool, "NodeRegistrationHealthy")
        if health is not None and health.status == "False":
            is_join = health.reason == "RegistrationFailed"
            message = f"{title(pool)} has nodes that didn't {'register' if is_join else 'launch'}: {health.message}"
            shown = (live.condition_evidence(pool, health),)
            fix = "check role, routes, security groups and user data of its instances"
            yield Cause("K20" if is_join else "K19", title(pool), message, "likely", shown, fix)


def _taken_back(live: Live, target: Target, *, is_weak: bool) -> Iterator[Cause]:
    names = {each.name for each in node_pools(live, target)}
    nodes = {each.name: str(each.labels.get(NODE_POOL)) for each in live.nodes}
    for event in live.events:
        pool = event.name.rpartition("-")[0] if event.kind == "NodeClaim" else nodes.get(event.name, "")
        is_recent = (live.seconds_since(event.time) or 0) < RECENT_SECONDS
        if event.reason in _TAKEN_BACK and pool in names and is_recent:
            message = f"EC2 took a node of NodePool {pool} back: {event.message}"
            fix = "allow on-demand as a fallback in the NodePool, or more instance types and zones"
            sure: Confidence = "possible" if is_weak else "likely"
            yield Cause("K28", f"NodePool {pool}", message, sure, (live.event_evidence(event),), fix)
            return
